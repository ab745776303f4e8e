package host

import (
	"context"
	"nodeagent/internal/change"
)

func (l *Linux) applyLoadModule(ctx context.Context, c change.LoadModule, progress func(string)) error {
	panic("LoadModule")
}
func (l *Linux) applySetSysctl(ctx context.Context, c change.SetSysctl, progress func(string)) error {
	panic("SetSysctl")
}
