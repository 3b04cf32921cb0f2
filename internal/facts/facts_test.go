package facts

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

var words = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|<[^>]*>|\S+`)

// simple is a command in the notation of the table's tests.
func simple(line string) *permissionv1.SubCommand {
	sub := &permissionv1.SubCommand{}
	for _, word := range words.FindAllString(line, -1) {
		switch {
		case len(word) > 1 && word[0] == '"' && strings.HasSuffix(word, `"`):
			word = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(word[1 : len(word)-1])
		case len(word) > 1 && word[0] == '<' && strings.HasSuffix(word, ">"):
			word = word[1 : len(word)-1]
			at := uint32(len(sub.Argv))
			sub.Dynamic, sub.DynamicWords = true, append(sub.DynamicWords, at)
			if text, ok := strings.CutPrefix(word, "text:"); ok {
				word, sub.TextWords = text, append(sub.TextWords, at)
			} else if word == "pipe" {
				sub.PipedWords = append(sub.PipedWords, at)
			}
		case len(sub.Argv) == 0 && assigns.MatchString(word):
			sub.Assignments = append(sub.Assignments, word)
			continue
		}
		sub.Argv = append(sub.Argv, word)
	}
	return sub
}

// short writes facts as the table's tests do.
func short(f *permissionv1.Facts) string {
	if !f.GetKnown() {
		return "unknown"
	}
	var parts []string
	for _, file := range f.GetFiles() {
		does := "read "
		switch {
		case file.GetAccess() == permissionv1.Access_ACCESS_WRITE:
			does = "write "
		case file.GetMetadataOnly():
			does = "list "
		case file.GetTracked():
			does = "show "
		}
		name := strings.TrimPrefix(file.GetPath(), "/w/d/")
		if name == "/w/d" {
			name = "."
		}
		if file.GetRecursive() {
			name += "/**"
		}
		parts = append(parts, does+name)
	}
	if len(parts) == 0 {
		parts = append(parts, "nothing")
	}
	for is, text := range map[bool]string{f.GetRunsCode(): "runs code"} {
		if is {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}

func TestPrograms_TestsOfTablePass(t *testing.T) {
	byName, err := table()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for name, e := range byName {
		if len(e.Tests) == 0 {
			t.Errorf("%s has no tests", name)
		}
		for _, test := range e.Tests {
			if seen[test] {
				continue
			}
			seen[test] = true
			line, want, ok := strings.Cut(test, " => ")
			if !ok {
				t.Errorf("%s: expected COMMAND => FACTS, got %q", name, test)
				continue
			}
			f := Of(simple(line), "/w/d", &Disk{Roots: []string{"/w"}})
			if got := short(f); got != want {
				t.Errorf("%s: got %s, want %s (%s)", line, got, want, f.GetUnknown())
			}
			if f.GetKnown() != (f.GetUnknown() == "") {
				t.Errorf("%s: known %t, and the reason is %q", line, f.GetKnown(), f.GetUnknown())
			}
			for _, file := range f.GetFiles() {
				inside := strings.HasPrefix(path.Clean(file.GetPath()), "/w/")
				if f.GetKnown() && (file.GetInsideRoots() != inside || file.GetResolvedPath() != path.Clean(file.GetPath())) {
					t.Errorf("%s: got %v", line, file)
				}
			}
		}
	}
}

// disk has links, by their paths, and folders.
type disk struct {
	links   map[string]string
	folders []string
}

func (d disk) look(file string) Place {
	file = path.Clean(file)
	for link, to := range d.links {
		if rest, ok := strings.CutPrefix(file, link); ok && (rest == "" || rest[0] == '/') {
			file = to + rest
		}
	}
	if file == "" {
		return Place{}
	}
	return Place{Resolved: file, Inside: strings.HasPrefix(file, "/w"), NoFolder: !slices.Contains(d.folders, file)}
}

func TestOf_LinksAndFolders(t *testing.T) {
	d := disk{links: map[string]string{"/w/d/pw": "/etc/passwd", "/w/d/-n": "/etc/passwd", "/w/d/-": "/etc/passwd", "/w/d/lost": "",
		"/w/d/zero": "/dev/zero", "/w/d/self": "/proc/self"}, folders: []string{"/w/d/a", "/w/d/b"}}
	for line, want := range map[string]string{
		"cat f":                             "/w/d/f",
		"cat pw":                            "!/etc/passwd",
		"head ../d/pw":                      "!/etc/passwd",
		"grep -rf pw x .":                   "!/etc/passwd /w/d/x /w/d",
		"cat f -n":                          "/w/d/f !/etc/passwd", // without the GNU habit, a file
		"cat -n f":                          "/w/d/f",
		"rev -":                             "!/etc/passwd",
		"cat lost":                          "unknown",
		"cat zero":                          "unknown",
		"cat self/environ":                  "unknown",
		"diff f g":                          "/w/d/f /w/d/g",
		"diff a b":                          "unknown",
		"diff f b":                          "unknown",
		"diff -r --no-dereference a b":      "/w/d/a /w/d/b",
		"git blame --ignore-revs-file=pw f": "/w/d !/etc/passwd /w/d/f",
	} {
		f := Of(simple(line), "/w/d", &Disk{Look: d.look})
		var got []string
		for _, file := range f.GetFiles() {
			name := file.GetResolvedPath()
			if !file.GetInsideRoots() {
				name = "!" + name
			}
			got = append(got, name)
			if file.GetRecursive() && (strings.HasPrefix(line, "grep") || strings.HasPrefix(line, "diff")) && !file.GetCanLeaveOut() {
				t.Errorf("%s has no option to omit files", line)
			}
		}
		if !f.GetKnown() {
			got = []string{"unknown"}
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: got %s, want %s (%s)", line, got, want, f.GetUnknown())
		}
	}
}

func TestOf_UnknownWorkingDirectory(t *testing.T) {
	for line, known := range map[string]bool{"echo x": true, "pwd": true, "cat /etc/x": true, "cat x": false, "ls": false, "rg x": false, "git status": false} {
		if f := Of(simple(line), "", &Disk{Roots: []string{"/w"}}); f.GetKnown() != known {
			t.Errorf("%s: got %v", line, f)
		}
	}
}

func TestOf_WithoutDisk(t *testing.T) {
	f := Of(simple("cat x"), "/w", nil)
	if want := []*permissionv1.FileUse{{Path: "/w/x", Access: permissionv1.Access_ACCESS_READ}}; !f.GetKnown() ||
		fmt.Sprint(f.GetFiles()) != fmt.Sprint(want) {
		t.Errorf("got %v", f)
	}
}

func TestOptionsEnd_FindsFirstOperand(t *testing.T) {
	for line, want := range map[string]int{ // 0: not certain
		"grep -r x .": 4, "grep -r -- x .": 2, "grep -rv -e -- .": 5, "grep -e -- -- .": 3, "grep --label -- -r x": 5, "grep --label=a -- x": 2,
		"grep -A 3 -- x": 3, "diff -L -- a -- b": 4, "find . --": 0, "grep --unlisted -- x": 0, "unlisted --": 0, "": 0,
	} {
		if got, ok := OptionsEnd(simple(line).GetArgv()); ok != (want > 0) || ok && got != want {
			t.Errorf("%s: got %d, %t, want %d", line, got, ok, want)
		}
	}
}

func TestOf_LimitsFiles(t *testing.T) {
	sub := simple("cat")
	for i := range maxFiles + 1 {
		sub.Argv = append(sub.Argv, fmt.Sprint("f", i))
	}
	if f := Of(sub, "/w", nil); f.GetKnown() || len(f.GetFiles()) != maxFiles {
		t.Errorf("known %t, %d files", f.GetKnown(), len(f.GetFiles()))
	}
}
