package lab

import (
	"context"
	"fmt"
	"time"
)

// WaitFor calls cond until it returns nil, and reports its last error once
// limit has passed or ctx ends.
func WaitFor(ctx context.Context, what string, limit time.Duration, cond func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		err := cond(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting %s for %s: %w", limit, what, err)
		case <-tick.C:
		}
	}
}
