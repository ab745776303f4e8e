package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/fail"
	"nodeagent/internal/host/hosttest"
	"nodeagent/internal/provision/source"
	"nodeagent/internal/run"
)

const served = `apiVersion: nodeagent/v1alpha1
kind: NodeConfig
spec:
  hostname: served
  kubernetes: {version: v1.35.4}
  join: {token: {file: /etc/nodeagent/join-command}}
`

func server(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(served)) }))
	t.Cleanup(s.Close)
	return s.URL + "/c.yaml"
}

func TestTheKernelsCommandLineIsUsedWhenThereIsNoFile(t *testing.T) {
	url := server(t)
	w := hosttest.Rocky9()
	w.Files["/proc/cmdline"] = hosttest.File{Content: "ro " + source.Source{URL: url, SHA256: source.Digest([]byte(served))}.Arguments() + "\n"}
	var errs bytes.Buffer
	a := &app{errs: &errs}
	c, err := a.load(t.Context(), w, false)
	require.NoError(t, err)
	require.Equal(t, "served", c.Spec.Hostname)
	require.Equal(t, "note: the configuration is "+url+" (from the kernel's command line)\n", errs.String())

	// The file on the host wins, and that is said.
	w.Files[defaultConfig] = hosttest.File{Content: strings.Replace(served, "served", "local", 1), Mode: "0600"}
	errs.Reset()
	c, err = a.load(t.Context(), w, false)
	require.NoError(t, err)
	require.Equal(t, "local", c.Spec.Hostname)
	require.Contains(t, errs.String(), "names a configuration, too, which is not")

	// So does --config.
	delete(w.Files, defaultConfig)
	errs.Reset()
	a.configs = []string{url}
	_, err = a.load(t.Context(), w, false)
	require.NoError(t, err)
	require.Empty(t, errs.String())
}

func TestWhatWasNotPinnedIsNotUsed(t *testing.T) {
	url := server(t)
	wrong := strings.Repeat("00", 32)
	w := hosttest.Rocky9()
	for _, a := range []*app{{configs: []string{url}, pin: wrong}, {}} {
		a.errs = &bytes.Buffer{}
		w.Files["/proc/cmdline"] = hosttest.File{Content: source.Source{URL: url, SHA256: wrong}.Arguments()}
		_, err := a.load(t.Context(), w, false)
		require.ErrorContains(t, err, "is not what was pinned")
		require.Equal(t, fail.Safety, fail.KindOf(err))
	}
	for _, a := range []*app{{configs: []string{url, url}, pin: wrong}, {pin: wrong}} {
		_, err := a.load(t.Context(), w, false)
		require.ErrorContains(t, err, "the digest of one configuration")
	}
	_, err := (&app{configs: []string{"http://boot.example/c.yaml"}}).load(t.Context(), w, false)
	require.ErrorContains(t, err, "plain http without a digest")
	require.Equal(t, fail.Safety, fail.KindOf(err))
}

func TestAFirstBootWithoutItsConfigurationIsToldByStatus(t *testing.T) {
	w := hosttest.Rocky9()
	w.Files["/proc/cmdline"] = hosttest.File{Content: "nodeagent.config=http://boot.example/c.yaml"}
	opts, err := options()
	require.NoError(t, err)
	_, err = (&app{errs: &bytes.Buffer{}}).loadRecorded(context.Background(), w, opts)
	require.ErrorContains(t, err, "plain http without a digest")
	s, err := run.ReadStatus(w)
	require.NoError(t, err)
	require.Equal(t, "configuration", s.LastRun.Step)
	require.Contains(t, s.LastRun.Error, "plain http without a digest")

	// A file that somebody has just typed is no boot.
	clean := hosttest.Rocky9()
	before := clean.String()
	_, err = (&app{configs: []string{"missing.yaml"}}).loadRecorded(context.Background(), clean, opts)
	require.Error(t, err)
	require.Equal(t, before, clean.String())
}

func TestAnUnpinnedConfigurationThatIsWrongIsTriedAgain(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(strings.Replace(served, "spec:", "metadata: {match: {serial: [another]}}\nspec:", 1)))
	}))
	defer s.Close()
	for _, c := range []struct {
		patience bool
		name     string
		want     fail.Kind
	}{{true, s.URL, fail.Step}, {false, s.URL, fail.Usage}} {
		a := &app{errs: &bytes.Buffer{}, configs: []string{c.name}}
		if c.patience {
			a.patience = patience
		}
		_, err := a.load(t.Context(), hosttest.Rocky9(), false)
		require.ErrorContains(t, err, "none of 1 documents matches this host")
		require.Equal(t, c.want, fail.KindOf(err))
	}
}
