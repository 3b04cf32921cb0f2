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
	in, excepted []pathglob.Pattern
}

// parsed are the lists in the order in which they decide.
var parsed = sync.OnceValue(func() (all []names) {
	for _, list := range []string{envFiles, secretFiles, sshFiles, keyFiles, secretSettings, projectSettings} {
		n := names{list: list}
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
				n.excepted = append(n.excepted, pathglob.New(glob))
			} else {
				n.in = append(n.in, pathglob.New(glob))
			}
		}
		all = append(all, n)
	}
	return all
})

// listOf returns the list that has an absolute path.
func listOf(file string) string {
	file = fold.Path(file)
	for _, n := range parsed() {
		if matches(n.in, file) && !matches(n.excepted, file) {
			return n.list
		}
	}
	return noList
}

func matches(patterns []pathglob.Pattern, file string) bool {
	for i := range patterns {
		if patterns[i].Matches(file) {
			return true
		}
	}
	return false
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
