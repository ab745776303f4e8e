package host_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/host"
)

func TestTheLastThingAProgramSaidIsQuoted(t *testing.T) {
	require.Equal(t, "mkfs.ext4: Input/output error while trying to create journal",
		host.LastSaid("", "Warning: x\nmkfs.ext4: Input/output error \n\twhile trying to create journal\n"))
	require.Equal(t, "two", host.LastSaid("out", "one\n\ttwo more\ntwo\n\n"))
	require.Equal(t, "out", host.LastSaid("out\n", " \n"))
	require.Equal(t, "tab", host.LastSaid("", "\ttab"))
	require.Empty(t, host.LastSaid("", ""))
}
