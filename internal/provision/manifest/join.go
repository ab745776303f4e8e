package manifest

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"nodeagent/internal/join/token"
)

const seqKind = yaml.SequenceNode

// joinCommand reads the text of kubeadm join.
func (c *converter) joinCommand(d *draft, m *machine, v value) {
	doc, err := token.Parse([]byte(v.n.Value))
	if err != nil { // its errors hold no secret
		c.bad(v, "", "%s", strings.ReplaceAll(err.Error(), "the token document", "this text"))
		return
	}
	words := strings.Fields(strings.NewReplacer("\\\n", " ", "=", " ", `"`, "", "'", "").Replace(v.n.Value))
	value := func(flag string) string {
		for i, w := range words {
			if w == flag && i+1 < len(words) {
				return words[i+1]
			}
		}
		return ""
	}
	for _, ignored := range doc.Ignored {
		switch ignored {
		case "--cri-socket":
			c.socket(d, v, value(ignored))
		case "--node-name":
			c.hostname(d, m, v, value(ignored))
		case "--ignore-preflight-errors":
			for e := range strings.SplitSeq(value(ignored), ",") {
				d.add(v, "", e, "spec", "join", "ignorePreflightErrors")
			}
		case "--v", "--vmodule":
			d.remark("Left out: " + ignored + " of kubeadm join; see nodeagent --log-level.")
		default:
			c.bad(v, "leave it out of the command", "the flag %s has no place in a NodeConfig", ignored)
		}
	}
	c.credential(d, v, doc.Endpoint, doc.CACertHashes, doc.Token)
}

// credential carries what reaches the cluster. The token goes along only when
// asked.
func (c *converter) credential(d *draft, v value, endpoint string, pins []string, secret string) {
	if endpoint != "" {
		d.put(v, "", endpoint, "spec", "join", "endpoint")
	}
	if len(pins) > 0 {
		d.put(v, "", pins, "spec", "join", "caCertHashes")
	}
	switch {
	case secret == "":
	case !token.Valid(secret):
		c.bad(v, "make one: kubeadm token create --print-join-command", "holds something that is not a bootstrap token")
	case c.WithSecrets:
		d.put(v, "This makes the document a secret, and the token ends: another source lasts longer.", secret, "spec", "join", "token", "value")
	default:
		d.put(v, "To finish: the token was left out (--with-secrets takes it along). Put there what `kubeadm token create --print-join-command` prints, mode 0600, or name another source.",
			TokenFile, "spec", "join", "token", "file")
	}
}

// joinConfiguration reads kubeadm's JoinConfiguration, alone or as a part of a
// KubeadmConfig.
func (c *converter) joinConfiguration(d *draft, m *machine, v value) {
	v.only("apiVersion", "kind", "nodeRegistration", "caCertPath", "discovery", "controlPlane", "skipPhases", "patches", "timeouts", "dryRun")
	v.at("controlPlane").left("use a JoinConfiguration without it", "joins a control plane node: workers are the job")
	if p := v.at("caCertPath"); p.is() && p.text() != "/etc/kubernetes/pki/ca.crt" {
		c.bad(p, "leave it out", "kubelet's CA is always /etc/kubernetes/pki/ca.crt")
	}
	if v.at("dryRun").yes() {
		c.bad(v.at("dryRun"), "see nodeagent plan", "can't be carried")
	}
	for _, p := range v.at("skipPhases").items() {
		c.bad(p, "leave it out; hooks and files are no phases", "a phase of kubeadm can't be skipped")
	}
	for _, t := range v.at("timeouts").pairs() {
		c.bad(t.value, "use spec.join.timeout for the whole join", "kubeadm's single timeouts have no place in a NodeConfig")
	}
	v.at("patches").only("directory")
	c.discovery(d, v.at("discovery"))
	r := v.at("nodeRegistration")
	r.only("name", "criSocket", "taints", "kubeletExtraArgs", "ignorePreflightErrors", "imagePullPolicy", "imagePullSerial")
	if name := r.at("name"); name.is() && !standsForHost(name.text()) {
		if s, ok := c.render(m, name, name.text()); ok {
			c.hostname(d, m, name, s)
		}
	} else if name.is() && m.name == "" {
		d.remark("Decided: the host keeps its own name, which is what " + comment(name.text()) + " stands for.")
	}
	if s := r.at("criSocket"); s.text() != "" {
		c.socket(d, s, s.text())
	}
	for _, t := range r.at("taints").items() {
		t.only("key", "value", "effect", "timeAdded")
		d.add(t, "", fields{{"key", t.at("key").text()}, {"value", t.at("value").text()}, {"effect", t.at("effect").text()}}, "spec", "kubelet", "taints")
	}
	for _, e := range r.at("ignorePreflightErrors").items() {
		d.add(e, "", e.text(), "spec", "join", "ignorePreflightErrors")
	}
	if p := r.at("imagePullPolicy"); p.is() && p.text() != "IfNotPresent" {
		c.bad(p, "leave it out", "a worker's join pulls no images")
	}
	c.flags(d, m, kubeletArgs(r.at("kubeletExtraArgs")))
}

func (c *converter) discovery(d *draft, v value) {
	v.only("bootstrapToken", "file", "tlsBootstrapToken", "timeout")
	v.at("timeout").left("use spec.join.timeout for the whole join", "kubeadm's single timeouts have no place in a NodeConfig")
	b := v.at("bootstrapToken")
	b.only("token", "apiServerEndpoint", "caCertHashes", "unsafeSkipCAVerification")
	if b.at("unsafeSkipCAVerification").yes() {
		c.bad(b.at("unsafeSkipCAVerification"), "give caCertHashes", "a cluster is never joined unseen")
	}
	if f := v.at("file"); f.is() {
		f.only("kubeConfigPath", "kubeConfig")
		f.at("kubeConfig").left("put the kubeconfig into a file and name it in kubeConfigPath", "can't be carried inline")
		if p := f.at("kubeConfigPath"); p.text() != "" {
			if b.is() {
				c.bad(f, "keep one", "stands beside bootstrapToken")
				return
			}
			d.put(p, "Decided: the kubeconfig is the token document.", p.text(), "spec", "join", "token", "file")
			// A token document is one file, and this one is without the token.
			v.at("tlsBootstrapToken").left("write the token into the kubeconfig as its user's, or use discovery.bootstrapToken", "goes with a kubeconfig, which can't be carried together")
			return
		}
	}
	secret := b.at("token").text()
	if t := v.at("tlsBootstrapToken"); t.text() != "" && secret != "" && t.text() != secret {
		c.bad(t, "keep one", "is another token than bootstrapToken's")
	} else if secret == "" {
		secret = t.text()
	}
	at := b
	if !at.is() {
		at = v
	}
	var pins []string
	for _, p := range b.at("caCertHashes").items() {
		pins = append(pins, p.text())
	}
	if at.is() {
		c.credential(d, at, b.at("apiServerEndpoint").text(), pins, secret)
	}
}
