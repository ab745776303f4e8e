package hosttest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"sync"
	"time"

	"nodeagent/internal/join/pin"
)

// clusterCA is a certificate authority that is the same for a whole test.
var clusterCA = sync.OnceValue(func() []byte {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, public, private)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
})

// AdminSecret is the bearer token in the world's kubeconfig.
const AdminSecret = "admin-s3cr3t"

// GiveKubeconfig puts a kubeconfig of the world's cluster there, and gives that
// cluster the CA in it.
func (w *World) GiveKubeconfig(path string) {
	pins, err := pin.OfBundle(clusterCA())
	if err != nil {
		panic(err)
	}
	w.NodeObject.CAHash, w.NodeObject.CAHashes = pins[0], nil
	w.Files[path] = File{Mode: "0600", Content: fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
clusters:
- name: c
  cluster: {server: %q, certificate-authority-data: %s}
contexts:
- name: c
  context: {cluster: c, user: minter}
users:
- name: minter
  user: {token: %s}
`, w.NodeObject.Server, base64.StdEncoding.EncodeToString(clusterCA()), AdminSecret)}
}
