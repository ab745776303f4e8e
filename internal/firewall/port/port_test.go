package port

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPortsAndRangesAreParsed(t *testing.T) {
	for s, want := range map[string]Range{
		"10250/tcp":       {10250, 10250, "tcp"},
		"30000-32767/udp": {30000, 32767, "udp"},
		"1-65535/sctp":    {1, 65535, "sctp"},
		"53-53/udp":       {53, 53, "udp"},
	} {
		got, err := Parse(s)
		require.NoError(t, err, s)
		require.Equal(t, want, got, s)
	}
}

func TestWhatIsNoPortIsRefusedWithItsReason(t *testing.T) {
	for s, reason := range map[string]string{
		"10250":           "no protocol",
		"10250/":          `protocol ""`,
		"10250/TCP":       `protocol "TCP"`,
		"http/tcp":        `"http" isn't a port`,
		"0/tcp":           `"0" isn't a port`,
		"70000/tcp":       `"70000" isn't a port`,
		"+80/tcp":         `"+80" isn't a port`,
		"-80/tcp":         `"" isn't a port`,
		"80-/tcp":         `"" isn't a port`,
		"90-80/tcp":       "runs backwards",
		"30000:32767/tcp": `"30000:32767" isn't a port`,
		"80/tcp ":         `protocol "tcp "`,
		"":                "no protocol",
	} {
		_, err := Parse(s)
		require.ErrorContains(t, err, reason, s)
	}
}

func ranges(t *testing.T, list ...string) []Range {
	t.Helper()
	r, other := ParseAll(list)
	require.Empty(t, other)
	return r
}

// F2 and F3 of the field cases are rows here.
func TestOnlyUncoveredRangesAreMissing(t *testing.T) {
	for name, c := range map[string]struct{ want, open, missing []string }{
		"F3: a subset of an open range is open":    {[]string{"1002-1003/tcp"}, []string{"1000-1010/tcp"}, nil},
		"the very same range":                      {[]string{"30000-32767/tcp"}, []string{"30000-32767/tcp"}, nil},
		"another protocol":                         {[]string{"30000-32767/udp"}, []string{"30000-32767/tcp"}, []string{"30000-32767/udp"}},
		"adjacent ranges together":                 {[]string{"1002-1008/tcp"}, []string{"1006-1010/tcp", "1000-1005/tcp"}, nil},
		"overlapping ranges together":              {[]string{"1-20/tcp"}, []string{"1-12/tcp", "5-20/tcp"}, nil},
		"a hole of one port":                       {[]string{"1000-1010/tcp"}, []string{"1000-1004/tcp", "1006-1010/tcp"}, []string{"1000-1010/tcp"}},
		"one port beyond the end":                  {[]string{"1000-1011/tcp"}, []string{"1000-1010/tcp"}, []string{"1000-1011/tcp"}},
		"wants that overlap are one":               {[]string{"10250/tcp", "10240-10260/tcp", "10250/tcp"}, nil, []string{"10240-10260/tcp"}},
		"neighbours that are wanted stay two":      {[]string{"81/tcp", "80/tcp"}, nil, []string{"80/tcp", "81/tcp"}},
		"the last port has no neighbour":           {[]string{"65535/tcp", "1/tcp"}, []string{"65535/tcp"}, []string{"1/tcp"}},
		"a contained range doesn't shorten":        {[]string{"5-9/tcp"}, []string{"1-10/tcp", "2-3/tcp"}, nil},
		"nothing asked, nothing missing":           {nil, []string{"1/tcp"}, nil},
		"sctp and tcp of one number are different": {[]string{"9/sctp", "9/tcp"}, []string{"9/tcp"}, []string{"9/sctp"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.missing, Strings(Missing(ranges(t, c.want...), ranges(t, c.open...))))
		})
	}
}

func TestARangeIsWrittenWithADashForFirewalldAndAColonForIptables(t *testing.T) {
	r, err := Parse("30000-32767/tcp")
	require.NoError(t, err)
	require.Equal(t, "30000-32767/tcp", r.String())
	require.Equal(t, "30000:32767", r.Ports(":"))
	r.High = r.Low
	require.Equal(t, "30000", r.Ports(":"))
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"10250/tcp", "30000-32767/udp", "0/tcp", "1-2-3/tcp", "/"} {
		f.Add(s, "80-90/tcp")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		r, err := Parse(a)
		if err != nil {
			return
		}
		again, err := Parse(r.String())
		require.NoError(t, err)
		require.Equal(t, r, again)
		require.Empty(t, Missing([]Range{r}, []Range{r}))
		if o, err := Parse(b); err == nil {
			require.Empty(t, Missing([]Range{r, o}, Merge([]Range{o, r})))
		}
	})
}
