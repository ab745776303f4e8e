package reset

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"slices"

	"nodeagent/internal/change"
	"nodeagent/internal/host"
)

// fileFacts is a file that was written or removed, as it is now.
type fileFacts struct {
	now      host.Text
	keepsake *change.Keepsake
	empty    []string // directories made for it that hold nothing else now, deepest last
}

func observeFile(v host.View, d Deed, file string) (f fileFacts, err error) {
	if f.now, err = host.ReadText(v, file); err != nil {
		return f, err
	}
	b, err := v.ReadFile(change.KeepsakePath(file))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return f, err
	default:
		f.keepsake = &change.Keepsake{}
		if err := json.Unmarshal(b, f.keepsake); err != nil {
			return f, err
		}
	}
	f.empty, err = emptied(v, d.made(), file)
	return f, err
}

// emptied are those of the directories that hold nothing but what goes with the
// file, deepest last.
func emptied(v host.View, made []string, gone ...string) ([]string, error) {
	var out []string
	for _, dir := range slices.Backward(made) {
		names, err := v.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		holds := slices.ContainsFunc(names, func(n string) bool {
			p := path.Join(dir, n)
			return !slices.Contains(gone, p) && !slices.Contains(out, p)
		})
		if !holds {
			out = append(out, dir)
		}
	}
	slices.Reverse(out)
	return out, nil
}

// version is a file at one moment; nil when it didn't exist.
type version = *change.Saved

func same(a, b version) bool { return a == b || a != nil && b != nil && *a == *b }

func of(t host.Text) version {
	if !t.Exists {
		return nil
	}
	return &change.Saved{Mode: t.Mode, Owner: t.Owner, Content: t.Content}
}

// steps lists what the deed made of the file, oldest first.
type fileStep struct {
	before, after version
	unknown       bool     // before isn't recorded
	sums          []string // of secret content that nodeagent wrote
}

func fileSteps(d Deed, f fileFacts) (out []fileStep, reload string) {
	for _, r := range d.Records {
		switch c := r.Change.(type) {
		case change.WriteFile:
			reload = c.Reload
			if !c.Secret {
				out = append(out, fileStep{before: c.Before, after: &change.Saved{Mode: c.Mode, Owner: c.Owner, Content: c.Content}})
				continue
			}
			// The copy is of before the first of them; later ones add nothing.
			if k := f.keepsake; k != nil && !slices.ContainsFunc(out, func(s fileStep) bool { return s.sums != nil }) {
				s := fileStep{sums: k.Wrote}
				if b := k.Before; b != nil {
					s.before = &change.Saved{Mode: b.Mode, Owner: b.Owner, Content: string(b.Data)}
				}
				out = append(out, s)
			}
		case change.RemoveFile:
			out = append(out, fileStep{before: c.Before, unknown: c.Before == nil})
		}
	}
	return out, reload
}

// target walks back from the file as it is. ok is false when it isn't as any
// change left it: then somebody else has changed it since.
func target(steps []fileStep, now version) (to version, secret, ok bool) {
	to = now
	for i, s := range slices.Backward(steps) {
		written := same(to, s.after)
		if s.sums != nil {
			written = to != nil && slices.Contains(s.sums, change.Sum(to.Content))
		}
		switch {
		case s.unknown && to == nil:
			if i == 0 {
				return nil, secret, true // it was somebody's and isn't recorded
			}
			to = steps[i-1].after
			if steps[i-1].sums != nil {
				to = steps[i-1].before
			}
		case s.unknown: // it has not been removed yet
		case same(to, s.before): // the change was not carried out, or is taken back already
		case written:
			to = s.before
			secret = s.sums != nil
		default:
			return to, secret, false
		}
	}
	return to, secret, true
}

// undoFile gives a file back.
func (p *planner) undoFile(d Deed, file string) verdict {
	f := p.f.files[file]
	steps, reload := fileSteps(d, f)
	now := of(f.now)
	to, secret, ok := target(steps, now)
	if !ok && same(to, now) {
		return verdict{left: []string{file + " was changed since: left as it is"}, stands: true}
	}
	var v verdict
	if !ok {
		v.left, v.stands = []string{file + " was changed by others in between: it gets back what they left"}, true
	}
	switch {
	case same(to, now):
		if now == nil && len(f.empty) > 0 {
			v.add(1, change.RemoveFile{Path: file, Dirs: f.empty, What: "remove the empty directory of " + file})
		}
	case to == nil:
		v.add(1, change.RemoveFile{Path: file, Before: shown(now, f), Dirs: f.empty, Reload: reload})
	case secret:
		v.add(1, change.RestoreFile{Path: file})
	default:
		v.add(1, change.WriteFile{Path: file, Mode: to.Mode, Owner: to.Owner, Content: to.Content, Before: shown(now, f), Reload: reload, What: "put back " + file + " as it was"})
	}
	if k := change.KeepsakePath(file); f.keepsake != nil && !v.stands && !(secret && to != nil) {
		v.add(1, change.RemoveFile{Path: k, Dirs: []string{change.SavedDirectory}, What: "forget the copy of " + file})
	}
	// A service that waits for a mount is stopped with it.
	if unit := waits(file); unit != "" && d.Records[0].Prior.Units[unit].ActiveState == "active" && p.f.Units[unit].ActiveState == "inactive" {
		v.add(3, change.SetUnit{Unit: unit, Start: true, Why: "it ran"})
	}
	if unit := unitOf(file); len(v.acts) > 0 && (unit != "" || file == "/etc/fstab") {
		v.reload = unit
		if v.reload == "" {
			v.reload = "swap.target"
		}
	}
	return v
}

// shown keeps secret content out of the plan.
func shown(now version, f fileFacts) version {
	if f.keepsake != nil {
		return nil
	}
	return now
}
