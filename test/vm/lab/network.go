package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// The lab's LAN. Guests get addresses from .10 on; neighbourAddr is an address
// of the lab machine that plays another host of the LAN.
const (
	bridge        = "lab0"
	labAddr       = "192.0.2.1"
	neighbourAddr = "192.0.2.2"
	prefix        = "/24"
	apiName       = "cp.lab.test"
	repoName      = "repo.lab.test"
)

// RepoURL is the root of the lab's web server as guests see it.
const RepoURL = "http://" + repoName

// startNetwork makes the bridge and starts DHCP, DNS and the web server on it.
func (l *Lab) startNetwork(ctx context.Context) error {
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", bridge, "type", "bridge", "forward_delay", "0", "stp_state", "0"},
		{"addr", "add", labAddr + prefix, "dev", bridge},
		{"addr", "add", neighbourAddr + prefix, "dev", bridge},
		{"link", "set", bridge, "up"},
	} {
		if _, err := run(ctx, "ip", args...); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(l.leaseDir(), 0o755); err != nil {
		return err
	}
	dns, err := l.spawn("dnsmasq", "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--group=root",
		"--log-facility=-", "--log-dhcp", "--pid-file="+filepath.Join(l.RunDir, "dnsmasq.pid"),
		"--interface="+bridge, "--bind-interfaces", "--except-interface=lo", "--no-resolv", "--no-hosts", "--no-ping",
		"--address=/"+apiName+"/"+labAddr, "--address=/"+repoName+"/"+labAddr, "--local=/lab.test/",
		"--dhcp-range=192.0.2.10,192.0.2.250,255.255.255.0,1h", "--dhcp-option=option:router,"+labAddr,
		"--dhcp-option=option:dns-server,"+labAddr, "--dhcp-authoritative", "--dhcp-rapid-commit",
		"--dhcp-match=set:ipxe,175", "--dhcp-boot=tag:ipxe,"+RepoURL+BootScript,
		"--dhcp-leasefile="+filepath.Join(l.RunDir, "dnsmasq.leases"),
		// Only guests in the hosts directory get an answer: a lease is given when the lab wants it.
		"--dhcp-ignore=tag:!known", "--dhcp-hostsdir="+l.leaseDir())
	if err != nil {
		return err
	}
	if err := l.serveHTTP(); err != nil {
		return err
	}
	return WaitFor(ctx, "DNS of the lab", 10*time.Second, func(ctx context.Context) error {
		if err := dns.alive(); err != nil {
			return err
		}
		r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "udp", labAddr+":53")
		}}
		_, err := r.LookupHost(ctx, apiName)
		return err
	})
}

func (l *Lab) leaseDir() string { return filepath.Join(l.RunDir, "dhcp-hosts") }

// serveHTTP offers the repositories and archives, and whatever Publish adds.
func (l *Lab) serveHTTP() error {
	listener, err := net.Listen("tcp", labAddr+":80")
	if err != nil {
		return err
	}
	l.web = &web{root: http.FileServer(http.Dir(l.Assets.Repos)), extra: map[string]http.Handler{}}
	l.server = &http.Server{Handler: l.web, ReadHeaderTimeout: 10 * time.Second}
	go l.server.Serve(listener)
	return nil
}

// web is the handler of the lab's web server.
type web struct {
	root http.Handler

	mu       sync.Mutex
	extra    map[string]http.Handler
	requests []string
}

func (w *web) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.requests = append(w.requests, r.Method+" "+r.URL.Path)
	h := w.extra[r.URL.Path]
	w.mu.Unlock()
	if h == nil {
		h = w.root
	}
	h.ServeHTTP(out, r)
}

// Publish answers requests for path with h and returns the URL.
func (l *Lab) Publish(path string, h http.Handler) string {
	l.web.mu.Lock()
	defer l.web.mu.Unlock()
	l.web.extra[path] = h
	return RepoURL + path
}

// Requests lists what was asked of the web server so far.
func (l *Lab) Requests() []string {
	l.web.mu.Lock()
	defer l.web.mu.Unlock()
	return append([]string(nil), l.web.requests...)
}

// addTap gives a guest its end of the LAN.
func (l *Lab) addTap(ctx context.Context, name string) error {
	for _, args := range [][]string{
		{"tuntap", "add", "dev", name, "mode", "tap"},
		{"link", "set", name, "master", bridge},
		{"link", "set", name, "up"},
	} {
		if _, err := run(ctx, "ip", args...); err != nil {
			return err
		}
	}
	return nil
}

// Lease lets DHCP answer the guest from now on.
func (g *Guest) Lease() error {
	// The file appears whole: dnsmasq reads it as soon as it is there.
	tmp := filepath.Join(g.lab.RunDir, g.Name+".lease")
	if err := os.WriteFile(tmp, []byte(fmt.Sprintf("%s,%s\n", g.mac, g.Addr)), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(g.lab.leaseDir(), g.Name))
}

// LeaseAfterFirstAsk waits until the guest asks for an address, and gives it one
// only after a further delay.
func (g *Guest) LeaseAfterFirstAsk(ctx context.Context, delay time.Duration) error {
	err := WaitFor(ctx, g.Name+" to ask for an address", 3*time.Minute, func(context.Context) error {
		b, err := os.ReadFile(filepath.Join(g.lab.RunDir, "dnsmasq.log"))
		if err == nil && !strings.Contains(string(b), "DHCPDISCOVER("+bridge+") "+g.mac) {
			err = errors.Join(errors.New("no DHCPDISCOVER"), g.process.alive())
		}
		return err
	})
	if err != nil {
		return err
	}
	select { // the delay is what is being tested
	case <-time.After(delay):
		return g.Lease()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Drop loses what the guest sends to a port of the lab machine, such as
// "udp dport 53", until the returned function is called.
func (g *Guest) Drop(ctx context.Context, what string) (lift func() error, err error) {
	g.drops++
	table := fmt.Sprintf("drop-%s-%d", g.Name, g.drops)
	_, err = run(ctx, "nft", fmt.Sprintf("table inet %[1]s { chain input { type filter hook input priority 0; ip saddr %[2]s %[3]s drop; }; }", table, g.Addr, what))
	return func() error {
		_, err := run(context.WithoutCancel(ctx), "nft", "delete table inet "+table)
		return err
	}, err
}

// DialFromLAN connects to an address the way another host of the LAN does.
func DialFromLAN(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(neighbourAddr)}, Timeout: 3 * time.Second}
	return d.DialContext(ctx, "tcp", addr)
}

// GetFromLAN fetches a URL the way another host of the LAN does.
func GetFromLAN(ctx context.Context, url string) (string, error) {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return DialFromLAN(ctx, addr)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s: %s", url, resp.Status, body)
	}
	return string(body), nil
}
