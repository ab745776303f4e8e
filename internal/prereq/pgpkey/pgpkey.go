// Package pgpkey reads OpenPGP public keys (RFC 9580) as far as a package
// manager's trust in them is concerned: that it is a public key, and which.
// Signatures are checked by rpm.
package pgpkey

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// MaxSize bounds a key file in bytes; a distribution's are a few KiB.
const MaxSize = 1 << 20

// Key identifies one primary public key.
type Key struct {
	ID          string // 16 lower-case hex digits
	Fingerprint string // lower-case hex
	Created     uint32 // seconds since the epoch
}

// Provides is what a key in the RPM database provides, by rpm's version: the
// last 8 digits of its id, its id, or its fingerprint in gpg(…). Any of them
// tells that the key is there.
func (k Key) Provides() []string {
	return []string{"gpg(" + k.ID[len(k.ID)-8:] + ")", "gpg(" + k.ID + ")", "gpg(" + k.Fingerprint + ")"}
}

const (
	begin = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
	end   = "-----END PGP PUBLIC KEY BLOCK-----"
)

// Parse returns the primary keys in data, which is armored (one block or
// several) or binary. Anything that is no public key is an error.
func Parse(data []byte) ([]Key, error) {
	raw, err := blocks(data)
	if err != nil {
		return nil, err
	}
	var keys []Key
	for _, b := range raw {
		k, err := packets(b)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k...)
	}
	return keys, nil
}

// note marks the armor header that names a key's source.
const note = "Comment: nodeagent "

// Armor returns data as armored blocks, each with a comment that names its
// source, so that a changed source in the configuration is noticed later. It
// fails when data is no public key.
func Armor(source string, data []byte) ([]byte, error) {
	if strings.ContainsAny(source, "\r\n") {
		return nil, errors.New("a key's source can't hold a line break")
	}
	raw, err := blocks(data)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, b := range raw {
		if _, err := packets(b); err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%s\n%s%s\n\n", begin, note, source)
		text := base64.StdEncoding.EncodeToString(b)
		for len(text) > 64 {
			out.WriteString(text[:64] + "\n")
			text = text[64:]
		}
		sum := crc24(b)
		fmt.Fprintf(&out, "%s\n=%s\n%s\n", text, base64.StdEncoding.EncodeToString([]byte{byte(sum >> 16), byte(sum >> 8), byte(sum)}), end)
	}
	return out.Bytes(), nil
}

// Sources lists the sources that Armor noted in a file, each once, in order.
func Sources(text string) []string {
	var out []string
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		if s, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), note); ok && !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// blocks returns the binary content of every armored block, or data itself
// when it isn't armored.
func blocks(data []byte) ([][]byte, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("larger than %d bytes", MaxSize)
	}
	text := string(data)
	if !strings.Contains(text, "-----BEGIN PGP ") {
		if len(data) == 0 {
			return nil, errors.New("empty")
		}
		if data[0]&0x80 == 0 {
			return nil, fmt.Errorf("no OpenPGP data; it begins with %q", text[:min(len(text), 40)])
		}
		return [][]byte{data}, nil
	}
	if strings.Contains(text, "-----BEGIN PGP PRIVATE KEY BLOCK-----") {
		return nil, errors.New("a private key; only public keys belong here")
	}
	var out [][]byte
	for {
		_, rest, ok := strings.Cut(text, begin)
		if !ok {
			break
		}
		body, after, ok := strings.Cut(rest, end)
		if !ok {
			return nil, errors.New("an armored block without its end")
		}
		b, err := dearmor(body)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
		text = after
	}
	if len(out) == 0 {
		return nil, errors.New("OpenPGP data, but no public key block")
	}
	return out, nil
}

// dearmor decodes what stands between begin and end: headers, an empty line,
// base64, and an optional checksum, which is checked when it is there.
func dearmor(body string) ([]byte, error) {
	var text strings.Builder
	sum := ""
	inHeaders := true
	for i, line := range strings.Split(body, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case inHeaders && strings.Contains(line, ": "):
		case line == "":
			inHeaders = inHeaders && i == 0 // the rest of the BEGIN line
		case strings.HasPrefix(line, "=") && len(line) == 5:
			sum = line[1:]
		default:
			inHeaders = false
			text.WriteString(line)
		}
	}
	b, err := base64.StdEncoding.DecodeString(text.String())
	if err != nil {
		return nil, fmt.Errorf("damaged armor: %w", err)
	}
	if want, err := base64.StdEncoding.DecodeString(sum); sum != "" && (err != nil || len(want) != 3 ||
		uint32(want[0])<<16|uint32(want[1])<<8|uint32(want[2]) != crc24(b)) {
		return nil, errors.New("damaged armor: the checksum is wrong")
	}
	return b, nil
}

