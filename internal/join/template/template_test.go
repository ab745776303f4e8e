package template

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var values = map[string]string{"Serial": "VMW-0001", "MAC": "52:54:00:12:34:56", "Hostname": "node1"}

func TestFieldsAreFilledIn(t *testing.T) {
	for in, want := range map[string]string{
		"":                                   "",
		"plain":                              "plain",
		"a } b }} c":                         "a } b }} c",
		"{{ .Serial }}":                      "VMW-0001",
		"{{.Serial}}-{{  .MAC  }}":           "VMW-0001-52:54:00:12:34:56",
		"Bearer x{{ .Hostname }}y":           "Bearer xnode1y",
		"{{ .Serial }}{{ .Serial }}":         "VMW-0001VMW-0001",
		"{\"serial\":\"{{ .Serial }}\"}":     "{\"serial\":\"VMW-0001\"}",
		"{ { .Serial }} is no field, nor {}": "{ { .Serial }} is no field, nor {}",
	} {
		got, err := Expand(in, values)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	require.Equal(t, []string{"Serial", "MAC"}, Fields("{{ .MAC }}{{ .Serial }}{{ .MAC }}"))
	require.Empty(t, Fields("{{ .Nothing }}"))
}

func TestWhatIsNoFieldIsAnErrorThatQuotesNothingSecret(t *testing.T) {
	for in, want := range map[string]string{
		"{{ .Serail }}":                        "has the unknown field {{ .Serail }}",
		"{{ .serial }}":                        "has the unknown field {{ .serial }}",
		"{{ Serial }}":                         "has something between {{ and }} that is not a field",
		"{{ .Serial | upper }}":                "has something between {{ and }} that is not a field",
		"{{ printf \"hunter2\" }}":             "has something between {{ and }} that is not a field",
		"{{ .hunter2 }}":                       "has something between {{ and }} that is not a field",
		"{{ . }}":                              "has something between {{ and }} that is not a field",
		"{{}}":                                 "has something between {{ and }} that is not a field",
		"{{ .Serial":                           "has a {{ without its }}",
		"{{ {{ .Serial }}":                     "has something between {{ and }} that is not a field",
		"{{ ." + strings.Repeat("a", 21) + "}": "has a {{ without its }}",
	} {
		require.EqualError(t, Check(in), want, in)
		_, err := Expand(in, values)
		require.EqualError(t, err, want, in)
	}
	_, err := Expand("{{ .UUID }}", values)
	require.EqualError(t, err, "this host has no value for {{ .UUID }}")
}

func FuzzATemplateIsReadOrRefusedAndQuotesOnlyNames(f *testing.F) {
	for _, s := range []string{"", "{{", "}}", "{{ .Serial }}", "{{.MAC}}x{{ .UUID }}", "{{ .Nope }}", "{{{ .Serial }}}", "{{ . }}"} {
		f.Add(s)
	}
	all := map[string]string{"Serial": "1", "MAC": "2", "UUID": "3", "Hostname": "4"}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := Expand(s, all)
		if err != nil {
			require.Error(t, Check(s))
			require.Empty(t, Fields(s))
			require.Less(t, len(err.Error()), 80)
			return
		}
		require.NoError(t, Check(s))
		if !strings.Contains(s, "{{") {
			require.Equal(t, s, got)
		}
		require.Equal(t, len(Fields(s)) > 0, strings.Contains(s, "{{"))
	})
}
