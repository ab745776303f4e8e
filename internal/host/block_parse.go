package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// lsblkColumns exist in util-linux 2.32 (EL8) and later. Mount points don't,
// and come from mountinfo.
const lsblkColumns = "NAME,KNAME,MAJ:MIN,TYPE,SIZE,RO,RM,MODEL,SERIAL,WWN,PARTLABEL,PARTUUID,FSTYPE,LABEL,UUID,PTTYPE"

// lsblkNode is a device in lsblk's JSON. EL8 quotes numbers and flags.
type lsblkNode struct {
	KName     scalar      `json:"kname"`
	MajMin    scalar      `json:"maj:min"`
	Type      scalar      `json:"type"`
	Size      scalar      `json:"size"`
	RO        scalar      `json:"ro"`
	RM        scalar      `json:"rm"`
	Model     scalar      `json:"model"`
	Serial    scalar      `json:"serial"`
	WWN       scalar      `json:"wwn"`
	PartLabel scalar      `json:"partlabel"`
	PartUUID  scalar      `json:"partuuid"`
	FSType    scalar      `json:"fstype"`
	Label     scalar      `json:"label"`
	UUID      scalar      `json:"uuid"`
	PTType    scalar      `json:"pttype"`
	Children  []lsblkNode `json:"children"`
}

// scalar is any JSON scalar as text; null is empty.
type scalar string

// UnmarshalJSON takes strings, numbers, booleans and null.
func (s *scalar) UnmarshalJSON(b []byte) error {
	switch {
	case string(b) == "null":
		*s = ""
		return nil
	case len(b) > 0 && b[0] == '"':
		var text string
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
		*s = scalar(strings.TrimSpace(text))
		return nil
	case len(b) > 0 && (b[0] == '{' || b[0] == '['):
		return fmt.Errorf("%s is not a scalar", b)
	}
	*s = scalar(b)
	return nil
}

func (s scalar) yes() bool { return s == "1" || s == "true" }

// parseLsblk flattens the tree of "lsblk -J -b". A device with several parents
// (RAID, multipath) stands below each of them and is returned once.
func parseLsblk(b []byte) ([]BlockDevice, error) {
	var top struct {
		Devices []lsblkNode `json:"blockdevices"`
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, nil // no devices at all
	}
	if err := json.Unmarshal(b, &top); err != nil {
		return nil, fmt.Errorf("lsblk's answer: %w", err)
	}
	var out []BlockDevice
	at := map[string]int{}
	var walk func(n lsblkNode, parent string)
	walk = func(n lsblkNode, parent string) {
		name := string(n.KName)
		if name == "" {
			return
		}
		if _, seen := at[name]; !seen {
			size, _ := strconv.ParseInt(string(n.Size), 10, 64)
			at[name] = len(out)
			out = append(out, BlockDevice{Name: name, Path: "/dev/" + name, Device: string(n.MajMin), Type: string(n.Type), Size: size,
				ReadOnly: n.RO.yes(), Removable: n.RM.yes(), Model: string(n.Model), Serial: string(n.Serial), WWN: string(n.WWN),
				PartLabel: string(n.PartLabel), PartUUID: string(n.PartUUID), Parent: parent,
				FSType: string(n.FSType), Label: string(n.Label), FSUUID: string(n.UUID), PTType: string(n.PTType)})
			if n.Type == "part" {
				// udev passes the disk's table type on to its partitions.
				out[at[name]].PTType = ""
			}
		}
		for _, c := range n.Children {
			walk(c, name)
			d := &out[at[name]]
			if child := string(c.KName); child != "" && !slices.Contains(d.Children, child) {
				d.Children = append(d.Children, child)
			}
		}
	}
	for _, n := range top.Devices {
		walk(n, "")
	}
	return out, nil
}

// parseBlkid reads what "blkid -p -o export" prints, in either of its shapes:
// KEY=value lines with unsafe bytes escaped by a backslash, or one line
// `/dev/x: KEY="value" …`. Keys it doesn't know are kept.
func parseBlkid(b []byte) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(line, "/") {
			if _, rest, ok := strings.Cut(line, ": "); ok {
				quotedPairs(rest, out)
			}
			continue
		}
		if key, value, ok := strings.Cut(line, "="); ok && key != "" {
			out[key] = unescape(value)
		}
	}
	return out
}

func quotedPairs(s string, out map[string]string) {
	for {
		key, rest, ok := strings.Cut(strings.TrimLeft(s, " "), "=\"")
		if !ok {
			return
		}
		var value strings.Builder
		i := 0
		for ; i < len(rest) && rest[i] != '"'; i++ {
			if rest[i] == '\\' && i+1 < len(rest) {
				i++
			}
			value.WriteByte(rest[i])
		}
		out[key] = value.String()
		if i >= len(rest) {
			return
		}
		s = rest[i+1:]
	}
}

// unescape drops the backslash before an escaped byte.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// parseWipefs returns "type@offset" for each signature that "wipefs -n -J"
// lists. No output at all means none.
func parseWipefs(b []byte) ([]string, error) {
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, nil
	}
	var top struct {
		Signatures []struct {
			Type   scalar `json:"type"`
			Offset scalar `json:"offset"`
		} `json:"signatures"`
	}
	if err := json.Unmarshal(b, &top); err != nil {
		return nil, fmt.Errorf("wipefs' answer: %w", err)
	}
	var out []string
	for _, s := range top.Signatures {
		out = append(out, string(s.Type)+"@"+string(s.Offset))
	}
	return out, nil
}
