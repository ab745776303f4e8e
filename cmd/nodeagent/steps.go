package main

import (
	"strings"

	"nodeagent/internal/run"
)

// steps is what a run does, top to bottom. There is no dependency graph: the
// order is the argument.
var steps = []run.Step{}

func stepNames() string {
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}
