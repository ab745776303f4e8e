package trust

import (
	"errors"
	"io/fs"
	"strings"

	"nodeagent/internal/host"
)

// Store is where a distribution keeps the certificate authorities that its
// administrator adds, and what makes the bundle of all of them.
type Store struct {
	Program string `json:"program,omitempty"` // run without arguments
	Dir     string `json:"dir,omitempty"`
	Bundle  string `json:"bundle,omitempty"`
}

// stores are those of the distributions nodeagent knows. Debian's has the
// program of SUSE's and another directory, so the directory counts as well.
var stores = []Store{
	{"update-ca-trust", "/etc/pki/ca-trust/source/anchors", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"}, // update-ca-trust(8)
	{"update-ca-certificates", "/etc/pki/trust/anchors", "/var/lib/ca-certificates/ca-bundle.pem"},               // SUSE's update-ca-certificates(8)
	{"rehash_ca_certificates.sh", "/etc/ssl/certs", "/etc/pki/tls/certs/ca-bundle.crt"},                          // Photon's openssl package
	{"update-ca-certificates", "/usr/local/share/ca-certificates", "/etc/ssl/certs/ca-certificates.crt"},         // Debian's update-ca-certificates(8)
}

// Path is the file of an authority in the store.
func (s Store) Path(name string) string {
	ext := ".pem"
	if strings.HasPrefix(s.Dir, "/usr/local/share/") { // Debian takes .crt only
		ext = ".crt"
	}
	return s.Dir + "/" + Prefix + name + ext
}

// Prefix begins the names of the files that nodeagent puts into a store.
const Prefix = "nodeagent-"

// find returns the store of this host; an empty one when there is none.
func find(v host.View) (Store, error) {
	for _, s := range stores {
		if _, err := v.LookPath(s.Program); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return Store{}, err
		}
		info, err := v.Stat(s.Dir)
		if err != nil {
			return Store{}, err
		}
		if info.Dir {
			return s, nil
		}
	}
	return Store{}, nil
}

// Files lists what nodeagent has put into the host's store.
func Files(v host.View) (paths []string, err error) {
	s, err := find(v)
	if err != nil || s.Dir == "" {
		return nil, err
	}
	names, err := v.ReadDir(s.Dir)
	for _, name := range names {
		if strings.HasPrefix(name, Prefix) {
			paths = append(paths, s.Dir+"/"+name)
		}
	}
	return paths, err
}
