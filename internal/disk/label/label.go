// Package label knows the rules of filesystem labels: how long they may be and
// how udev names the links it makes of them.
package label

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// limits are in bytes: mkfs.xfs(8), mke2fs(8), mkfs.fat(8), mkswap(8),
// mkfs.btrfs(8).
var limits = map[string]int{"xfs": 12, "ext4": 16, "vfat": 11, "swap": 15, "btrfs": 255}

// Limit is the longest label of a filesystem type in bytes; 0 when the type
// isn't known.
func Limit(fstype string) int { return limits[fstype] }

// Link is the name below /dev/disk/by-label of a label: what is neither
// letter, digit, one of #+-.:=@_ nor valid UTF-8 beyond ASCII is written \xNN,
// as udev's ID_FS_LABEL_ENC has it.
func Link(label string) string {
	var out strings.Builder
	for i := 0; i < len(label); {
		_, n := utf8.DecodeRuneInString(label[i:])
		if n > 1 || plain(label[i]) {
			out.WriteString(label[i : i+n])
		} else {
			fmt.Fprintf(&out, `\x%02x`, label[i])
		}
		i += n
	}
	return out.String()
}

func plain(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.IndexByte("#+-.:=@_", c) >= 0
}
