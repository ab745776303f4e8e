package internal_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sections are the field cases: how many of each letter, and whether one of its
// tests must bear the id in its own name or in its row's.
var sections = []struct {
	letter  string
	count   int
	byItsID bool
}{{"S", 7, true}, {"O", 4, true}, {"P", 8, true}, {"D", 12, false}, {"F", 7, true}, {"R", 4, true}, {"K", 5, true}, {"J", 10, false}}

var (
	caseRow    = regexp.MustCompile(`(?m)^\| ([A-Z]\d+) \| (.+?) \| (.+) \|$`)
	namedTest  = regexp.MustCompile("([a-z0-9/]+) `(Test[A-Za-z0-9]+)(?:/([^`]+))?`")
	declared   = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)
	mentioned  = regexp.MustCompile("`(Test[A-Za-z0-9]+)(…)?(?:/[^`]*)?`")
	idOfATest  = regexp.MustCompile(`^Test((?:[SOPDFRKJ]\d+)+)[A-Z]`)
	idOfARow   = regexp.MustCompile(`^([SOPDFRKJ]\d+)(?:\W|$)`)
	separateID = regexp.MustCompile(`[A-Z]\d+`)
)

// tests are the test functions by the folder they are in, and the text of a
// folder's test files together with the names of what is in its testdata.
func tests(t *testing.T) (functions map[string][]string, texts map[string]string) {
	functions, texts = map[string][]string{}, map[string]string{}
	for _, root := range []string{"../cmd", "../internal", "../test"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			dir := strings.TrimPrefix(filepath.Dir(path), "../")
			if owner, _, in := strings.Cut(dir, "/testdata"); in {
				texts[owner] += "\"" + strings.TrimSuffix(d.Name(), ".txtar") + "\"\n"
			}
			if !strings.HasSuffix(path, "_test.go") {
				return nil
			}
			b, err := os.ReadFile(path)
			texts[dir] += string(b)
			for _, m := range declared.FindAllStringSubmatch(string(b), -1) {
				functions[dir] = append(functions[dir], m[1])
			}
			return err
		}))
	}
	return functions, texts
}

// folder is the only one that ends in what a document calls it.
func folder(functions map[string][]string, name string) (string, error) {
	if name == "cmd" {
		name = "cmd/nodeagent"
	}
	var found []string
	for dir := range functions {
		if strings.HasSuffix("/"+dir, "/"+name) {
			found = append(found, dir)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%q is %d folders with tests: %v", name, len(found), found)
	}
	return found[0], nil
}

func TestEveryFieldCaseHasATestThatExists(t *testing.T) {
	functions, texts := tests(t)
	b, err := os.ReadFile("../docs/cases.md")
	require.NoError(t, err)
	rows := map[string]string{}
	for _, m := range caseRow.FindAllStringSubmatch(string(b), -1) {
		require.NotContains(t, rows, m[1], "twice")
		require.Greater(t, len(m[2]), 10, "%s: what is it?", m[1])
		rows[m[1]] = m[3]
	}
	total := 0
	for _, s := range sections {
		total += s.count
		for n := 1; n <= s.count; n++ {
			id := fmt.Sprint(s.letter, n)
			require.Contains(t, rows, id)
			bearing := false
			named := namedTest.FindAllStringSubmatch(rows[id], -1)
			require.NotEmpty(t, named, "%s has no test", id)
			require.Len(t, named, strings.Count(rows[id], "`")/2, "%s: each is FOLDER `TEST`", id)
			for _, m := range named {
				dir, err := folder(functions, m[1])
				require.NoError(t, err, id)
				require.True(t, slices.Contains(functions[dir], m[2]), "%s: no %s in %s", id, m[2], dir)
				if m[3] != "" {
					require.True(t, strings.Contains(texts[dir], "\""+m[3]+"\""), "%s: no row %q of %s in %s", id, m[3], m[2], dir)
				}
				bearing = bearing || bears(m[2], m[3], id)
			}
			require.True(t, bearing || !s.byItsID, "%s: no test has it in its name: %s", id, rows[id])
		}
	}
	require.Len(t, rows, total)
}

// bears tells whether a test or its row is named after a case: TestK3K4… is
// after two.
func bears(test, row, id string) bool {
	if m := idOfATest.FindStringSubmatch(test); m != nil && slices.Contains(separateID.FindAllString(m[1], -1), id) {
		return true
	}
	m := idOfARow.FindStringSubmatch(row)
	return m != nil && m[1] == id
}

func TestEveryTestThatADocumentNamesExists(t *testing.T) {
	functions, _ := tests(t)
	documents, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, documents)
	for _, file := range documents {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range mentioned.FindAllStringSubmatch(string(b), -1) {
			found := false
			for _, names := range functions {
				found = found || slices.ContainsFunc(names, func(n string) bool { return n == m[1] || m[2] != "" && strings.HasPrefix(n, m[1]) })
			}
			require.True(t, found, "%s names %s", file, m[1])
		}
	}
}
