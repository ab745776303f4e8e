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
	var last error
	for {
		err := cond(ctx)
		if err == nil {
			return nil
		}
		// A call that the deadline cut short says less than the one before it.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting %s for %s: %w", limit, what, last)
		case <-tick.C:
		}
	}
}
