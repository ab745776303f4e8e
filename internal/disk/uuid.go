package disk

import (
	"github.com/google/uuid"

	"nodeagent/internal/config"
)

// namespace makes our UUIDs differ from everybody else's.
var namespace = uuid.MustParse("a3c8b1de-6f0b-5c54-9a5e-2f7d1c94e6b0")

// fsUUID is the UUID a filesystem gets: version 5 (RFC 9562) of the machine
// id, the disk's name and its mount path. So the plan is pure text and a
// format that was cut off can be told from anybody else's data.
func fsUUID(machineID string, d config.Disk) string {
	return uuid.NewSHA1(namespace, []byte(machineID+"\x00"+d.Name+"\x00"+d.MountPath)).String()
}
