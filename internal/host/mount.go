package host

import (
	"context"
	"nodeagent/internal/change"
)

func (l *Linux) applyMakeFilesystem(ctx context.Context, c change.MakeFilesystem, progress func(string)) error {
	panic("MakeFilesystem")
}
func (l *Linux) applyMount(ctx context.Context, c change.Mount, progress func(string)) error {
	panic("Mount")
}
func (l *Linux) applyRelabel(ctx context.Context, c change.Relabel, progress func(string)) error {
	panic("Relabel")
}
func (l *Linux) Mounts() ([]Mount, error)                   { panic("Mounts") }
func (l *Linux) Filesystem(path string) (Filesystem, error) { panic("Filesystem") }
