package host

import (
	"context"
	"nodeagent/internal/change"
)

func (l *Linux) applyInstallArchive(ctx context.Context, c change.InstallArchive, progress func(string)) error {
	panic("InstallArchive")
}
