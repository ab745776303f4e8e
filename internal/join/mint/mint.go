// Package mint makes the Secret of a bootstrap token, as kubeadm token create
// does, and the record of what has to be taken away when the token has done its
// work.
package mint

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrap "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/bootstraptoken/v1"
)

// Secrets is the path of kube-system's Secrets in the API, where bootstrap
// tokens have to be.
const Secrets = "/api/v1/namespaces/" + metav1.NamespaceSystem + "/secrets"

// Name is the name of a token's Secret.
func Name(id string) string { return bootstrap.BootstrapTokenSecretPrefix + id }

// Token is a new random token and its public half.
func Token() (token, id string, err error) {
	token, err = bootstraputil.GenerateBootstrapToken()
	if err != nil {
		return "", "", err
	}
	return token, token[:bootstrap.BootstrapTokenIDBytes], nil
}

// Secret is the JSON of the Secret: with the usages and the group that kubeadm
// gives by itself, so that what is granted to kubeadm's tokens is granted to
// this one. It holds the token.
func Secret(token, node string, expires time.Time) ([]byte, error) {
	s, err := v1.NewBootstrapTokenString(token)
	if err != nil {
		return nil, fmt.Errorf("not a bootstrap token") // its own text quotes it
	}
	b := v1.BootstrapToken{Token: s, Description: "made by nodeagent for the join of node " + node, Expires: &metav1.Time{Time: expires}}
	v1.SetDefaults_BootstrapToken(&b)
	secret := v1.BootstrapTokenToSecret(&b)
	secret.TypeMeta = metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Secret"}
	return json.Marshal(secret)
}

// RecordPath is where the record lies from before the token exists until it is
// taken away, so that a run that is killed in between leaves nothing that the
// next one doesn't know of.
const RecordPath = "/var/lib/nodeagent/token.json"

// Record says what is to be taken away where, without any secret.
type Record struct {
	Kubeconfig string    `json:"kubeconfig,omitempty"` // file that may delete the token
	TokenID    string    `json:"tokenID,omitempty"`    // public half
	Expires    time.Time `json:"expires,omitzero"`
	GuestInfo  string    `json:"guestinfo,omitempty"` // key whose value is to be overwritten
}

// Encode is the record as it is kept.
func (r Record) Encode() []byte {
	b, _ := json.Marshal(r) // strings and a time: no error to come
	return append(b, '\n')
}

// Decode reads a record back.
func Decode(b []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s can't be read: %w", RecordPath, err)
	}
	if (r.TokenID == "" || r.Kubeconfig == "") && r.GuestInfo == "" {
		return r, fmt.Errorf("%s names nothing", RecordPath)
	}
	return r, nil
}
