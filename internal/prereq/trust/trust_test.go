package trust

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host/hosttest"
)

func spec(authorities ...config.CATrust) config.Spec {
	s := config.Default().Spec
	s.CATrust = authorities
	return s
}

func plan(t *testing.T, w *hosttest.World, s config.Spec) change.Plan {
	t.Helper()
	f, err := Observe(context.Background(), w, s)
	require.NoError(t, err)
	return Plan(s, f)
}

func TestEachDistributionHasItsStore(t *testing.T) {
	for name, c := range map[string]struct {
		world                   *hosttest.World
		anchor, program, bundle string
	}{
		"rocky":  {hosttest.Rocky9(), "/etc/pki/ca-trust/source/anchors/nodeagent-example.pem", "update-ca-trust", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"},
		"photon": {hosttest.Photon5(), "/etc/ssl/certs/nodeagent-example.pem", "rehash_ca_certificates.sh", "/etc/pki/tls/certs/ca-bundle.crt"},
		"alauda": {hosttest.Alauda(), "/etc/pki/trust/anchors/nodeagent-example.pem", "update-ca-certificates", "/var/lib/ca-certificates/ca-bundle.pem"},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec(config.CATrust{Name: "example", PEM: "text before\n" + hosttest.Authority})
			p := plan(t, c.world, s)
			require.Equal(t, []change.Change{
				change.WriteFile{Path: c.anchor, Mode: "0644", Owner: "root:root", Content: hosttest.Authority, What: "trust the certificate authority example"},
				change.UpdateTrust{Program: c.program, Bundle: c.bundle, Why: "for example"},
			}, p.Changes)
			for _, ch := range p.Changes {
				require.NoError(t, c.world.Apply(context.Background(), ch, nil))
			}
			require.Equal(t, hosttest.TrustedByDefault+hosttest.Authority, c.world.Files[c.bundle].Content)
			require.Empty(t, plan(t, c.world, s))
		})
	}
}

func TestARunThatDiedBetweenStoreAndBundleIsFinished(t *testing.T) {
	w := hosttest.Rocky9()
	s := spec(config.CATrust{Name: "example", PEM: hosttest.Authority})
	require.NoError(t, w.Apply(context.Background(), plan(t, w, s).Changes[0], nil))
	p := plan(t, w, s)
	require.Len(t, p.Changes, 1)
	require.IsType(t, change.UpdateTrust{}, p.Changes[0])
}

func TestWhatTheHostTrustsAlreadyStaysAsItIs(t *testing.T) {
	w := hosttest.Rocky9()
	const bundle = "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"
	w.Files[bundle] = hosttest.File{Content: "# Example\n" + hosttest.Authority}
	require.Empty(t, plan(t, w, spec(config.CATrust{Name: "example", PEM: hosttest.Authority})))
}

func TestAnAuthorityOfAFile(t *testing.T) {
	w := hosttest.Rocky9()
	s := spec(config.CATrust{Name: "example", File: "/etc/nodeagent/ca.pem"})
	p := plan(t, w, s)
	require.Empty(t, p.Changes)
	require.ErrorContains(t, p.Blocked[0], "spec.caTrust: example: /etc/nodeagent/ca.pem isn't there")

	w.Files["/etc/nodeagent/ca.pem"] = hosttest.File{Content: "hello"}
	p = plan(t, w, s)
	require.ErrorContains(t, p.Blocked[0], "/etc/nodeagent/ca.pem holds no PEM certificate")

	w.Files["/etc/nodeagent/ca.pem"] = hosttest.File{Content: hosttest.Authority}
	require.Len(t, plan(t, w, s).Changes, 2)
}

func TestAHostWithoutAStoreIsTold(t *testing.T) {
	w := hosttest.Rocky9()
	delete(w.Files, "/usr/bin/update-ca-trust")
	p := plan(t, w, spec(config.CATrust{Name: "example", PEM: hosttest.Authority}))
	require.Empty(t, p.Changes)
	require.ErrorContains(t, p.Blocked[0], "this host has no program that adds certificate authorities")
}

func TestAnAuthorityThatHasEndedIsTold(t *testing.T) {
	w := hosttest.Rocky9()
	w.Sys.Now = time.Date(2126, 1, 1, 0, 0, 0, 0, time.UTC)
	s := spec(config.CATrust{Name: "example", PEM: hosttest.Authority})
	f, err := Observe(context.Background(), w, s)
	require.NoError(t, err)
	f.Now = w.Sys.Now
	require.Contains(t, Plan(s, f).Warnings, "spec.caTrust: example ended on 2125-01-01 by this host's clock: nothing that it signed is trusted")
}

func TestNothingIsReadWhenNothingIsAskedFor(t *testing.T) {
	f, err := Observe(context.Background(), hosttest.Rocky9(), spec())
	require.NoError(t, err)
	require.Zero(t, f)
}
