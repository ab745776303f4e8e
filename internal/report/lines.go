package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// JSONLines writes each event as a line of JSON.
func JSONLines(w io.Writer) Sink {
	enc := json.NewEncoder(w)
	return func(e Event) { _ = enc.Encode(e) } // a closed pipe must not stop a run
}

// Text writes plain lines for terminals, serial consoles and journals. colour
// is for terminals only.
func Text(w io.Writer, colour bool) Sink {
	paint := func(code, s string) string {
		if !colour {
			return s
		}
		return "\x1b[" + code + "m" + s + "\x1b[0m"
	}
	last := ""
	return func(e Event) {
		switch e.Kind {
		case Warning, Note:
			where, tint := "", map[Kind]string{Warning: "33", Note: "36"}[e.Kind]
			if e.Step != "" {
				where = e.Step + ": "
			}
			fmt.Fprintf(w, "%s %s%s\n", paint(tint, string(e.Kind)+":"), where, e.Text)
		case ChangeStart:
			fmt.Fprintf(w, "%s %s\n", paint("36", fmt.Sprintf("%-10s", e.Step)), e.Text)
		case Progress:
			if e.Text != last {
				fmt.Fprintf(w, "%-10s   %s\n", "", clip(e.Text, 160))
			}
			last = e.Text
		case StepDone:
			if e.Changes > 0 {
				fmt.Fprintf(w, "%s %s %d change(s), %s\n", paint("36", fmt.Sprintf("%-10s", e.Step)), paint("32", "done:"), e.Changes, Took(e.Duration))
			}
		}
	}
}

// Took rounds a duration to what a person wants to read.
func Took(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func clip(s string, n int) string {
	s = strings.Map(func(r rune) rune { // other programs' control characters stay out of terminals
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, s)
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}
