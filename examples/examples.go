// Package examples holds configurations to start from.
package examples

import "embed"

// Files are the examples, named OS.yaml.
//
//go:embed *.yaml
var Files embed.FS
