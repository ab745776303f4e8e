package host

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOfUdevsAnswerOnlyWhatIdentifiesTheDeviceIsKept(t *testing.T) {
	require.Equal(t, map[string]string{"ID_SERIAL_SHORT": "S4X=01 ", "DM_UUID": "mpath-3"},
		parseUdev([]byte("DEVNAME=/dev/sda\nID_SERIAL_SHORT=S4X=01 \nID_WWN=\nnonsense\nID_MODEL=x\nDM_UUID=mpath-3")))
	require.Empty(t, parseUdev(nil))
}

func FuzzUdevsAnswerIsReadToItsEnd(f *testing.F) {
	f.Add([]byte("ID_SERIAL=a\nID_WWN=0x5\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for k, v := range parseUdev(b) {
			if v == "" || len(v) > len(b) || !slices.Contains(UdevIdentity, k) {
				t.Fatalf("%q: %q=%q", b, k, v)
			}
		}
	})
}
