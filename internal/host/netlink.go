package host

import (
	"context"
	"nodeagent/internal/change"
)

func (l *Linux) applyWaitRoute(ctx context.Context, c change.WaitRoute, progress func(string)) error {
	panic("WaitRoute")
}
func (l *Linux) Network() (Network, error) { panic("Network") }
