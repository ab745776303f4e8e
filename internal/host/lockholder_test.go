package host

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheHolderOfALockIsFoundInProcLocks(t *testing.T) {
	table := "1: POSIX  ADVISORY  WRITE 812 08:01:131 0 EOF\n" +
		"1: -> POSIX  ADVISORY  WRITE 999 08:01:131 0 EOF\n" +
		"2: FLOCK  ADVISORY  WRITE 77 00:19:4242 0 EOF\n" +
		"3: OFDLCK ADVISORY  WRITE -1 08:01:5 0 EOF\nnonsense\n"
	require.Equal(t, 812, holderOf(table, 131))
	require.Equal(t, 77, holderOf(table, 4242))
	require.Equal(t, -1, holderOf(table, 5))
	require.Zero(t, holderOf(table, 1))
	require.Empty(t, alivePid(-1))
	require.Contains(t, alivePid(1), "process 1 (")
}

func FuzzHolderOfNeverPanics(f *testing.F) {
	f.Add("1: POSIX ADVISORY WRITE 1 a:b:2 0 EOF")
	f.Fuzz(func(t *testing.T, s string) { holderOf(s, 2) })
}
