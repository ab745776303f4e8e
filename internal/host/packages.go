package host

import (
	"context"
	"nodeagent/internal/change"
)

func (l *Linux) applyImportKeys(ctx context.Context, c change.ImportKeys, progress func(string)) error {
	panic("ImportKeys")
}
func (l *Linux) applyInstallPackages(ctx context.Context, c change.InstallPackages, progress func(string)) error {
	panic("InstallPackages")
}
func (l *Linux) Installed(ctx context.Context, names []string) (map[string]string, error) {
	panic("Installed")
}
func (l *Linux) Version(ctx context.Context, program string) (string, error) { panic("Version") }
