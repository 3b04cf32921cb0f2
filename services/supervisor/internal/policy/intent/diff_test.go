package intent

import (
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/textform"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

func TestDiff_Version2(t *testing.T) {
	const edit, symlink = `{"operation":"modify","path":"/ws/a","fileType":"text"}`, `{"operation":"add","path":"/ws/a","fileType":"symlink"}`
	patch := func(text string) string {
		return `,"patch":{"format":"git_patch","text":"` + strings.ReplaceAll(text, "\n", `\n`) + `"}`
	}
	for _, tt := range []struct {
		name, kind, diff string // diff: all but its type
		want             seen
	}{
		{"an edit", "edit", `"changes":[` + edit + `]`, seen{kind: "tool.edit", paths: []string{"w /ws/a"}}},
		{"a new file", "edit", `"changes":[{"operation":"add","path":"/ws/new"}],"patch":null`, seen{kind: "tool.edit", paths: []string{"w /ws/new"}}},
		{"of several files", "edit", `"changes":[` + edit + `,{"operation":"add","path":"/etc/b"}]`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a", "w /etc/b outside"}}},
		{"with its patch", "edit", `"changes":[` + edit + `]` + patch("diff --git a/ws/a b/ws/a\n--- a/ws/a\n+++ b/ws/a\n@@ -1 +1 @@\n-x\n+y\n"),
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}}},
		{"with a patch that names the file from its root", "edit", `"changes":[` + edit + `]` + patch("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n"),
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}}},
		{"with a patch that names the file in full", "edit", `"changes":[` + edit + `]` + patch("diff --git /ws/a /ws/a\n--- /ws/a\n+++ /ws/a\n@@ -1 +1 @@\n-x\n+y\n"),
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}}},
		{"a copy", "edit", `"changes":[{"operation":"copy","oldPath":"/etc/passwd","path":"/ws/b"}]`,
			seen{kind: "tool.edit", paths: []string{"r /etc/passwd outside", "w /ws/b"}}},
		{"a deletion that is called one", "delete", `"changes":[{"operation":"delete","path":"/ws/a"}]`, seen{kind: "tool.delete", paths: []string{"w /ws/a"}}},
		{"a move that is called one", "move", `"changes":[{"operation":"move","oldPath":"/ws/a","path":"/ws/b"}]`,
			seen{kind: "tool.move", paths: []string{"w /ws/a", "w /ws/b"}}},
		// What is not clear.
		{"a deletion that is called an edit", "edit", `"changes":[{"operation":"delete","path":"/ws/a"}]`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}, unparsed: "deletes a file"}},
		{"a move that is called an edit", "edit", `"changes":[{"operation":"move","oldPath":"/ws/a","path":"/ws/b"}]`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a", "w /ws/b"}, unparsed: "moves a file"}},
		{"a deletion and an edit", "delete", `"changes":[{"operation":"delete","path":"/ws/b"},` + edit + `]`,
			seen{kind: "tool.edit", paths: []string{"w /ws/b", "w /ws/a"}, unparsed: "deletes a file"}},
		{"a symbolic link", "edit", `"changes":[` + symlink + `]`, seen{kind: "tool.edit", paths: []string{"w /ws/a"}, unparsed: "symbolic link"}},
		{"a folder", "delete", `"changes":[{"operation":"delete","path":"/ws","fileType":"directory"}]`,
			seen{kind: "tool.delete", paths: []string{"w /ws"}, unparsed: "is of no file"}},
		{"an operation that nobody knows", "edit", `"changes":[{"operation":"_swap","path":"/ws/a"}]`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}, unparsed: "is not known"}},
		{"a move from nowhere", "move", `"changes":[{"operation":"move","path":"/ws/b"}]`, seen{kind: "tool.move", paths: []string{"w /ws/b"}, unparsed: "of which file"}},
		{"no change", "edit", `"changes":[]`, seen{kind: "tool.edit", unparsed: "of which file"}},
		{"no list", "edit", `"changes":{"/ws/a":1}`, seen{kind: "tool.edit", unparsed: "one way only"}},
		{"duplicate members", "edit", `"changes":[{"operation":"modify","path":"/ws/a","path":"/etc/a"}]`,
			seen{kind: "tool.edit", paths: []string{"w /etc/a outside"}, unparsed: "one way only"}},
		{"a path beside the changes", "edit", `"path":"/etc/a","newText":"x","changes":[` + edit + `]`,
			seen{kind: "tool.edit", paths: []string{"w /etc/a outside", "w /ws/a"}}},
		{"a patch of another file", "edit", `"changes":[` + edit + `]` + patch("--- a/b\n+++ b/b\n@@ -1 +1 @@\n-x\n+y\n"),
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}, unparsed: "another file than it names"}},
		{"a patch that deletes the file", "edit", `"changes":[` + edit + `]` + patch("--- a/ws/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"),
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}, unparsed: "deletes a file"}},
		{"of version 1, with a patch of another file in its _meta", "edit", `"path":"/ws/a","oldText":null,"newText":"","_meta":{"x":{"text":"--- a/b\n+++ b/b\n@@ -1 +1 @@\n"}}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}, unparsed: "another file than it names"}},
		{"of version 1, with its patch in its _meta", "edit", `"path":"/ws/a","oldText":null,"newText":"","_meta":{"x":{"text":"--- a/ws/a\n+++ b/ws/a\n@@ -1 +1 @@\n"}}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tc := acp.ToolCall{ID: "c", Kind: tt.kind, Content: []byte(`[{"type":"diff",` + tt.diff + `}]`)}
			tt.want.check(t, Question(inSession(""), tc))
		})
	}
}

