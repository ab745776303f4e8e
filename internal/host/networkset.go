package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/godbus/dbus/v5"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/prereq/network/netfile"
)

// applySetInterface configures an interface through its manager.
func (l *Linux) applySetInterface(ctx context.Context, c change.SetInterface, progress func(string)) error {
	write := func(ctx context.Context) error { return l.writeNetwork(ctx, c.Path, c.Mode, c.Content) }
	undo := func(ctx context.Context) error {
		if c.Before != nil {
			return l.writeNetwork(ctx, c.Path, c.Before.Mode, c.Before.Content)
		}
		return unlink(c.Path)
	}
	if c.Manager == netfile.Networkd {
		s := &networkdSwitch{l: l, link: c.Interface, path: c.Path, limit: rollbackAfter, change: write, undo: undo}
		return l.tryNetwork(ctx, trialOf(c), s, progress)
	}
	nm, err := runningNM(ctx)
	if err != nil {
		return err
	}
	defer nm.Close()
	return l.tryNetwork(ctx, trialOf(c), nm.setting(c, write, undo), progress)
}

// setting is the switch to a connection of nodeagent's.
func (n *networkManager) setting(c change.SetInterface, write, undo func(context.Context) error) *nmSwitch {
	s := &nmSwitch{networkManager: n, link: c.Interface, undo: undo, path: c.Path, limit: rollbackAfter}
	s.change = func(ctx context.Context) error {
		if err := write(ctx); err != nil {
			return err
		}
		if err := n.load(ctx, c.Path); err != nil {
			return err
		}
		return n.up(ctx, c.Interface, netfile.UUID(c.Interface))
	}
	return s
}

// applyResetInterface takes the configuration away, unless the host would lose
// its default route by that.
func (l *Linux) applyResetInterface(ctx context.Context, c change.ResetInterface, progress func(string)) error {
	t := trial{link: c.Interface, wait: networkAppears}
	ours, err := os.ReadFile(c.Path)
	there := err == nil
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	_, mode := netfile.Path(c.Manager, c.Interface)
	undo := func(ctx context.Context) error {
		if !there {
			return nil
		}
		return l.writeNetwork(ctx, c.Path, mode, string(ours))
	}
	gone := func(context.Context) error {
		if err := unlink(c.Path); err != nil {
			return err
		}
		return removeDirs(filepath.Dir(c.Path), c.Dirs)
	}
	if c.Manager == netfile.Networkd {
		s := &networkdSwitch{l: l, link: c.Interface, path: c.Path, limit: rollbackAfter, change: gone, undo: undo}
		return l.tryNetwork(ctx, t, s, progress)
	}
	nm, err := runningNM(ctx)
	if err != nil {
		return err
	}
	defer nm.Close()
	s := &nmSwitch{networkManager: nm, link: c.Interface, undo: undo, path: c.Path, limit: rollbackAfter}
	s.change = func(ctx context.Context) error {
		if c.UUID != "" && nm.connection(ctx, c.UUID) != "" {
			return nm.up(ctx, c.Interface, c.UUID)
		}
		return nm.drop(ctx, netfile.UUID(c.Interface)) // NetworkManager chooses among what is left
	}
	if err := l.tryNetwork(ctx, t, s, progress); err != nil {
		return err
	}
	// Only now: a run that is killed before finds the file and does it again.
	return errors.Join(nm.drop(ctx, netfile.UUID(c.Interface)), gone(ctx))
}

// writeNetwork writes a manager's file.
func (l *Linux) writeNetwork(ctx context.Context, path, mode, content string) error {
	bits, err := strconv.ParseUint(mode, 8, 12)
	if err != nil {
		return fmt.Errorf("mode %q of %s is not octal", mode, path)
	}
	return l.writeAtomic(ctx, path, []byte(content), os.FileMode(bits), 0, 0)
}

func runningNM(ctx context.Context) (*networkManager, error) {
	nm, err := nmBus(ctx)
	if err == nil && nm == nil {
		err = fail.New(fail.Step, "see: systemctl status NetworkManager, and run again", "NetworkManager has stopped since it was looked at")
	}
	return nm, err
}

// nmSwitch changes an interface between two calls of NetworkManager's
// checkpoints: it takes back by itself what isn't confirmed in time.
type nmSwitch struct {
	*networkManager
	link, path   string
	limit        time.Duration // rollbackAfter
	checkpoint   dbus.ObjectPath
	change, undo func(context.Context) error
}

// deleteNew is NM_CHECKPOINT_CREATE_FLAG_DELETE_NEW_CONNECTIONS.
const deleteNew = uint32(2)

