// Package route waits until this host can talk to others: a default route and
// an address on its interface. It also chooses the interface of the node's
// address.
package route

import (
	"context"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host"
)

// Facts is the network as the kernel has it.
type Facts struct {
	Network host.Network `json:"network"`
	Toward  string       `json:"toward,omitempty"` // local address towards the API server, where it decides
}

// Observe reads links, addresses and default routes.
func Observe(ctx context.Context, v host.View, spec config.Spec) (Facts, error) {
	n, err := v.Network()
	if err != nil {
		return Facts{}, err
	}
	return Facts{Network: n, Toward: Toward(ctx, v, spec, n)}, nil
}

// Plan waits for a usable default route when there is none. A network that
// has none on purpose says so with family none.
func Plan(spec config.Spec, f Facts) change.Plan {
	var p change.Plan
	want := spec.Network.DefaultRoute
	if want.Family != "none" && len(f.Network.Usable(want.Family)) == 0 {
		p.Changes = append(p.Changes, change.WaitRoute{Family: want.Family, Timeout: want.Timeout.Duration})
		return p // what is in doubt now may not be then
	}
	if c := NodeInterface(spec, f.Network, f.Toward); c.Doubt != "" {
		p.Warnings = append(p.Warnings, c.Doubt)
	}
	return p
}
