package policy

import (
	"slices"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

func TestFolderTexts_OfPattern(t *testing.T) {
	for text, want := range map[string][]string{
		"/**/.a/b":              {"/**/.a"},
		"/**/.env":              nil,
		"/**/.{a,b}/**":         {"/**/.{a,b}"},
		"/**/{a/b,.c}/**":       {"/**/.c", "/**/a", "/**/a/b"},
		"/**/{x{a/b,c},d}/e":    {"/**/d", "/**/xa", "/**/xa/b", "/**/xc"},
		"/home/u/.b{c,d/**}":    {"/home", "/home/u", "/home/u/.bd"},
		"ci/jobs/**":            {"ci", "ci/jobs"},
		`/a\{b/c`:               {`/a\{b`},
		"/**/.x/{a,b}.{y,z}":    {"/**/.x"},
		"/proc/*/{environ,mem}": {"/proc", "/proc/*"},
	} {
		if got := folderTexts(text); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestDecide_LinksInPlaceOfFolders(t *testing.T) {
	all := parts(t, `version: 1
rules:
  - {id: edits, effect: allow, on: [process.write], path: ["${root}/**"]}
  - {id: later, effect: ask, on: [process.write], path: ["**/.vscode/tasks.json", "**/{a/wrapper,.mvn}/**", "!**/node_modules/**"]}
  - {id: jobs, effect: deny, on: [process.write], path: ["${root}/ci/jobs/**"]}
`)
	for _, tt := range []struct {
		path string
		link bool
		want permissionv1.Verdict
	}{
		{"/workspace/.vscode", false, allow},
		{"/workspace/.vscode", true, ask},
		{"/workspace/sub/.VSCode", true, ask},
		{"/workspace/a", true, ask},
		{"/workspace/a/wrapper", true, ask},
		{"/workspace/b", true, allow},
		{"/workspace/tasks.json", true, allow},
		{"/workspace/node_modules/x/.vscode", true, allow},
		{"/workspace/ci", true, deny},
		{"/workspace/ci", false, allow},
		{"/workspace/sub/ci", true, allow},
	} {
		got := Decide(all, &permissionv1.Action{
			Kind: "fs.write", Door: permissionv1.Door_DOOR_KERNEL, Roots: []string{"/workspace"},
			Paths: []*permissionv1.PathAccess{{Path: tt.path, ResolvedPath: tt.path, Access: permissionv1.Access_ACCESS_WRITE, InsideRoots: true, Recursive: tt.link}},
		})
		if got.GetVerdict() != tt.want {
			t.Errorf("%s, a link %t: got %v (%s), want %v", tt.path, tt.link, got.GetVerdict(), got.GetReason(), tt.want)
		}
	}
}
