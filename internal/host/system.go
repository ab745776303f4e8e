package host

import (
	"context"
	"nodeagent/internal/change"
)

func (l *Linux) applySetHostname(ctx context.Context, c change.SetHostname, progress func(string)) error {
	panic("SetHostname")
}
func (l *Linux) applyRunHook(ctx context.Context, c change.RunHook, progress func(string)) error {
	panic("RunHook")
}
func (l *Linux) System() (System, error) { panic("System") }
