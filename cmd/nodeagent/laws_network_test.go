package main

import (
	"nodeagent/internal/config"
	"nodeagent/internal/host/hosttest"
	"nodeagent/internal/prereq/network/netfile"
)

// addressed asks for a static address where DHCP gave another one.
func addressed(spec config.Spec) config.Spec {
	spec.Network.Configure = true
	spec.Network.Interfaces = []config.Interface{{MAC: "52-54-00-12-34-56", Addresses: []string{"192.0.2.10/24"}, Gateway: "192.0.2.1", DNS: []string{"192.0.2.54"}, Search: []string{"cluster.example"}}}
	return spec
}

// compared asks for the same and has it told only.
func compared(spec config.Spec) config.Spec {
	spec = addressed(spec)
	spec.Network.Configure = false
	return spec
}

func withNetworkManager() *hosttest.World {
	return hosttest.Rocky9().Leased(netfile.NetworkManager, "52:54:00:12:34:56", "192.0.2.50/24")
}

func withNetworkd() *hosttest.World {
	return withRepository().Leased(netfile.Networkd, "52:54:00:12:34:56", "192.0.2.50/24")
}
