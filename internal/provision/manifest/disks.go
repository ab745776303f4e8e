package manifest

import (
	"fmt"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"nodeagent/internal/disk/label"
)

// diskEntry is one data disk of the output.
type diskEntry struct {
	name     string
	selected fields
	fs       string
	label    string
	where    string // empty: raw
	mkfs     []string
	options  []string
	wipeOnce bool
	keep     bool
}

// disk writes a data disk.
func (c *converter) disk(d *draft, m *machine, at value, comment string, e diskEntry) {
	if e.where != "" {
		m.mounts[e.where] = true
	}
	var filesystem any
	if e.where != "" {
		filesystem = encode(fields{{"type", e.fs}, {"label", e.label}, {"options", e.mkfs}})
	}
	entry := encode(fields{{"name", e.name}, {"select", encode(e.selected)}, {"filesystem", filesystem}, {"mountPath", e.where}, {"mountOptions", e.options},
		{"wipeOnce", e.wipeOnce}, {"keep", e.keep}})
	d.add(at, comment, entry, "spec", "disks")
}

func labelLimit(fs string) int {
	if fs == "" {
		fs = "xfs"
	}
	return label.Limit(fs)
}

// diskName makes a name of a mount path: /var/lib/kubelet is var-lib-kubelet.
func diskName(where string) string { return strings.ReplaceAll(strings.Trim(where, "/"), "/", "-") }

// label makes a filesystem's label of a mount path: its last part, within the
// 12 bytes that every filesystem has, and another than those that are taken.
func (c *converter) label(d *draft, where string) string {
	base := path.Base(where)
	if len(base) > 12 {
		base = strings.TrimRight(base[:12], "-._")
	}
	taken := func(l string) bool {
		for _, n := range d.parent([]string{"spec"}).Content {
			if n.Kind == yaml.SequenceNode && hasLabel(n, l) {
				return true
			}
		}
		return false
	}
	l := base
	for i := 2; taken(l); i++ {
		tail := fmt.Sprintf("-%d", i)
		l = base[:min(len(base), 12-len(tail))] + tail
	}
	return l
}

func hasLabel(list *yaml.Node, l string) bool {
	for _, item := range list.Content {
		for i := 0; i+1 < len(item.Content); i += 2 {
			if item.Content[i].Value != "filesystem" {
				continue
			}
			fs := item.Content[i+1]
			for j := 0; j+1 < len(fs.Content); j += 2 {
				if fs.Content[j].Value == "label" && fs.Content[j+1].Value == l {
					return true
				}
			}
		}
	}
	return false
}

// sized is a disk that is known by its size alone, in whole GB or GiB, and to
// which sort it belongs: disks of one sort may stand for each other.
type sized struct {
	at   value
	size int
	sort string
}

// confused finds another sort of disk that a size may also mean. Where one
// disk outlives its machine and the other doesn't, taking one for the other
// loses data.
func confused(s sized, all []sized, loose bool) (sized, bool) {
	low, high := int64(s.size)<<30, int64(s.size)<<30
	if loose {
		low = int64(s.size) * 1e9
	}
	for _, o := range all {
		if o.sort == s.sort {
			continue
		}
		from, to := int64(o.size)<<30, int64(o.size)<<30
		if loose {
			from = int64(o.size) * 1e9
		}
		if from <= high && to >= low {
			return o, true
		}
	}
	return sized{}, false
}

// blankOf selects a blank disk by its size. Providers that write GB mean GiB or
// the thousand: both are within the bounds.
func blankOf(size int, loose bool) fields {
	lowest := fmt.Sprintf("%dGiB", size)
	if loose {
		lowest = fmt.Sprintf("%dGB", size)
	}
	m := encode(fields{{"minSize", lowest}, {"maxSize", fmt.Sprintf("%dGiB", size)}})
	m.Style = yaml.FlowStyle
	return fields{{"blank", m}}
}
