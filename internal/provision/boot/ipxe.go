package boot

import (
	"fmt"
	"strings"

	"nodeagent/internal/fail"
	"nodeagent/internal/provision/source"
)

// Net is what an iPXE script boots.
type Net struct {
	Kernel    string   // URL
	Initrds   []string // URLs
	Arguments []string // for the kernel, besides ours
}

// IPXE renders a script that boots a kernel whose command line names the
// configuration.
func IPXE(s source.Source, n Net, missing []string) ([]byte, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if n.Kernel == "" {
		return nil, fail.New(fail.Usage, "name its URL: --kernel", "an iPXE script needs a kernel")
	}
	for _, u := range append([]string{n.Kernel}, n.Initrds...) {
		if u == "" || strings.ContainsAny(u, " \t\r\n\"'") {
			return nil, fail.New(fail.Usage, "a URL without blanks and quotes", "iPXE can't fetch %q", u)
		}
	}
	for _, a := range n.Arguments {
		if strings.ContainsAny(a, "\r\n") || strings.Contains(a, "nodeagent.") {
			return nil, fail.New(fail.Usage, "one line without nodeagent's own arguments", "%q can't go to the kernel", a)
		}
	}
	about := (&Options{Source: s, Missing: missing}).about("An iPXE script")
	var b strings.Builder
	b.WriteString("#!ipxe\n" + comment("# ", append(about, "The image that is booted has nodeagent and nodeagent.service in it.")))
	b.WriteString("isset ${ip} || dhcp\n")
	line := "kernel " + n.Kernel
	for i := range n.Initrds { // UEFI kernels find them by their names only
		line += fmt.Sprintf(" initrd=initrd%d", i)
	}
	for _, a := range n.Arguments {
		line += " " + a
	}
	b.WriteString(line + " " + s.Arguments() + "\n")
	for i, u := range n.Initrds {
		fmt.Fprintf(&b, "initrd --name initrd%d %s\n", i, u)
	}
	b.WriteString("boot\n")
	return []byte(b.String()), nil
}
