package host

import (
	"context"
	"os"
	"testing"
	"time"

	"nodeagent/internal/change"
)

// Linked is a live host whose /dev/disk is another directory, since not every
// machine that runs the tests has udev.
type Linked struct {
	*Linux
	Dir string
}

// BlockDevices looks for links in the directory.
func (k Linked) BlockDevices(ctx context.Context, _ bool) ([]BlockDevice, error) {
	return k.blockDevices(ctx, linkDir(k.Dir))
}

// MakeFilesystem is how that change is applied.
func (k Linked) MakeFilesystem(ctx context.Context, c change.MakeFilesystem) error {
	defer k.forget()
	return k.makeFilesystem(ctx, linkDir(k.Dir), c, func(string) {})
}

// EmptyFilesystem is how that change is applied.
func (k Linked) EmptyFilesystem(c change.EmptyFilesystem) error {
	return k.emptyFilesystem(linkDir(k.Dir), c, func(string) {})
}

// WaitLabel and VerifyMount are parts of applying that need no systemd.
func (k Linked) WaitLabel(ctx context.Context, label, device string, limit time.Duration) error {
	return k.waitLabel(ctx, linkDir(k.Dir).label(label), device, limit)
}

// VerifyMount looks at what is mounted.
func (k Linked) VerifyMount(c change.Mount, device string) error { return k.verifyMount(c, device) }

// LinkDisk is how that change is applied, with less patience.
func (k Linked) LinkDisk(ctx context.Context, c change.LinkDisk, limit time.Duration) error {
	defer k.forget()
	return k.linkDisk(ctx, c, limit, func(string) {})
}

// UnlinkDisk is how that change is applied, with less patience.
func (k Linked) UnlinkDisk(ctx context.Context, c change.UnlinkDisk, limit time.Duration) error {
	defer k.forget()
	return k.unlinkDisk(ctx, c, limit, func(string) {})
}

// Claim is what a format of ext4 begins with.
func Claim(f *os.File, uuid string) error { return claim(f, uuid) }

// Span is a range of bytes.
type Span struct{ At, Size int64 }

// MustBeZero is what is read of a device before it counts as blank.
func MustBeZero(size int64) (out []Span) {
	for _, s := range mustBeZero(size) {
		out = append(out, Span{s.at, s.size})
	}
	return out
}

// LastSaid is what a message quotes of a program's output.
func LastSaid(stdout, stderr string) string {
	return result{stdout: []byte(stdout), stderr: []byte(stderr)}.last()
}

// InNamespaces is inNamespaces.
func InNamespaces(t *testing.T) bool { return inNamespaces(t) }
