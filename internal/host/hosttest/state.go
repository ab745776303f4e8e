package hosttest

import "nodeagent/internal/host"

type lock struct{}

func (lock) Note(string) error { return nil }
func (lock) Release() error    { return nil }

// Lock is always free: a dead process holds none.
func (w *World) Lock(string) (host.Lock, error) {
	if w.dead {
		return nil, died{}
	}
	return lock{}, nil
}

// Append adds a line, or half of one when the world dies torn.
func (w *World) Append(p string, line []byte) error {
	return w.effect(func() error {
		f := w.Files[p]
		if n := len(f.Content); n > 0 && f.Content[n-1] != '\n' {
			f.Content += "\n"
		}
		if w.dieAt > 0 && w.effects == w.dieAt && w.death == Torn {
			f.Content += string(line[:len(line)/2])
		} else {
			f.Content += string(line) + "\n"
		}
		f.Mode = "0600"
		w.Files[p] = f
		return nil
	})
}

// Save replaces a record.
func (w *World) Save(p string, data []byte) error {
	return w.effect(func() error {
		w.Files[p] = File{Content: string(data), Mode: "0600"}
		return nil
	})
}

// Scratch removes leftovers.
func (w *World) Scratch(paths ...string) error {
	if w.dead {
		return died{}
	}
	for _, p := range paths {
		delete(w.Files, p)
	}
	return nil
}
