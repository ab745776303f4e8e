package host

import (
	"context"
	"nodeagent/internal/change"
)

func (l *Linux) applyAllowPorts(ctx context.Context, c change.AllowPorts, progress func(string)) error {
	panic("AllowPorts")
}
func (l *Linux) Firewalld(ctx context.Context) (Firewalld, error) { panic("Firewalld") }
