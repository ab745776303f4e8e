package reset

import (
	"slices"

	"nodeagent/internal/change"
	"nodeagent/internal/host"
	"nodeagent/internal/prereq/network/netfile"
)

// undoInterface gives an interface back to what configured it before the first
// of the deed's changes.
func (p *planner) undoInterface(d Deed, c change.SetInterface) verdict {
	was, prior, _ := first[change.SetInterface](d)
	now, owner := p.f.files[c.Path], p.f.Owners[c.Interface]
	ours := owner.UUID == netfile.UUID(c.Interface) || owner.File == c.Path
	if of(now.now) == nil && !ours && !owner.Pending {
		return verdict{}
	}
	wrote := slices.ContainsFunc(d.Records, func(r Record) bool {
		s, ok := r.Change.(change.SetInterface)
		return ok && s.Content == now.now.Content
	})
	if now.now.Exists && !wrote || was.Before != nil {
		return kept("%s was there before, or was changed since: it and %s are left as they are", c.Path, c.Interface)
	}
	before := host.NetworkOwner{}
	if prior.Owner != nil && prior.Owner.UUID != netfile.UUID(c.Interface) {
		before = *prior.Owner
	}
	var v verdict
	v.add(1, change.ResetInterface{Interface: c.Interface, Manager: c.Manager, Path: c.Path, Profile: before.Profile, UUID: before.UUID, Dirs: now.empty})
	return v
}
