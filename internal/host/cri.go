package host

import (
	"context"
)

func (l *Linux) CRI(ctx context.Context, socket string) (RuntimeVersion, error) { panic("CRI") }
