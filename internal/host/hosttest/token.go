package hosttest

import (
	"maps"
	"slices"
	"strings"
	"time"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/join/kubeconfig"
	"nodeagent/internal/join/mint"
)

// Credential is one that came with the machine.
func (w *World) Credential(name string) string { return "/run/credentials/@system/" + name }

func (w *World) fetchToken(c change.FetchToken) error {
	if w.TokenDoc == "" {
		return fail.New(fail.Step, "", "there is no token")
	}
	switch {
	case c.GuestInfo != "":
		if _, err := w.LookPath("vmware-rpctool"); err != nil {
			return err
		}
		w.Files[mint.RecordPath] = File{Content: string(mint.Record{GuestInfo: c.GuestInfo}.Encode()), Mode: "0600"}
	case c.Mint != nil:
		if err := w.admin(c.Mint.Kubeconfig); err != nil {
			return err
		}
		id := "abcdef"
		r := mint.Record{Kubeconfig: c.Mint.Kubeconfig, TokenID: id, Expires: w.Sys.Now.Add(c.Mint.TTL)}
		w.Files[mint.RecordPath] = File{Content: string(r.Encode()), Mode: "0600"}
		w.Minted = append(slices.Clone(w.Minted), id)
	}
	w.token = true
	return nil
}

// admin tells whether a kubeconfig is there and can be used.
func (w *World) admin(file string) error {
	b, err := w.ReadFile(file)
	if err != nil {
		return err
	}
	k, err := kubeconfig.Parse(b)
	if text, hint := k.Access(); err == nil && text != "" {
		err = fail.New(fail.Step, hint, "the kubeconfig %s %s", file, text)
	}
	return err
}

func (w *World) dropToken() error {
	f, ok := w.Files[mint.RecordPath]
	if !ok {
		return nil
	}
	r, err := mint.Decode([]byte(f.Content))
	if err != nil {
		return err
	}
	if r.TokenID != "" {
		if err := w.admin(r.Kubeconfig); err != nil {
			return err
		}
		w.Minted = slices.DeleteFunc(slices.Clone(w.Minted), func(id string) bool { return id == r.TokenID })
	}
	if r.GuestInfo != "" {
		w.Spent = append(slices.Clone(w.Spent), r.GuestInfo)
	}
	delete(w.Files, mint.RecordPath)
	return nil
}

func (w *World) labelNode(c change.LabelNode) error {
	if err := w.admin(c.Kubeconfig); err != nil {
		return err
	}
	if !w.NodeObject.Joined {
		return fail.New(fail.Timeout, "", "node %s is not registered after %s", c.NodeName, c.Timeout)
	}
	w.label(c.Labels)
	return nil
}

// label sets labels of the Node.
func (w *World) label(labels map[string]string) {
	all := maps.Clone(w.NodeObject.Labels)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, labels)
	w.NodeObject.Labels = all
}

// register is what kubelet does after the join: the Node is there with the
// labels that it gives itself.
func (w *World) register(flags []change.NameValue) {
	n := &w.NodeObject
	n.Reached, n.Unmet = true, "kubelet has not reported a status yet"
	own := map[string]string{"kubernetes.io/hostname": n.Name}
	for _, f := range flags {
		if f.Name == "node-labels" {
			for _, pair := range strings.Split(f.Value, ",") {
				k, v, _ := strings.Cut(pair, "=")
				own[k] = v
			}
		}
	}
	w.label(own)
}

// Later lets time pass.
func (w *World) Later(d time.Duration) { w.Sys.Now = w.Sys.Now.Add(d) }
