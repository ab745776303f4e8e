package host

import (
	"context"
	"os"
	"time"

	"nodeagent/internal/change"
)

// WithDiskLinks is a live host whose /dev/disk is another directory, since not
// every machine that runs the tests has udev.
func WithDiskLinks(dir string) *Linux {
	l := New()
	l.diskLinks = dir
	return l
}

// WaitLabel and VerifyMount are parts of applying that need no systemd.
func (l *Linux) WaitLabel(ctx context.Context, label, device string, limit time.Duration) error {
	return l.waitLabel(ctx, label, device, limit)
}

func (l *Linux) VerifyMount(c change.Mount, device string) error { return l.verifyMount(c, device) }

// Claim is what a format of ext4 begins with.
func Claim(f *os.File, uuid string) error { return claim(f, uuid) }
