package join

import (
	"net/url"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/join/credential"
	"nodeagent/internal/kubelet"
)

// Plan joins a host that hasn't joined, and finishes what a join of ours has
// left open.
func Plan(spec config.Spec, f Facts) change.Plan {
	if f.Node.Joined {
		return joined(spec, f)
	}
	var p change.Plan
	block := func(kind fail.Kind, hint, format string, a ...any) {
		p.Blocked = append(p.Blocked, fail.New(kind, hint, format, a...))
	}
	j := change.Join{
		NodeName: f.NodeName, Endpoint: endpoint(spec, f), CACertHashes: spec.Join.CACertHashes, CACert: spec.Join.CACert,
		Socket: spec.Runtime.Socket, PatchDirectory: kubelet.PatchDirectory, KubeletArgs: kubelet.Flags(spec),
		IgnorePreflightErrors: spec.Join.IgnorePreflightErrors, Timeout: spec.Join.Timeout.Duration, KubernetesVersion: spec.Kubernetes.Version,
	}
	if j.CACert == "" {
		j.CACert = f.CAFile.Content
	}
	for _, t := range spec.Kubelet.Taints {
		j.Taints = append(j.Taints, change.NodeTaint{Key: t.Key, Value: t.Value, Effect: t.Effect})
	}
	if f.NodeName == "" {
		block(fail.Usage, "set spec.hostname", "this host has no name that its node could have")
	}
	if f.CAProblem != "" {
		block(fail.Usage, "it has to be the cluster's CA as PEM", "%s", f.CAProblem)
	}
	// What the document says counts only when it is the one that will be used.
	if f.Document.Usable() && !credential.Later(spec) {
		if j.Endpoint == "" {
			block(fail.Usage, "set spec.join.endpoint, or use the output of `kubeadm token create --print-join-command` as the token document", "neither spec.join.endpoint nor the token document says where the API server is")
		}
		if len(wanted(spec, f)) == 0 && f.CAProblem == "" {
			block(fail.Safety, "set spec.join.caCertHashes, or use the output of `kubeadm token create --print-join-command` as the token document",
				"neither spec.join nor the token document pins the cluster's CA, so anybody who answers at %s could take this host over", j.Endpoint)
		}
	}
	switch {
	case f.Node.Expired:
		block(fail.Step, "if the node is to join anew: kubectl delete node "+f.Node.Name+", nodeagent reset here, then run this again", "this host was node %s at %s, but %s", f.Node.Name, f.Node.Server, f.Node.Problem)
	case f.Node.Early:
		block(fail.Step, "set the clock: chronyc makestep, or timedatectl", "this host is node %s at %s, but %s", f.Node.Name, f.Node.Server, f.Node.Problem)
	case f.Begun.Exists:
		j.Resume = len(f.Leftovers) > 0
	default:
		var foreign []string
		for _, path := range blockers {
			if f.has(path) {
				foreign = append(foreign, path)
			}
		}
		if len(foreign) > 0 {
			why := ""
			if f.Node.Problem != "" && slices.Contains(foreign, "/etc/kubernetes/kubelet.conf") {
				why = " (" + f.Node.Problem + ")"
			}
			block(fail.Safety, "if nothing of it is needed any more: kubeadm reset", "another join, which nodeagent did not begin, has left %s%s", strings.Join(foreign, ", "), why)
		}
	}
	if len(p.Blocked) > 0 {
		return p
	}
	if f.Marker.Exists {
		p.Changes = append(p.Changes, change.RemoveFile{Path: marker, What: "remove the success marker of an earlier join"})
	}
	if c, ok := f.Begun.Write(begun, "0600", "root:root", "join of node "+f.NodeName+"\n", "note that a join has begun"); ok {
		p.Changes = append(p.Changes, c)
	}
	p.Changes = append(p.Changes, j, markerFile(), done())
	switch t := spec.Join.Token; { // it has done its work
	case t.Kubeconfig != nil:
		p.Changes = append(p.Changes, change.DropToken{Kubeconfig: t.Kubeconfig.File})
	case t.GuestInfo != "":
		p.Changes = append(p.Changes, change.DropToken{GuestInfo: t.GuestInfo})
	}
	return p
}

func markerFile() change.WriteFile {
	return change.WriteFile{Path: marker, Mode: "0644", Owner: "root:root", Content: "success\n", What: "write the success marker " + marker}
}

func done() change.RemoveFile {
	return change.RemoveFile{Path: begun, What: "note that the join is complete"}
}

// joined is the plan of a host that is a node: of the right cluster, under the
// right name, or not at all.
func joined(spec config.Spec, f Facts) change.Plan {
	var p change.Plan
	n := f.Node
	if n.Name != "" && f.NodeName != "" && n.Name != f.NodeName {
		p.Blocked = append(p.Blocked, fail.New(fail.Safety, "set spec.hostname to "+n.Name+"; or, to join anew under another name: kubectl delete node "+n.Name+", then nodeagent reset here (kubeadm reset, if nodeagent did not join it)",
			"this host has joined %s as node %s, but is to be node %s", n.Server, n.Name, f.NodeName))
	}
	pins := wanted(spec, f)
	theirs := n.CAHashes
	if len(theirs) == 0 && n.CAHash != "" {
		theirs = []string{n.CAHash}
	}
	if len(pins) > 0 && len(theirs) > 0 && !slices.ContainsFunc(pins, func(p string) bool { return slices.Contains(theirs, p) }) {
		p.Blocked = append(p.Blocked, fail.New(fail.Safety, "to move it: kubectl drain and delete node "+n.Name+" there, nodeagent reset here (kubeadm reset, if nodeagent did not join it), then run this again",
			"this host has joined another cluster: it is a node at %s with CA %s, and is to join %s with CA %s", n.Server, strings.Join(theirs, ", "), orUnknown(endpoint(spec, f)), strings.Join(pins, ", ")))
	}
	if len(p.Blocked) > 0 {
		return p
	}
	// The cluster may well give itself another name than the one it was joined
	// by; only without any pin is the name all there is to compare.
	if want := spec.Join.Endpoint; want != "" && len(pins) == 0 {
		if u, err := url.Parse(n.Server); err == nil && !strings.EqualFold(u.Host, want) {
			p.Warnings = append(p.Warnings, "this host has joined "+n.Server+", and spec.join.endpoint is "+want+"; without a CA pin it can't be told whether that is the same cluster")
		}
	}
	if f.has(bootstrapConf) {
		p.Changes = append(p.Changes, change.RemoveFile{Path: bootstrapConf, What: "remove the join token that kubeadm left in " + bootstrapConf})
	}
	if f.Begun.Exists {
		if want := markerFile(); f.Marker.Content != want.Content {
			c, _ := f.Marker.Write(want.Path, want.Mode, want.Owner, want.Content, want.What)
			p.Changes = append(p.Changes, c)
		}
		p.Changes = append(p.Changes, done())
	}
	return p
}

func orUnknown(s string) string {
	if s == "" {
		return "another one"
	}
	return s
}

// endpoint and wanted let the configuration win over the token document.
func endpoint(spec config.Spec, f Facts) string {
	if spec.Join.Endpoint != "" {
		return spec.Join.Endpoint
	}
	return f.Document.Endpoint
}

func wanted(spec config.Spec, f Facts) []string {
	switch {
	case len(spec.Join.CACertHashes) > 0:
		return spec.Join.CACertHashes
	case len(f.CAPins) > 0:
		return f.CAPins
	}
	return f.Document.CACertHashes
}
