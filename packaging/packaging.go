// Package packaging holds what is installed beside the binary.
package packaging

import _ "embed"

// Unit is nodeagent.service.
//
//go:embed nodeagent.service
var Unit string
