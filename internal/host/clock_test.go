package host

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

func TestTheKernelsClockIsRead(t *testing.T) {
	c, err := New().Clock()
	require.NoError(t, err)
	var now unix.Timex
	if _, err := unix.Adjtimex(&now); err != nil {
		t.Skip("this kernel may not be asked: ", err)
	}
	require.Equal(t, now.Maxerror < 16_000_000, c.Kernel)
	require.Equal(t, c.Kernel, c.By("chronyd.service"))
	require.Equal(t, c.Timesyncd, c.By(Timesyncd))
}

func TestATreeHasNoClock(t *testing.T) {
	c, err := At(t.TempDir()).Clock()
	require.NoError(t, err)
	require.Zero(t, c)
}

func TestAClockThatIsNotSynchronisedInTimeIsToldWithItsServers(t *testing.T) {
	if _, err := New().Stat(timesyncdHas); err != nil {
		t.Fatal(err)
	}
	if c, _ := New().Clock(); c.Timesyncd {
		t.Skip("systemd-timesyncd keeps this machine's clock")
	}
	var told []string
	wait := change.WaitClock{Unit: Timesyncd, Servers: []string{"a.example", "192.0.2.1"}, Timeout: 30 * time.Millisecond}
	err := New().applyWaitClock(context.Background(), wait, func(s string) { told = append(told, s) })
	require.ErrorContains(t, err, "the clock was not synchronised within 30ms from a.example, 192.0.2.1; it says ")
	require.Equal(t, fail.Timeout, fail.KindOf(err))
	require.Len(t, told, 1)

	ctx, cancel := context.WithCancel(context.Background())
	wait.Timeout = time.Minute
	require.ErrorIs(t, New().applyWaitClock(ctx, wait, func(string) { cancel() }), context.Canceled)
}

func TestWhatChronydSaysOfItsServers(t *testing.T) {
	for csv, want := range map[string]string{
		"": "no server is known by its address, so their names are not resolved",
		"^,?,192.0.2.1,0,6,0,4294967295,0.000000000,0.000000000,0.000000000\n^,x,2001:db8::1,2,6,17,5,0.1,0.1,0.2\n": "192.0.2.1 has not answered, 2001:db8::1 disagrees with the others",
		"#,?,PHC0,0,0,0,1,0,0,0\n^,*,192.0.2.2,2,6,377,5,0.1,0.1,0.2\n":                                              "192.0.2.2 is followed",
		"^,!,192.0.2.3,2,6,377,5\n":   "192.0.2.3 is in state !",
		"506 Cannot talk to daemon\n": "no server is known by its address, so their names are not resolved",
	} {
		require.Equal(t, want, chronySources(csv))
	}
}

func FuzzChronySources(f *testing.F) {
	f.Add("^,?,192.0.2.1,0,6,0,4294967295,0.0,0.0,0.0\n")
	f.Add("#,*,PHC0,0,0,377,1\n,,,,,\n")
	f.Fuzz(func(t *testing.T, csv string) {
		said := chronySources(csv)
		require.NotEmpty(t, said)
		require.False(t, strings.HasSuffix(said, ", "))
	})
}