// crc24 is the checksum of RFC 9580, section 6.1.1.
func crc24(b []byte) uint32 {
	crc := uint32(0xb704ce)
	for _, x := range b {
		crc ^= uint32(x) << 16
		for range 8 {
			crc <<= 1
			if crc&0x1000000 != 0 {
				crc ^= 0x1864cfb
			}
		}
	}
	return crc & 0xffffff
}

// publicKey is the packet type of a primary public key (RFC 9580, section 5).
const publicKey = 6

// packets walks the packets of one block; the first must be a public key.
func packets(b []byte) ([]Key, error) {
	var keys []Key
	for first := true; len(b) > 0; first = false {
		tag, body, rest, err := packet(b)
		if err != nil {
			return nil, err
		}
		if first && tag != publicKey {
			return nil, fmt.Errorf("OpenPGP data, but it begins with packet type %d and not with a public key", tag)
		}
		if tag == publicKey {
			k, err := identify(body)
			if err != nil {
				return nil, err
			}
			keys = append(keys, k)
		}
		b = rest
	}
	if len(keys) == 0 {
		return nil, errors.New("an empty block")
	}
	return keys, nil
}

var errCut = errors.New("OpenPGP data that is cut short")

// packet splits one packet off (RFC 9580, section 4.2).
func packet(b []byte) (tag int, body, rest []byte, err error) {
	if b[0]&0x80 == 0 {
		return 0, nil, nil, errors.New("no OpenPGP packet")
	}
	head, n := 1, 0
	if b[0]&0x40 == 0 { // the legacy format
		tag = int(b[0] >> 2 & 0x0f)
		size := 1 << (b[0] & 3)
		if size == 8 {
			return 0, nil, nil, errors.New("an OpenPGP packet of indeterminate length")
		}
		if len(b) < 1+size {
			return 0, nil, nil, errCut
		}
		for _, x := range b[1 : 1+size] {
			n = n<<8 | int(x)
		}
		head += size
	} else {
		tag = int(b[0] & 0x3f)
		if len(b) < 2 {
			return 0, nil, nil, errCut
		}
		switch l := int(b[1]); {
		case l < 192:
			n, head = l, 2
		case l < 224:
			if len(b) < 3 {
				return 0, nil, nil, errCut
			}
			n, head = (l-192)<<8+int(b[2])+192, 3
		case l == 255:
			if len(b) < 6 {
				return 0, nil, nil, errCut
			}
			n, head = int(binary.BigEndian.Uint32(b[2:6])), 6
		default:
			return 0, nil, nil, errors.New("an OpenPGP key packet in parts")
		}
	}
	if n < 0 || n > len(b)-head {
		return 0, nil, nil, errCut
	}
	return tag, b[head : head+n], b[head+n:], nil
}

// identify computes fingerprint and id of a public key packet (RFC 9580,
// section 5.5.4).
func identify(body []byte) (Key, error) {
	if len(body) < 6 {
		return Key{}, errCut
	}
	k := Key{Created: binary.BigEndian.Uint32(body[1:5])}
	switch body[0] {
	case 4:
		h := sha1.Sum(append([]byte{0x99, byte(len(body) >> 8), byte(len(body))}, body...))
		k.Fingerprint = hex.EncodeToString(h[:])
		k.ID = k.Fingerprint[24:]
	case 5, 6:
		prefix := byte(0x9a)
		if body[0] == 6 {
			prefix = 0x9b
		}
		h := sha256.Sum256(append(binary.BigEndian.AppendUint32([]byte{prefix}, uint32(len(body))), body...))
		k.Fingerprint = hex.EncodeToString(h[:])
		k.ID = k.Fingerprint[:16]
	default:
		return Key{}, fmt.Errorf("an OpenPGP key of version %d, which rpm doesn't take", body[0])
	}
	return k, nil
}
