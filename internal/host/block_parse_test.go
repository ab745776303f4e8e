package host

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// EL8's util-linux 2.32 quotes everything; a mirror stands below both of its
// halves.
const lsblkEL8 = `{
   "blockdevices": [
      {"name": "sda", "kname": "sda", "maj:min": "8:0", "type": "disk", "size": "42949672960", "ro": "0", "rm": "0", "model": "Virtual disk    ", "serial": null, "wwn": null, "partlabel": null, "partuuid": null, "fstype": null, "label": null, "uuid": null, "pttype": "gpt",
         "children": [
            {"name": "sda1", "kname": "sda1", "maj:min": "8:1", "type": "part", "size": "1073741824", "ro": "0", "rm": "0", "model": null, "serial": null, "wwn": null, "partlabel": "EFI System Partition", "partuuid": "1f5b", "fstype": "vfat", "label": null, "uuid": "7B77-95E7", "pttype": "gpt"}
         ]
      },
      {"name": "sdb", "kname": "sdb", "maj:min": "8:16", "type": "disk", "size": "107374182400", "ro": "1", "rm": "1", "model": null, "serial": "6000c29", "wwn": "0x6000c29", "partlabel": null, "partuuid": null, "fstype": "linux_raid_member", "label": "host:0", "uuid": "u", "pttype": null,
         "children": [
            {"name": "md0", "kname": "md0", "maj:min": "9:0", "type": "raid1", "size": "107307073536", "ro": "0", "rm": "0", "model": null, "serial": null, "wwn": null, "partlabel": null, "partuuid": null, "fstype": "xfs", "label": "data", "uuid": "v", "pttype": null}
         ]
      },
      {"name": "sdc", "kname": "sdc", "maj:min": "8:32", "type": "disk", "size": "107374182400", "ro": "0", "rm": "0", "model": null, "serial": null, "wwn": null, "partlabel": null, "partuuid": null, "fstype": "linux_raid_member", "label": "host:0", "uuid": "u", "pttype": null,
         "children": [
            {"name": "md0", "kname": "md0", "maj:min": "9:0", "type": "raid1", "size": "107307073536", "ro": "0", "rm": "0", "model": null, "serial": null, "wwn": null, "partlabel": null, "partuuid": null, "fstype": "xfs", "label": "data", "uuid": "v", "pttype": null}
         ]
      }
   ]
}`

const lsblk238 = `{
   "blockdevices": [
      {
         "name": "vdb",
         "kname": "vdb",
         "maj:min": "254:16",
         "type": "disk",
         "size": 21474836480,
         "ro": false,
         "rm": false,
         "model": null,
         "serial": "var-lib-kubelet",
         "wwn": null,
         "partlabel": null,
         "partuuid": null,
         "fstype": "xfs",
         "label": "kubelet",
         "uuid": "7b1a3a50-0000-5000-8000-000000000001",
         "pttype": null
      }
   ]
}`

func TestLsblkOfEL8IsReadWithQuotedNumbersAndAMirrorOnce(t *testing.T) {
	got, err := parseLsblk([]byte(lsblkEL8))
	require.NoError(t, err)
	require.Len(t, got, 5)
	require.Equal(t, BlockDevice{Name: "sda", Path: "/dev/sda", Device: "8:0", Type: "disk", Size: 40 << 30, Model: "Virtual disk", PTType: "gpt", Children: []string{"sda1"}}, got[0])
	require.Equal(t, BlockDevice{Name: "sda1", Path: "/dev/sda1", Device: "8:1", Type: "part", Size: 1 << 30, Parent: "sda", PartLabel: "EFI System Partition", PartUUID: "1f5b", FSType: "vfat", FSUUID: "7B77-95E7"}, got[1])
	require.True(t, got[2].ReadOnly && got[2].Removable)
	require.Equal(t, []string{"md0"}, got[2].Children)
	require.Equal(t, "raid1", got[3].Type)
	require.Equal(t, []string{"md0"}, got[4].Children)
}

