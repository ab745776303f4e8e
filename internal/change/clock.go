package change

import (
	"fmt"
	"strings"
	"time"
)

// WaitClock waits until an NTP client has synchronised the clock.
type WaitClock struct {
	Unit    string        `json:"unit"`              // the client: chronyd.service; empty when it isn't known
	Servers []string      `json:"servers,omitempty"` // for people
	Timeout time.Duration `json:"timeout"`
}

func (c WaitClock) ID() string { return "clock" }
func (c WaitClock) Summary() string {
	from := ""
	if len(c.Servers) > 0 {
		from = " from " + strings.Join(c.Servers, ", ")
	}
	return fmt.Sprintf("wait up to %s for the clock to be synchronised%s", c.Timeout, from)
}
func (c WaitClock) Diff() string { return "" }
func (c WaitClock) Class() Class { return Wait }
