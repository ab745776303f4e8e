package host

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

const (
	// unsynchronised is the most that the kernel's maximum error counts to, in
	// µs; it is there at boot and when nobody has synchronised the clock for long
	// (NTP_PHASE_LIMIT of the kernel's timex.h). STA_UNSYNC isn't asked: chronyd
	// clears it only where rtcsync is set. systemd judges alike.
	unsynchronised = 16_000_000
	// timesyncdHas is touched whenever systemd-timesyncd has set the clock
	// (systemd-timesyncd.service(8)); it goes when the service stops. The
	// kernel's state would not do: it outlives a change of servers.
	timesyncdHas = "/run/systemd/timesync/synchronized"
)

// Clock asks the kernel and looks for timesyncd's file. A kernel that may not
// be asked, as in some containers, says no.
func (l *Linux) Clock() (Clock, error) {
	if !l.Live() {
		return Clock{}, nil
	}
	var c Clock
	var t unix.Timex // no modes: nothing is set
	if _, err := unix.Adjtimex(&t); err == nil {
		c.Kernel = t.Maxerror < unsynchronised
	}
	info, err := l.Stat(timesyncdHas)
	c.Timesyncd = info.Exists
	return c, err
}

// applyWaitClock waits for the client. timesyncd's file is watched. The kernel
// announces nothing but steps of the clock, and a clock that is nearly right is
// never stepped: so adjtimex(2) is asked each second, which costs a system call.
func (l *Linux) applyWaitClock(ctx context.Context, c change.WaitClock, progress func(string)) error {
	defer l.external(time.Now())
	told := false
	ok, err := watchLink(ctx, timesyncdHas, c.Timeout, func() bool {
		now, err := l.Clock()
		done := err == nil && now.By(c.Unit)
		if !done && !told {
			progress("the clock says " + stamp(time.Now()) + " and is not synchronised yet")
			told = true
		}
		return done
	})
	if err != nil || ok {
		return err
	}
	from := ""
	if len(c.Servers) > 0 {
		from = " from " + strings.Join(c.Servers, ", ")
	}
	text := fmt.Sprintf("the clock was not synchronised within %s%s; it says %s", c.Timeout, from, stamp(time.Now()))
	if said := l.clientSays(ctx, c.Unit); said != "" {
		text += "; " + said
	}
	return fail.New(fail.Timeout, "see that the names are resolved and that UDP port 123 of the servers is reached, or name others in spec.time.servers", "%s", text)
}

// clientSays is what an NTP client knows of its servers; empty when it can't
// be asked.
func (l *Linux) clientSays(ctx context.Context, unit string) string {
	switch unit {
	case "":
		return ""
	case "chronyd.service":
		r, err := l.exec(ctx, program{name: "chronyc", timeout: 10 * time.Second, args: []string{"-n", "-c", "sources"}})
		if err == nil && r.exit == 0 {
			return "chronyd says: " + chronySources(string(r.stdout))
		}
	}
	if last := l.lastJournal(ctx, unit); last != "" {
		return "the last line of " + unit + ": " + last
	}
	return ""
}

// chronyStates are what chronyc sources calls a source (chronyc(1)).
var chronyStates = map[string]string{
	"*": "is followed", "+": "is good", "-": "is not used", "?": "can't be used", "x": "disagrees with the others", "~": "is too variable",
}

// chronySources puts the output of chronyc -c sources into words: fields are
// mode, state, address, stratum, poll, reach (octal), …
func chronySources(csv string) string {
	var out []string
	for line := range strings.Lines(csv) {
		f := strings.Split(strings.TrimSpace(line), ",")
		if len(f) < 6 || f[0] == "#" { // a reference clock
			continue
		}
		said := chronyStates[f[1]]
		if f[5] == "0" {
			said = "has not answered"
		} else if said == "" {
			said = "is in state " + f[1]
		}
		out = append(out, f[2]+" "+said)
	}
	if len(out) == 0 {
		return "no server is known by its address, so their names are not resolved"
	}
	return strings.Join(out, ", ")
}
