package main

import (
	"nodeagent/internal/config"
	"nodeagent/internal/host/hosttest"
)

// trusting asks for a certificate authority of one's own as well.
func trusting(spec config.Spec) config.Spec {
	spec.CATrust = []config.CATrust{{Name: "example", PEM: hosttest.Authority}}
	return spec
}

// emptying asks that each disk is emptied once.
func emptying(spec config.Spec) config.Spec {
	for i := range spec.Disks {
		spec.Disks[i].WipeOnce = true
	}
	return spec
}
