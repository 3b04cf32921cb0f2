package secretfile

import (
	"embed"
	"path"
	"strings"
	"sync"

	"github.com/acphost/acphost/internal/fold"
	"github.com/acphost/acphost/internal/pathglob"
)

// The lists, by their names in the ready-made policies.
const (
	noList = ""
	// envFiles are variables of a project.
	envFiles = "env-files"
	// secretFiles are secrets whatever they hold.
	secretFiles = "secret-files"
	// keyFiles hold private keys, public keys or certificates.
	keyFiles = "key-files"
	// sshFiles lie beside private keys.
	sshFiles = "ssh-files"
	// secretSettings and projectSettings may hold tokens or passwords. Files of projectSettings usually hold none.
	secretSettings  = "secret-settings"
	projectSettings = "project-settings"
)

//go:embed lists/*.yaml
var lists embed.FS

// List returns the text of a list of names, as YAML: one pattern in a line, with "!" before those of excepted files. ok
// is false if there is no such list.
func List(name string) (text string, ok bool) {
	data, err := lists.ReadFile("lists/" + name + ".yaml")
	return string(data), err == nil
}

// names is a parsed list.
type names struct {
	list         string
	in, excepted pathglob.Set
}

// parsed returns the lists in the order in which they decide, and all their names. Most files are on no list.
var parsed = sync.OnceValues(func() (all []names, any pathglob.Set) {
	var everything []string
	for _, list := range []string{envFiles, secretFiles, sshFiles, keyFiles, secretSettings, projectSettings} {
		var in, excepted []string
		text, _ := List(list)
		for line := range strings.Lines(text) {
			glob, ok := strings.CutPrefix(strings.TrimSpace(line), `- "`)
			if !ok {
				continue
			}
			glob = fold.Path(strings.TrimSuffix(glob, `"`))
			glob, except := strings.CutPrefix(glob, "!")
			if strings.HasPrefix(glob, "**") {
				glob = "/" + glob
			}
			if except {
				excepted = append(excepted, glob)
			} else {
				in = append(in, glob)
			}
		}
		all = append(all, names{list, set(in), set(excepted)})
		everything = append(everything, in...)
	}
	return all, set(everything)
})

// set returns the set of patterns of a list, which the tests of this package read.
func set(globs []string) pathglob.Set {
	s, ok := pathglob.NewSet(globs)
	if !ok {
		panic("secretfile: a list has an invalid pattern")
	}
	return s
}

// listOf returns the list that has an absolute path.
func listOf(file string) string {
	file = fold.Path(file)
	all, names := parsed()
	if !names.Matches(file) {
		return noList
	}
	for _, n := range all {
		if n.in.Matches(file) && !n.excepted.Matches(file) {
			return n.list
		}
	}
	return noList
}

// Named reports whether a word of a command names a file on a list of secrets, or a folder of them: as a path, behind a
// separator ("--file=.env", "@.env", "HEAD:.env"), in any case. It returns false for settings of a project, and for a
// bare name that ends in ".key", because both are usually no secrets.
func Named(word string) bool {
	if namedBy(word) {
		return true
	}
	for i := range len(word) {
		if strings.IndexByte("=:@", word[i]) >= 0 && namedBy(word[i+1:]) {
			return true
		}
	}
	return false
}

// namedBy implements Named for a word that is a path.
func namedBy(word string) bool {
	switch list := listOf(path.Clean("/" + word)); list {
	case noList, projectSettings:
		return false
	case keyFiles:
		return strings.Contains(word, "/") || !strings.EqualFold(path.Ext(word), ".key")
	}
	return true
}
