package vm_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"nodeagent/test/vm/lab"
)

// ourLine is a line of nodeagent on a guest's console.
var ourLine = regexp.MustCompile(`nodeagent\[\d+\]: (.*)`)

// done is the last thing a run says.
var done = regexp.MustCompile(`nodeagent\[\d+\]: The host is as asked`)

// moment is when the current goes away in one boot.
type moment struct {
	line  *regexp.Regexp // a line of nodeagent, or
	count int            // that many of them
	delay time.Duration  // after that
}

func (m moment) String() string {
	if m.line != nil {
		return fmt.Sprintf("%s after %q", m.delay, m.line)
	}
	return fmt.Sprintf("%s after line %d", m.delay, m.count)
}

// await returns when the moment has come, or tells that the run was over first.
func (m moment) await(ctx context.Context, g *lab.Guest) (over bool, last string, err error) {
	err = lab.WaitFor(ctx, "the moment "+m.String(), 10*time.Minute, func(context.Context) error {
		b, err := os.ReadFile(g.Console())
		if err != nil {
			return err
		}
		lines := ourLine.FindAllSubmatch(b, -1)
		if len(lines) > 0 {
			last = string(bytes.TrimSpace(lines[len(lines)-1][1]))
		}
		if over = done.Match(b); over {
			return nil
		}
		if m.line != nil {
			for _, l := range lines {
				if m.line.Match(l[1]) {
					return nil
				}
			}
		} else if len(lines) >= m.count {
			return nil
		}
		return fmt.Errorf("%d lines of nodeagent on the console", len(lines))
	})
	if err == nil && !over {
		time.Sleep(m.delay) // the length of the moment itself: nothing tells of it
	}
	return over, last, err
}

// TestPowerCutsDuringTheFirstBoot takes the current away again and again while a
// host makes itself a worker. It ends Ready, with nothing harmed.
func TestPowerCutsDuringTheFirstBoot(t *testing.T) {
	needWholeMatrix(t) // each cut costs a boot
	l := needLab(t)
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("NODEAGENT_SEED"), 10, 64); err == nil {
		seed = s
	}
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("NODEAGENT_SEED=%d", seed)
	at := func(line string, delay time.Duration) moment {
		return moment{line: regexp.MustCompile(line), delay: delay}
	}
	named := []moment{
		at(`^packages +set up repository`, 200*time.Millisecond),
		at(`installing kubelet`, 0),
		at(`^swap +disable`, 0),
		at(`formatting /dev/`, 100*time.Millisecond),
		at(`write the mount unit`, 0),
		at(`^firewall +allow`, 0),
		at(`configure containerd`, 50*time.Millisecond),
		at(`write /etc/kubernetes/patches`, 0),
		at(`join the cluster`, 2*time.Second),
		at(`Writing kubelet configuration`, 300*time.Millisecond),
		at(`^ready +wait`, 0),
	}
	cuts, guests := cutThrough(t, l, "powercut1", named), 1
	for cuts < 20 {
		guests++
		moments := slices.Clone(named) // the same places, and what comes after them
		for i := range moments {
			moments[i].delay += time.Duration(random.IntN(1500)) * time.Millisecond
		}
		moments[random.IntN(2)] = moment{count: 1 + random.IntN(7), delay: time.Duration(random.IntN(3000)) * time.Millisecond}
		cuts += cutThrough(t, l, fmt.Sprintf("powercut%d", guests), moments)
	}
	t.Logf("%d cuts on %d guests, each Ready at the end", cuts, guests)
}

// cutThrough takes one guest through its first boot, cut off at each moment, and
// checks how it ends. It returns the number of cuts.
func cutThrough(t *testing.T, l *lab.Lab, name string, moments []moment) int {
	t.Helper()
	ctx := t.Context()
	g := newGuest(t, l, lab.Rocky9, name)
	g.Durable = true
	for range 2 {
		must(g.AddDisk(20, ""))(t)
	}
	precious := must(g.AddDisk(2, ""))(t)
	check(t, precious.FormatWithData(ctx, "ext4", "precious", "the only copy\n"))
	before := must(precious.Sum())(t)
	join := must(l.JoinCommand(ctx, 2*time.Hour))(t)
	config := lab.NodeConfig{HostName: name, Addr: g.Addr, TokenFile: lab.TokenFile}
	g.Seed(append(lab.ProductFiles(binary(t), config, join), lab.CNIConfig)...)
	g.Seed(firstBootUnit(t)...)
	cuts := 0
	for _, m := range moments {
		check(t, g.Boot(ctx))
		over, last, err := m.await(ctx, g)
		check(t, err)
		if over {
			g.PowerCut()
			break
		}
		g.PowerCut()
		cuts++
		t.Logf("%s: cut %d, %s; the last word was %q", name, cuts, m, last)
		if sum := must(precious.Sum())(t); sum != before {
			t.Fatal("the disk with data changed")
		}
	}
	check(t, g.Boot(ctx))
	check(t, lab.WaitFor(ctx, "the node to be Ready", 10*time.Minute, func(ctx context.Context) error {
		n, err := nodeOf(ctx, l, name)
		if err == nil && !n.ready() {
			err = fmt.Errorf("not Ready")
		}
		return err
	}))
	check(t, g.WaitSSH(ctx, 2*time.Minute))
	check(t, lab.WaitFor(ctx, "the unit to be done", 3*time.Minute, func(ctx context.Context) error {
		_, err := g.Run(ctx, "systemctl is-active nodeagent.service")
		return err
	}))
	checkMounts(t, g, twoXFS)
	// A file that was written and not synced is empty after a cut.
	empty := must(g.Run(ctx, `find /etc /usr /opt /var/lib/nodeagent -xdev -type f -size 0 -newer /usr/lib/os-release | sort; find / -xdev -name '*;????????'`))(t)
	stock := map[string]bool{"/etc/motd": true, "/etc/.pwd.lock": true, "/etc/dnf/plugins/versionlock.list": true}
	for path := range strings.Lines(empty) {
		if path = strings.TrimSpace(path); !stock[path] {
			t.Errorf("%s is empty or left over", path)
		}
	}
	if out := must(g.Exec(ctx, "rpm -V --nomtime kubelet kubeadm cri-tools containerd.io kubernetes-cni conntrack-tools socat ethtool | grep -v ' c /'"))(t); out.Stdout != "" {
		t.Errorf("rpm says: %s", out.Stdout)
	}
	if out, code := up(t, g, ""); code != converged || lastRunOf(t, g).Changes != 0 {
		t.Errorf("the next run: exit %d: %s", code, out)
	}
	checkNoToken(t, g, tokenSecret(t, join))
	check(t, g.PowerOff(ctx))
	if sum := must(precious.Sum())(t); sum != before {
		t.Error("the disk with data changed")
	}
	return cuts
}
