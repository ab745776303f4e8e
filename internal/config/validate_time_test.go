package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNTPServersAreChecked(t *testing.T) {
	for _, c := range []struct{ time, want string }{
		{`{servers: [""]}`, `spec.time.servers[0]: "" can't name an NTP server`},
		{`{servers: ["ntp.example iburst"]}`, `"ntp.example iburst" can't name`},
		{`{servers: ["ntp.example\nmakestep 1 1"]}`, "can't name an NTP server"},
		{`{servers: ["ntp.example:123"]}`, "can't name an NTP server"},
		{`{servers: ["-x"]}`, "can't name an NTP server"},
		{`{servers: ["fe80::1%eth0"]}`, "fe80::1%eth0 is an address of one link only"},
		{`{servers: [a.example, b.example, a.example]}`, "spec.time.servers[2]: the server a.example is given twice"},
		{`{syncTimeout: -1s}`, "spec.time.syncTimeout"},
	} {
		_, err := load(t, smallest+"  time: "+c.time+"\n")
		require.ErrorContains(t, err, c.want, c.time)
	}
}

func TestTheFirstSynchronisationIsAwaitedUnlessToldOtherwise(t *testing.T) {
	for text, want := range map[string]Time{
		"{servers: [ntp.example, 2001:db8::123]}": {Servers: []string{"ntp.example", "2001:db8::123"}, SyncTimeout: Duration{5 * time.Minute, true}},
		"{servers: [a], syncTimeout: 0}":          {Servers: []string{"a"}, SyncTimeout: Duration{0, true}},
		"{syncTimeout: 90s}":                      {SyncTimeout: Duration{90 * time.Second, true}},
		"{}":                                      {},
	} {
		c, err := load(t, smallest+"  time: "+text+"\n")
		require.NoError(t, err, text)
		require.Equal(t, want, c.Spec.Time)
		require.Equal(t, text != "{}", c.Spec.Time.Asked())
	}
}
