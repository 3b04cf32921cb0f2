package facts

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// FuzzOf_KeepsAddedFile adds a file to a command with known facts. The file has to be one of the files of the new
// facts, or the facts are not known.
func FuzzOf_KeepsAddedFile(f *testing.F) {
	byName, err := table()
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range byName {
		for _, test := range e.Tests {
			line, _, _ := strings.Cut(test, " => ")
			f.Add(line)
		}
	}
	const secret = "/etc/secret"
	f.Fuzz(func(t *testing.T, line string) {
		sub := simple(line)
		disk := &Disk{Roots: []string{"/w"}}
		first := Of(sub, "/w/d", disk)
		if first.GetKnown() != (first.GetUnknown() == "") {
			t.Fatalf("%q: known is %t, and the reason is %q", line, first.GetKnown(), first.GetUnknown())
		}
		if !first.GetKnown() || len(sub.Argv) == 0 {
			return
		}
		for _, file := range first.GetFiles() {
			if !path.IsAbs(file.GetPath()) || file.GetResolvedPath() == "" || file.GetAccess() == permissionv1.Access_ACCESS_UNSPECIFIED {
				t.Fatalf("%q: got %v", line, file)
			}
		}
		e, _ := entryOf(path.Base(sub.Argv[0]), sub.Argv)
		last := ""
		if len(e.operands) > 0 {
			last = e.operands[len(e.operands)-1]
		}
		if !slices.Contains([]string{"read...", "meta...", "write...", "data..."}, last) && e.By != "git" {
			return
		}
		if len(e.operands) > 1 { // a pattern may be missing
			sub.Argv = append(sub.Argv, ".")
		}
		sub.Argv = append(sub.Argv, secret)
		then := Of(sub, "/w/d", disk)
		used := slices.ContainsFunc(then.GetFiles(), func(u *permissionv1.FileUse) bool { return u.GetPath() == secret && !u.GetInsideRoots() })
		if then.GetKnown() && !used && len(first.GetFiles()) < maxFiles {
			t.Errorf("%q forgets %s: %v", sub.Argv, secret, then)
		}
	})
}

// TestPrograms_OmitDangerousOptions expects that the table lists no option that shell.Risky calls dangerous.
func TestPrograms_OmitDangerousOptions(t *testing.T) {
	byName, err := table()
	if err != nil {
		t.Fatal(err)
	}
	but := map[string]bool{
		"diff -r": true, "diff --recursive": true, // known only if no operand is a folder
		"find -exec": true, "find -execdir": true, "gfind -exec": true, "gfind -execdir": true, // runs another simple command
	}
	for name, e := range byName {
		if e.Alone || e.By != "" {
			continue
		}
		program := strings.Fields(name)
		for option := range e.options {
			argv := append(slices.Clone(program), option)
			if why := shell.Risky(argv); why != "" && why != shell.Risky(program) && !but[strings.Join(argv, " ")] {
				t.Errorf("the table lists %s: %s", strings.Join(argv, " "), why)
			}
		}
	}
}
