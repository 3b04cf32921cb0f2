// Package secrettest provides files of real formats for tests about secrets, each with the right verdict. Private
// keys are generated when a test runs, so that no file of the repository holds one.
package secrettest

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/secretfile"
)

//go:embed files.txt
var files string

// File is a file of the corpus.
type File struct {
	// Path is relative to a project, or begins with "~/" for a file in the home folder.
	Path    string
	Content []byte
	Want    secretfile.Verdict
}

// Under returns the path of the file for a project and a home folder.
func (f File) Under(project, home string) string {
	if rest, ok := strings.CutPrefix(f.Path, "~/"); ok {
		return home + "/" + rest
	}
	return project + "/" + f.Path
}

// Files returns the corpus. The text of files.txt has a section for each verdict, the path of a file at the beginning
// of a line, and its lines indented by four spaces. "{{NAME}}" is generated text, and "{{NAME|FORM}}" the same in
// another form.
func Files(t testing.TB) []File {
	t.Helper()
	material := generate()
	var all []File
	var want secretfile.Verdict
	for line := range strings.Lines(files) {
		line = strings.TrimRight(line, "\n")
		verdict, heading := strings.CutPrefix(line, "= ")
		text, content := strings.CutPrefix(line, "    ")
		switch {
		case heading:
			want = map[string]secretfile.Verdict{
				"secret": secretfile.Secret, "key": secretfile.HoldsKey, "public": secretfile.Public, "ordinary": secretfile.Ordinary,
			}[verdict]
		case content:
			f := &all[len(all)-1]
			f.Content = append(f.Content, material.expand(t, text)...)
		case line != "":
			all = append(all, File{Path: line, Want: want})
		}
	}
	return all
}