func (s *nmSwitch) begin(ctx context.Context) error {
	device, err := s.device(ctx, s.link)
	if err == nil && device == "" {
		err = fail.New(fail.Step, "see: nmcli device", "NetworkManager has no device %s any more", s.link)
	}
	if err != nil {
		return err
	}
	left, err := s.checkpoints(ctx, device)
	if err != nil {
		return err
	}
	o, err := s.owner(ctx, s.link)
	if err != nil {
		return err
	}
	_, written := os.Lstat(s.path) // killed between file and activation
	for _, c := range left {
		if o.UUID != netfile.UUID(s.link) && written != nil {
			return fail.New(fail.Step, "run again when it is done", "another program is changing the configuration of %s in NetworkManager (checkpoint %s)", s.link, filepath.Base(string(c)))
		}
		if err := s.back(ctx, c); err != nil {
			return err
		}
	}
	err = s.call(ctx, nmPath, nmName+".CheckpointCreate", []any{&s.checkpoint}, []dbus.ObjectPath{device}, uint32(s.limit.Seconds()), deleteNew)
	if err != nil {
		return fail.Wrap(fail.Step, err, "NetworkManager 1.4 and later can do it; see: journalctl -u NetworkManager", "NetworkManager can't remember what is active on %s, so it is left alone", s.link)
	}
	return nil
}

func (s *nmSwitch) activate(ctx context.Context) error { return s.change(ctx) }

func (s *nmSwitch) confirm(ctx context.Context) error {
	if err := s.call(ctx, nmPath, nmName+".CheckpointDestroy", nil, s.checkpoint); err != nil {
		return fmt.Errorf("NetworkManager's checkpoint can't be ended: %w", err)
	}
	return nil
}

func (s *nmSwitch) rollback(ctx context.Context) error {
	err := s.back(ctx, s.checkpoint)
	if undone := s.undo(ctx); undone != nil {
		return errors.Join(err, undone)
	}
	_ = s.load(ctx, s.path) // it forgets what is gone; it does that for what it deleted itself, too
	return err
}

// back rolls a checkpoint back.
func (n *networkManager) back(ctx context.Context, checkpoint dbus.ObjectPath) error {
	var results map[string]uint32
	if err := n.call(ctx, nmPath, nmName+".CheckpointRollback", []any{&results}, checkpoint); err != nil {
		return fmt.Errorf("NetworkManager can't go back to what was before: %w", err)
	}
	for device, code := range results {
		if code != 0 {
			return fmt.Errorf("NetworkManager can't go back to what was before on %s (result %d)", filepath.Base(device), code)
		}
	}
	return nil
}

// load has NetworkManager read a keyfile.
func (n *networkManager) load(ctx context.Context, path string) error {
	var ok bool
	var failed []string
	if err := n.call(ctx, nmSettingsAt, nmSettings+".LoadConnections", []any{&ok, &failed}, []string{path}); err != nil {
		return fmt.Errorf("NetworkManager can't read %s: %w", path, err)
	}
	if !ok || len(failed) > 0 {
		return fail.New(fail.Step, "see: journalctl -u NetworkManager", "NetworkManager does not take %s", path)
	}
	return nil
}

// connection is the path of a connection; empty when there is none.
func (n *networkManager) connection(ctx context.Context, uuid string) dbus.ObjectPath {
	var c dbus.ObjectPath
	if n.call(ctx, nmSettingsAt, nmSettings+".GetConnectionByUuid", []any{&c}, uuid) != nil {
		return ""
	}
	return c
}

// up activates a connection on an interface.
func (n *networkManager) up(ctx context.Context, link, uuid string) error {
	device, err := n.device(ctx, link)
	if err != nil {
		return err
	}
	c := n.connection(ctx, uuid)
	if c == "" || device == "" {
		return fail.New(fail.Step, "see: nmcli connection; nmcli device", "NetworkManager doesn't know the connection %s or the device %s", uuid, link)
	}
	var active dbus.ObjectPath
	if err := n.call(ctx, nmPath, nmName+".ActivateConnection", []any{&active}, c, device, dbus.ObjectPath("/")); err != nil {
		return fmt.Errorf("NetworkManager does not activate the connection on %s: %w", link, err)
	}
	return nil
}

// drop deletes a connection and its file; one that isn't there is fine.
func (n *networkManager) drop(ctx context.Context, uuid string) error {
	c := n.connection(ctx, uuid)
	if c == "" {
		return nil
	}
	if err := n.call(ctx, c, nmConnection+".Delete", nil); err != nil {
		return fmt.Errorf("NetworkManager does not delete nodeagent's connection: %w", err)
	}
	return nil
}
