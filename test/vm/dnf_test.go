package vm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestRealDnf runs the product's own functions against a real dnf and rpm, in an
// overlay of the tree that every guest is made of: what mirrors, keys, locks and
// cut-off transactions do to it is quicker to try there than in a guest.
func TestRealDnf(t *testing.T) {
	needLAN(t) // its loopback is up
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-run", "^TestARealDnf$", "nodeagent/internal/host")
	cmd.Env = append(os.Environ(), "NODEAGENT_TEST_DNF_TREE="+filepath.Join(shared.assets.Base, "rootfs"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	passed := regexp.MustCompile(`(?m)^\s*--- PASS: TestARealDnf/`).FindAll(out, -1)
	if len(passed) == 0 || regexp.MustCompile(`(?m)--- SKIP`).Match(out) {
		t.Fatalf("nothing was tried:\n%s", out)
	}
	t.Logf("%d situations", len(passed))
}
