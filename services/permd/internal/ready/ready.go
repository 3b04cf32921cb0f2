// Package ready contains the ready-made rule files of permd, so that users can start without writing one.
//
// The files are data: the same parser reads them as a user's own files, and runs their inline tests. Lines that several
// files share are kept once, in parts: a line "#include NAME" in a policy stands for the lines of a part, or for a list
// of package secretfile. The package knows the policies' names and purposes, and does not know how rules are matched.
package ready

import (
	"embed"
	"strings"

	"github.com/acphost/acphost/internal/secretfile"
	"github.com/acphost/acphost/internal/yamlproto"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

//go:embed policies/*.yaml parts/*.yaml
var files embed.FS

// names are the ready policies, in alphabetical order.
func names() []string { return []string{"ask", "headless", "readonly", "workspace"} }

// List returns the ready policies by name. The caller may change what it gets.
func List() []*permissionv1.ReadyPolicy {
	var list []*permissionv1.ReadyPolicy
	for _, name := range names() {
		content, _ := Get(name)
		list = append(list, &permissionv1.ReadyPolicy{Name: name, Description: description(name, content), Content: content})
	}
	return list
}

// Get returns the rule file of a ready policy; false if no policy has that name. The caller may change the returned
// slice.
func Get(name string) ([]byte, bool) {
	if strings.ContainsAny(name, `/\`) {
		return nil, false
	}
	content, err := files.ReadFile("policies/" + name + ".yaml")
	if err != nil {
		return nil, false
	}
	return compose(string(content)), true
}

// compose puts the parts in the place of the lines that name them, indented as those are. Parts may name others. That
// every part is there is a test's to see.
func compose(policy string) []byte {
	var all []byte
	for line := range strings.Lines(policy) {
		indent, name, included := strings.Cut(line, "#include ")
		if !included {
			all = append(all, line...)
			continue
		}
		name = strings.TrimSpace(name)
		text, ok := secretfile.List(name)
		if !ok {
			part, _ := files.ReadFile("parts/" + name + ".yaml")
			text = string(part)
		}
		for line := range strings.Lines(string(compose(text))) {
			if line != "\n" {
				line = indent + line
			}
			all = append(all, line...)
		}
	}
	return all
}

// description returns the description in the file. A test checks that every file can be parsed.
func description(name string, content []byte) string {
	var policy permissionv1.Policy
	if err := yamlproto.Unmarshal(name, content, &policy); err != nil {
		return ""
	}
	return policy.GetDescription()
}