func TestLsblkOfNewerSystemsIsReadWithNumbersAndBooleans(t *testing.T) {
	got, err := parseLsblk([]byte(lsblk238))
	require.NoError(t, err)
	require.Equal(t, []BlockDevice{{Name: "vdb", Path: "/dev/vdb", Device: "254:16", Type: "disk", Size: 20 << 30, Serial: "var-lib-kubelet",
		FSType: "xfs", Label: "kubelet", FSUUID: "7b1a3a50-0000-5000-8000-000000000001"}}, got)
}

func TestBlkidIsReadInBothOfItsShapes(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"DEVNAME=/dev/sdb\nPTUUID=4d3b\nPTTYPE=dos\n":                                             {"DEVNAME": "/dev/sdb", "PTUUID": "4d3b", "PTTYPE": "dos"},
		"DEVNAME=/dev/loop0\nLABEL=a\\$b\\ c\nVERSION=1.0\nTYPE=ext4\nUSAGE=filesystem\n":         {"DEVNAME": "/dev/loop0", "LABEL": "a$b c", "VERSION": "1.0", "TYPE": "ext4", "USAGE": "filesystem"},
		"/dev/loop3: UUID=\"7b1a\" LABEL=\"two words\" TYPE=\"xfs\"\n":                            {"UUID": "7b1a", "LABEL": "two words", "TYPE": "xfs"},
		"/dev/vdb1: PART_ENTRY_SCHEME=\"gpt\" PART_ENTRY_NAME=\"a\\\"b\" PART_ENTRY_NUMBER=\"1\"": {"PART_ENTRY_SCHEME": "gpt", "PART_ENTRY_NAME": `a"b`, "PART_ENTRY_NUMBER": "1"},
		"": {},
	} {
		require.Equal(t, want, parseBlkid([]byte(text)), text)
	}
}

func TestWipefsIsReadWithAndWithoutSignatures(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                     nil,
		"{\n   \"signatures\": [\n\n   ]\n}\n": nil,
		`{"signatures": [{"device":"loop0", "offset":"0x200", "type":"gpt", "uuid":null, "label":null},{"device":"loop0","offset":"0x18ffffe00","type":"gpt"},{"offset":"0x1fe","type":"PMBR"}]}`: {"gpt@0x200", "gpt@0x18ffffe00", "PMBR@0x1fe"},
	} {
		got, err := parseWipefs([]byte(text))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := parseWipefs([]byte("wipefs: error"))
	require.Error(t, err)
}

func TestDevicesStandInTheOrderOfTheirPlaces(t *testing.T) {
	at := func(name string, links ...string) BlockDevice { return BlockDevice{Name: name, ByPath: links} }
	devices := []BlockDevice{
		at("sdz"), at("sda", "/dev/disk/by-path/pci-0000:03:00.0-scsi-0:0:10:0"), at("sdc", "/dev/disk/by-path/pci-0000:03:00.0-scsi-0:0:2:0"),
		at("vdb", "/dev/disk/by-path/pci-0000:00:0a.0"), at("vda", "/dev/disk/by-path/pci-0000:00:09.0"), at("sdb"),
	}
	slices.SortStableFunc(devices, byPathOrder)
	var names []string
	for _, d := range devices {
		names = append(names, d.Name)
	}
	require.Equal(t, []string{"vda", "vdb", "sdc", "sda", "sdb", "sdz"}, names)
}

func FuzzParseLsblk(f *testing.F) {
	f.Add([]byte(lsblkEL8))
	f.Add([]byte(lsblk238))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseLsblk(b)
		seen := map[string]bool{}
		for _, d := range got {
			if err != nil || d.Name == "" || seen[d.Name] {
				t.Fatalf("%v %+v", err, d)
			}
			seen[d.Name] = true
		}
	})
}

func FuzzParseProbes(f *testing.F) {
	f.Add([]byte("DEVNAME=/dev/sdb\nPTTYPE=dos\n/dev/loop3: UUID=\"7b1a\" LABEL=\"a\\\"b"))
	f.Add([]byte(`{"signatures": [{"offset":"0x200", "type":"gpt"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		parseBlkid(b)
		_, _ = parseWipefs(b)
	})
}
