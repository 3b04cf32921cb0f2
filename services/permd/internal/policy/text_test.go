package policy

import (
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

func TestOnlyText_DynamicWords(t *testing.T) {
	files := &permissionv1.Facts{Known: true, Files: []*permissionv1.FileUse{{Path: "/w/a"}}}
	for name, tt := range map[string]struct {
		sub  *permissionv1.SubCommand
		want bool
	}{
		"a pipe beside a file":         {&permissionv1.SubCommand{Argv: []string{"diff", "<(ls)", "a"}, Dynamic: true, DynamicWords: []uint32{1}, PipedWords: []uint32{1}, Facts: files}, true},
		"a word beside a file":         {&permissionv1.SubCommand{Argv: []string{"diff", "$x", "a"}, Dynamic: true, DynamicWords: []uint32{1}, Facts: files}, false},
		"a pipe and a word":            {&permissionv1.SubCommand{Argv: []string{"diff", "<(ls)", "$x"}, Dynamic: true, DynamicWords: []uint32{1, 2}, PipedWords: []uint32{1}, Facts: files}, false},
		"any word":                     {&permissionv1.SubCommand{Argv: []string{"diff", "<(ls)", "a"}, Dynamic: true, PipedWords: []uint32{1}, Facts: files}, false},
		"text as the program":          {&permissionv1.SubCommand{Argv: []string{"$(ls)"}, Dynamic: true, DynamicWords: []uint32{0}, TextWords: []uint32{0}}, false},
		"text after a wrapper":         {&permissionv1.SubCommand{Argv: []string{"echo", "{}"}, Wrappers: []string{"xargs"}, Dynamic: true, DynamicWords: []uint32{1}, TextWords: []uint32{1}}, true},
		"any number of words of xargs": {&permissionv1.SubCommand{Argv: []string{"echo", "$@"}, Wrappers: []string{"xargs"}, Dynamic: true, DynamicWords: []uint32{1}}, false},
	} {
		if got := onlyText(tt.sub); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}