func TestDiff_PatchBesideTextsIsUncertain(t *testing.T) {
	for meta, want := range map[string]bool{
		`{"kind":"update"}`: true,
		`null`:              true,
		`{"jetbrains":{"air":{"diffPatch":{"text":"--- a/ws/a\n+++ b/ws/a\n@@ -0,0 +1 @@\n+harmless\n"}}}}`: false,
		`{"patch":"` + strings.Repeat("x", 70) + `"}`:                                                       false,
		`[1]`: false,
	} {
		tc := showing(`{"type":"diff","path":"/ws/a","oldText":null,"newText":"new","_meta":` + meta + `}`)
		s := inSession("")
		got := s.Shown(Question(s, tc), tc, func(*permissionv1.PathAccess) (string, textform.Form, bool) { return "", textform.Form{}, true })
		if len(got) == 1 != want {
			t.Errorf("%s: it shows %d files", meta, len(got))
		}
	}
}

func TestContradicts_AcceptsAddedContent(t *testing.T) {
	s := inSession("")
	v2 := `{"type":"diff","changes":[{"operation":"modify","path":"/ws/a"}]}`
	other := strings.ReplaceAll(v2, "modify", "delete")
	if s.Contradicts(showing(v2), showing(v2, `{"type":"content","content":{"type":"text","text":"x"}}`)) {
		t.Error("a text contradicts")
	}
	if !s.Contradicts(showing(v2), showing(other)) {
		t.Error("another diff contradicts nothing")
	}
}

func TestPatch_FindsFilesInAllFormats(t *testing.T) {
	for patch, want := range map[string][]string{
		"*** /etc/a\t2020\n--- /etc/a\t2021\n***************\n*** 1 ****\n! x\n--- 1 ----\n! y\n": {"/etc/a", "/etc/a"},
		"Index: /etc/a\n===\n@@ -1 +1 @@\n-x\n+y\n":                                               {"/etc/a"},
		"+++ /etc/a\n@@ -1 +1 @@\n-x\n+y\n":                                                       {"/etc/a"},
		"--- /etc/a\n@@ -1 +1 @@\n-x\n+y\n":                                                       {"/etc/a"},
		"--- a/x\r\n+++ b/x\r\n@@ -1 +1 @@\r\n-x\r\n+y":                                           {"x", "x"},
		"*** Begin Patch\r\n*** Update File: x\r\n*** Move to: /etc/a\r\n*** End Patch":           {"x", "/etc/a"},
	} {
		if got := readPatch(patch).paths; !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", patch, got, want)
		}
	}
}
