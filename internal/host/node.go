package host

import (
	"context"
	"nodeagent/internal/change"
)

func (l *Linux) applyWaitReady(ctx context.Context, c change.WaitReady, progress func(string)) error {
	panic("WaitReady")
}
func (l *Linux) Node(ctx context.Context, name string) (Node, error) { panic("Node") }
