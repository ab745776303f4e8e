package firewall

// kubelet is the port by which the API server reaches the kubelet: logs, exec
// and metrics. Every worker opens it.
const kubelet = "10250/tcp"

// preset is what a network plugin needs from a host's firewall.
type preset struct {
	ports     []string
	protocols []string // by number, since the names differ between distributions
	// ICMP is set when the plugin's health checks use echo requests.
	icmp bool
	// interfaces are those the plugin makes on the host, as firewalld writes
	// patterns: "lxc+" is every name that begins with lxc. Pods' packets are
	// forwarded between them and the node's own interface.
	interfaces []string
}

// presets has every port that the plugins' own system requirements list for
// workers, whichever of their modes is used: a tunnel or encryption mode that is
// switched on later must not need a visit to each node.
var presets = map[string]preset{
	"none": {},
	// docs.cilium.io, "System Requirements", firewall rules: VXLAN, Geneve,
	// health, Hubble, mutual authentication, metrics, WireGuard.
	"cilium": {
		ports: []string{"8472/udp", "6081/udp", "4240/tcp", "4244/tcp", "4245/tcp", "4250/tcp", "9962-9964/tcp", "51871/udp"},
		icmp:  true, interfaces: []string{"cilium+", "lxc+"}},
	// docs.tigera.io, "System requirements", network requirements: BGP, IP in
	// IP (protocol 4), VXLAN, Typha, WireGuard for both families.
	"calico": {
		ports: []string{"179/tcp", "4789/udp", "5473/tcp", "51820-51821/udp"}, protocols: []string{ipInIP},
		interfaces: []string{"cali+", "tunl+", "vxlan.calico", "vxlan-v6.calico", "wireguard.cali", "wg-v6.cali"}},
	// flannel's VXLAN backend and the bridge plugin's default bridge.
	"flannel": {ports: []string{"8472/udp"}, interfaces: []string{"flannel+", "cni0"}},
	// Kube-OVN, "Prepare for installation", ports: Geneve, STT, VXLAN,
	// monitoring. Pods hang on an Open vSwitch behind ovn0.
	"kube-ovn": {
		ports:      []string{"6081/udp", "7471/tcp", "4789/udp", "10660-10661/tcp", "10665/tcp"},
		interfaces: []string{"ovn0"}},
}

// IP protocol numbers (IANA) and the names that /etc/protocols has for them.
const (
	ipInIP = "4"
	icmp4  = "1"
	icmp6  = "58"
)

var protocolNames = map[string]string{
	"icmp": icmp4, "ICMP": icmp4, "ipv6-icmp": icmp6, "IPv6-ICMP": icmp6, "icmpv6": icmp6, "ipencap": ipInIP, "IP-ENCAP": ipInIP, "ipv4": ipInIP, "IPv4": ipInIP, "ipip": ipInIP,
}
