package config

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxContent bounds the content of one file once it is unpacked, in bytes: as
// much as a host reads of a file.
const maxContent = 16 << 20

// contents replaces what is written in an encoding by what it says, so that
// nothing behind the configuration knows of encodings.
func (k *checker) contents(s *Spec) {
	for i := range s.Files {
		f := &s.Files[i]
		at := fmt.Sprintf("spec.files[%d]", i)
		if f.Append && strings.Trim(f.Content, "\n") == "" {
			k.bad(at+".content", "give the lines to add", "missing, and append adds them")
		}
		if f.Encoding == "" {
			continue
		}
		plain, err := decodeContent(f.Encoding, f.Content)
		if err != nil {
			k.bad(at+".content", "make it with: base64 FILE, or gzip -c FILE | base64", "is not %s: %v", f.Encoding, err)
			continue
		}
		if f.Append && strings.Trim(plain, "\n") == "" {
			k.bad(at+".content", "give the lines to add", "is empty, and append adds it")
		}
		f.Content, f.Encoding = plain, ""
	}
}

// decodeContent undoes an encoding of spec.files. Line breaks within base64 are
// fine.
func decodeContent(encoding, content string) (string, error) {
	b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(content), ""))
	if err != nil {
		return "", err
	}
	if encoding == "gzip+base64" {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return "", err
		}
		if b, err = io.ReadAll(io.LimitReader(z, maxContent+1)); err != nil {
			return "", err
		}
	}
	if len(b) > maxContent {
		return "", errors.New("its content is larger than 16 MiB")
	}
	return string(b), nil
}
