package host

import (
	"context"
	"nodeagent/internal/change"
)

func (l *Linux) applySetUnit(ctx context.Context, c change.SetUnit, progress func(string)) error {
	panic("SetUnit")
}
func (l *Linux) applyMaskUnit(ctx context.Context, c change.MaskUnit, progress func(string)) error {
	panic("MaskUnit")
}
func (l *Linux) applySwapOff(ctx context.Context, c change.SwapOff, progress func(string)) error {
	panic("SwapOff")
}
func (l *Linux) Units(ctx context.Context, names []string) (map[string]Unit, error) { panic("Units") }
func (l *Linux) SwapUnits(ctx context.Context) (map[string]Unit, error)             { panic("SwapUnits") }
