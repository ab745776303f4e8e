package lab

// CNIConfig is what a network plugin's agent puts on a node: the plain bridge
// plugin of the kubernetes-cni package.
var CNIConfig = File{Path: "/etc/cni/net.d/10-lab.conflist", Content: `{
  "cniVersion": "1.0.0",
  "name": "lab",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "cni0",
      "isGateway": true,
      "ipMasq": true,
      "ipam": {
        "type": "host-local",
        "ranges": [[{"subnet": "10.244.0.0/24"}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`}
