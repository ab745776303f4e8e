package config

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const withFile = "apiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nspec:\n  kubernetes: {version: v1.35.4}\n  join: {token: {file: /t}}\n  files:\n  - "

func gzipped(t *testing.T, b []byte) string {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := w.Write(b)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return base64.StdEncoding.EncodeToString(z.Bytes())
}

func TestEncodedContentIsWhatItSays(t *testing.T) {
	for encoding, content := range map[string]string{
		"base64":      `"aGVs\nbG8="`,
		"gzip+base64": gzipped(t, []byte("hello")),
	} {
		c, err := Load([]Source{{Name: "test", Data: []byte(withFile + "{path: /etc/x, encoding: " + encoding + ", content: " + content + "}\n")}}, Identity{})
		require.NoError(t, err)
		require.Equal(t, "hello", c.Spec.Files[0].Content)
	}
}

func TestContentThatIsNotAsEncodedIsRefused(t *testing.T) {
	for file, want := range map[string]string{
		"{path: /etc/x, encoding: base64, content: \"*\"}":                                               "is not base64",
		"{path: /etc/x, encoding: gzip+base64, content: aGVsbG8=}":                                       "is not gzip+base64",
		"{path: /etc/x, encoding: gzip+base64, content: " + gzipped(t, make([]byte, maxContent+1)) + "}": "larger than 16 MiB",
		"{path: /etc/x, append: true}":                                                                   "missing, and append adds them",
		"{path: /etc/x, append: true, encoding: base64, content: Cg==}":                                  "is empty, and append adds it",
		"{path: /etc/x, encoding: gzip, content: x}":                                                     "encoding",
	} {
		_, err := Load([]Source{{Name: "test", Data: []byte(withFile + file + "\n")}}, Identity{})
		require.ErrorContains(t, err, "spec.files[0]", strings.SplitAfterN(file, "content", 2)[0])
		require.ErrorContains(t, err, want)
	}
}
