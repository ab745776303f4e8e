package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// rpmPackage describes one RPM.
type rpmPackage struct {
	name, version, release string
	arch                   string // default x86_64
	requires, provides     []string
	conflicts, recommends  []string
	config                 []string // paths that an update must not overwrite
	dirs                   []string
	files                  []File
}

// String is the package as part of a cache key; files taken from elsewhere
// count by their path, which carries the hash of the artefact they lie in.
func (p rpmPackage) String() string {
	type plain rpmPackage // without this method
	return fmt.Sprintf("%+v", plain(p))
}

// build runs rpmbuild and leaves the package in out.
func (p rpmPackage) build(ctx context.Context, out string) error {
	top, err := os.MkdirTemp(filepath.Dir(out), "rpmbuild-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(top)
	stage := filepath.Join(top, "stage")
	if err := os.MkdirAll(stage, 0o755); err != nil {
		return err
	}
	for _, d := range p.dirs {
		if err := os.MkdirAll(filepath.Join(stage, d), 0o755); err != nil {
			return err
		}
	}
	for _, f := range p.files {
		if err := f.writeBelow(stage); err != nil {
			return err
		}
	}
	spec := filepath.Join(top, p.name+".spec")
	if err := os.WriteFile(spec, []byte(p.spec(stage)), 0o644); err != nil {
		return err
	}
	_, err = run(ctx, "rpmbuild", "-bb", "--quiet", "--define", "_topdir "+top, "--define", "_rpmdir "+out,
		"--define", "_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm", "--target", p.architecture(), spec)
	return err
}

func (p rpmPackage) architecture() string {
	if p.arch == "" {
		return "x86_64"
	}
	return p.arch
}

func (p rpmPackage) spec(stage string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	// The content is finished: nothing is stripped, compiled or scanned.
	line("%%global debug_package %%{nil}")
	line("%%global __os_install_post %%{nil}")
	line("%%global _build_id_links none")
	line("%%global _binary_payload w1.zstdio")
	line("Name: %s\nVersion: %s\nRelease: %s\nSummary: %s for the lab\nLicense: Apache-2.0", p.name, p.version, p.release, p.name)
	line("AutoReqProv: no")
	for tag, values := range map[string][]string{
		"Requires": p.requires, "Provides": p.provides, "Conflicts": p.conflicts, "Recommends": p.recommends,
	} {
		for _, v := range values {
			line("%s: %s", tag, v)
		}
	}
	line("%%description\n%s, packaged for the lab.", p.name)
	line("%%install\nmkdir -p %%{buildroot}\ncp -a %s/. %%{buildroot}/", stage)
	line("%%files")
	for _, d := range p.dirs {
		line("%%dir %s", d)
	}
	for _, f := range p.files {
		attr := fmt.Sprintf("%%attr(%04o, root, root) ", f.mode())
		if f.Link != "" {
			attr = ""
		}
		for _, c := range p.config {
			if c == f.Path {
				attr = "%config(noreplace) " + attr
			}
		}
		line("%s%s", attr, f.Path)
	}
	return b.String()
}
