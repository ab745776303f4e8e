package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// Apply carries out one change. Every effect that nodeagent can have on a host
// starts here.
func (l *Linux) Apply(ctx context.Context, c change.Change, progress func(string)) error {
	if !l.Live() {
		return fmt.Errorf("%s: a tree of files is observed, never changed", c.ID())
	}
	if progress == nil {
		progress = func(string) {}
	}
	defer l.forget()
	if c.Class() == change.Wait { // others' time, as that of programs is
		start := time.Now()
		defer func() {
			l.mu.Lock()
			l.stats.External += time.Since(start)
			l.mu.Unlock()
		}()
	}
	return explain(l.apply(ctx, c, progress))
}

func (l *Linux) apply(ctx context.Context, c change.Change, progress func(string)) error {
	switch c := c.(type) {
	case change.WriteFile:
		return l.applyWriteFile(ctx, c, progress)
	case change.RemoveFile:
		return l.applyRemoveFile(ctx, c, progress)
	case change.SetHostname:
		return l.applySetHostname(ctx, c, progress)
	case change.SetInterface:
		return l.applySetInterface(ctx, c, progress)
	case change.ResetInterface:
		return l.applyResetInterface(ctx, c, progress)
	case change.UpdateTrust:
		return l.applyUpdateTrust(ctx, c, progress)
	case change.WaitClock:
		return l.applyWaitClock(ctx, c, progress)
	case change.AddGroup:
		return l.applyAddGroup(ctx, c, progress)
	case change.AddUser:
		return l.applyAddUser(ctx, c, progress)
	case change.ChangeUser:
		return l.applyChangeUser(ctx, c, progress)
	case change.SetPassword:
		return l.applySetPassword(ctx, c, progress)
	case change.AuthorizeKeys:
		return l.applyAuthorizeKeys(ctx, c, progress)
	case change.ProbeRepository:
		return l.applyProbeRepository(ctx, c, progress)
	case change.ImportKeys:
		return l.applyImportKeys(ctx, c, progress)
	case change.InstallPackages:
		return l.applyInstallPackages(ctx, c, progress)
	case change.InstallArchive:
		return l.applyInstallArchive(ctx, c, progress)
	case change.SwapOff:
		return l.applySwapOff(ctx, c, progress)
	case change.MaskUnit:
		return l.applyMaskUnit(ctx, c, progress)
	case change.SetUnit:
		return l.applySetUnit(ctx, c, progress)
	case change.LoadModule:
		return l.applyLoadModule(ctx, c, progress)
	case change.SetSysctl:
		return l.applySetSysctl(ctx, c, progress)
	case change.MakeFilesystem:
		return l.applyMakeFilesystem(ctx, c, progress)
	case change.Mount:
		return l.applyMount(ctx, c, progress)
	case change.EmptyFilesystem:
		return l.applyEmptyFilesystem(ctx, c, progress)
	case change.LinkDisk:
		return l.applyLinkDisk(ctx, c, progress)
	case change.UnlinkDisk:
		return l.applyUnlinkDisk(ctx, c, progress)
	case change.Relabel:
		return l.applyRelabel(ctx, c, progress)
	case change.AllowPorts:
		return l.applyAllowPorts(ctx, c, progress)
	case change.WaitRoute:
		return l.applyWaitRoute(ctx, c, progress)
	case change.FetchToken:
		return l.applyFetchToken(ctx, c, progress)
	case change.DropToken:
		return l.applyDropToken(ctx, c, progress)
	case change.Join:
		return l.applyJoin(ctx, c, progress)
	case change.LabelNode:
		return l.applyLabelNode(ctx, c, progress)
	case change.WaitReady:
		return l.applyWaitReady(ctx, c, progress)
	case change.RunHook:
		return l.applyRunHook(ctx, c, progress)
	case change.RestoreFile:
		return l.applyRestoreFile(ctx, c, progress)
	case change.RevokeKeys:
		return l.applyRevokeKeys(ctx, c, progress)
	case change.SwapOn:
		return l.applySwapOn(ctx, c, progress)
	case change.UnmaskUnit:
		return l.applyUnmaskUnit(ctx, c, progress)
	case change.RemoveKeys:
		return l.applyRemoveKeys(ctx, c, progress)
	case change.RemovePackages:
		return l.applyRemovePackages(ctx, c, progress)
	case change.RemoveArchive:
		return l.applyRemoveArchive(ctx, c, progress)
	case change.ClosePorts:
		return l.applyClosePorts(ctx, c, progress)
	case change.Unmount:
		return l.applyUnmount(ctx, c, progress)
	case change.StopPods:
		return l.applyStopPods(ctx, c, progress)
	case change.UnmountVolumes:
		return l.applyUnmountVolumes(ctx, c, progress)
	case change.RemoveState:
		return l.applyRemoveState(ctx, c, progress)
	case change.CleanNetwork:
		return l.applyCleanNetwork(ctx, c, progress)
	}
	return fmt.Errorf("%s: no way to apply a %s", c.ID(), change.Kind(c))
}

// explain gives the errors that a full or read-only filesystem has everywhere
// their sentence and the way out.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fail.Wrap(fail.Step, err, "make room (df -h; df -i), then run again: what is done stays done", "a filesystem is full")
	case errors.Is(err, unix.EROFS):
		return fail.Wrap(fail.Step, err, "see why (findmnt -o TARGET,OPTIONS; journalctl -k), mount it writable, and run again", "a filesystem is read-only")
	}
	return err
}
