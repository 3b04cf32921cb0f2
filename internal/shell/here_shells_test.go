package shell_test

import (
	"bytes"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// stub writes its working directory, name and arguments to its own file: each word ends in \001, the command in \002.
const stub = "#!%s\n{ pwd -P; printf '%%s\\001' \"${0##*/}\" \"$@\"; printf '\\002'; } >>\"$LOG.$$\"\n"

// shells are programs that read lines, and stubs of the programs that these name.
type shells struct {
	names []string // programs that read lines
	path  string   // the folder with the stubs
}

func newShells(t testing.TB) shells {
	var s shells
	for _, name := range []string{"bash", "dash", "zsh"} {
		if program, err := exec.LookPath(name); err == nil && name != "zsh" {
			s.names = append(s.names, program)
		}
	}
	if len(s.names) == 0 {
		t.Skip("neither bash nor dash is installed")
	}
	s.path = t.TempDir()
	for _, name := range []string{"cat", "ls", "wc", "grep", "sed", "uniq", "gofmt"} {
		s.stub(t, name, fmt.Sprintf(stub, s.names[len(s.names)-1]))
	}
	s.stub(t, "mk", fmt.Sprintf(stub, s.names[len(s.names)-1])+": >\"$1\"\n")
	for _, name := range []string{"ls", "grep"} { // what these write, others may read
		if program, err := exec.LookPath(name); err == nil {
			s.stub(t, name, fmt.Sprintf(stub, s.names[len(s.names)-1])+"exec "+program+" \"$@\"\n")
		}
	}
	for _, name := range []string{"sh", "bash", "env", "timeout", "find", "xargs", "head", "sort"} {
		if program, err := exec.LookPath(name); err == nil {
			if err := os.Symlink(program, filepath.Join(s.path, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

func (s shells) stub(t testing.TB, name, script string) {
	if err := os.WriteFile(filepath.Join(s.path, name), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
}

// ran is a command that ran, and where.
type ran struct {
	dir  string
	argv []string
}

func (s shells) run(t testing.TB, program, line, dir string) (all []ran) {
	log := filepath.Join(t.TempDir(), "log")
	c := exec.CommandContext(t.Context(), program, "-c", line)
	c.Dir = dir
	c.Env = []string{"PATH=" + s.path, "LC_ALL=C", "HOME=/", "LOG=" + log, "PWD=" + dir}
	_ = c.Run() // many lines fail
	files, _ := filepath.Glob(log + ".*")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for command := range strings.SplitSeq(string(data), "\x02") {
			if dir, words, ok := strings.Cut(command, "\n"); ok {
				all = append(all, ran{dir, strings.Split(strings.TrimSuffix(words, "\x01"), "\x01")})
			}
		}
	}
	return all
}

// lineMaker generates lines with constructs that may change the meaning of a word.
type lineMaker struct {
	*rand.Rand
	tame  bool // most of it is certain
	depth int
}

func (m *lineMaker) of(choices ...string) string { return choices[m.Intn(len(choices))] }

func (m *lineMaker) word() string {
	if m.tame && m.Intn(20) > 0 {
		return m.of("*.go", "s/*.go", "*/x.go", "n?", "n[1-3]", "[ab]", "\"$f\"", "$f", "${f}", "$d/*.go", "\"$d\"/*", "$f/*", "x.go", "a", "\"$PWD\"/s", "$PWD/*.go", "*zip", "'*'", "$i", "t/*", "*/")
	}
	word := m.of("*", "*", "*.go", "*.go", "s/*.go", "*/*", "*/*.go", "s*", "?", "[ab]", "[!a]*", "[a-c]*", "[0-9]", "n[1-3]", ".*", ".h*", ".??*", "*/", "*/x.go", "./*",
		"../*", "s//*", "*zip", "'*'", "\\*", "\"*\".go", "a\\ *", "s/*/../*", "*/.", "**", "s/**", "a[b", "[", "]*", "[]a]*", "[[:alpha:]]*", "*[", "$f", "$f", "\"$f\"", "${f}", "$d",
		"$d/*", "\"$d\"/*", "$f*", "$f$d", "~$f", "{$f,*}", "${f%.go}", "${f:-*}", "${f:=*}", "$PWD", "\"$PWD\"/*.go", "$i", "-$i", "x.go", "s", "t", "a", "'a b'", "-l", "1p", "$(wc *)", "\"$(cat $f)\"", "$u", "\"$u\"*", "$*", "é*", "*é", "\\[", "l/*", "*/*/*", "\"$PWD\"", "$LOG")
	if m.Intn(12) == 0 {
		word += m.word()
	}
	return word
}

func (m *lineMaker) words(n int) string {
	words := ""
	for range n {
		words += " " + m.word()
	}
	return words
}

func (m *lineMaker) simple() string {
	if m.Intn(5) == 0 {
		return m.feeds()
	}
	if m.tame && m.Intn(4) == 0 {
		return m.of("f=a", "f=x.go", "d=s", "d=t", "f=a; f=b", "f=a; true && f=b; cat $f", "mk new.go; cat *.go", "ls *.go; mk new.go", "cd s; cat *.go", "f=a && cat $f; f=b", "(f=b); cat $f", "false && f=b; cat $f")
	}
	words := m.words(1 + m.Intn(2))
	kind := m.Intn(22)
	if m.tame && m.Intn(12) > 0 {
		switch kind {
		case 0, 3, 4, 5, 6:
			kind = 22
		case 1:
			return "cd s"
		case 2:
			return m.of("f=a", "d=s", "f=x.go", "d=t", "i=1")
		}
	}
	switch kind {
	case 0:
		return "mk" + m.of(" new.go", " s/new.go", " $f", " .h2")
	case 1:
		return "cd" + m.of(" s", " s", " t", " nowhere", " *", " $f", " ..", " l", " s/../t", "", " -P l")
	case 2:
		return m.of("f", "d", "i", "u", "IFS", "PWD", "f=x d", "f+") + "=" + m.of("a", "s", "x.go", "'a b'", "'*'", "$f", "*", "", "1", "~", "$(cat x)", "a*", "-e")
	case 3:
		return "f=" + m.of("a", "s", "t") + " cat" + words
	case 4:
		return m.of("read f <<E\nx\nE\n", "unset f", "export f", "set -f", "set -eu", "set -- a b", "set +f", "eval 'f=a'", "eval 'cat *'", "true", "false", "exit", "set -o noglob", "shift", "export f=q",
			"test -f $f", "[ -d s ]", "command -v cat", "readonly f", "printf -v f q", "getopts ab f", "local f=x", "{ f=x; }", ": ${f:=z}", ": $((f=1))", "f() { cat $f; }", "f", "break", "alias cat=ls", "trap 'cat *' EXIT", "declare f=x")
	case 5:
		return m.of("sh -c", "bash -c", "bash -O nullglob -c", "sh -f -c", "env f=x sh -c", "f=q sh -c", "sh -ec", "eval") + " " + shell.Quote([]string{m.stmt()})
	case 6:
		return m.of("command ", "env ", "timeout 5 ", "exec ", "time ", "! ", "env -C s ") + "cat" + words
	}
	return m.of("cat", "ls", "wc -l", "grep -n x", "sed -n 1p", "uniq", "gofmt -l") + words + m.of("", "", "", "", " >new.txt", " 2>/dev/null", " <x.go", " </dev/null")
}

func (m *lineMaker) feeds() string {
	if m.Intn(4) == 0 {
		return "ls" + m.of("", " -1", " *.go", " s", " *", " s/*.go", " t e") + " | " + m.of("", "head -n 2 | ", "sort -r | ") + "xargs cat"
	}
	line := "find" + m.of("", " .", " s", " s t", " ./s/", " nowhere", " l", " \"$PWD\"")
	for range m.Intn(3) {
		line += m.of(" -name '*.go'", " -name '*.go'", " -type f", " -type d", " ! -name '*.go'", " -path './s/*'", " -not -path '*/u/*'", " -maxdepth 1", " -mindepth 1", " -name '?*'", " -name '.*'", " -name '[abx]*'", " -o -name a", " -prune", " -name $f", " -L",
			" -size +1k", " -empty", " -name x.go -a -type f", " ! -type d", " -name '\\*'")
	}
	return line + m.of(" | xargs cat", " | xargs -r wc -l", " 2>/dev/null | head -n 1 | xargs cat", " | sort | xargs grep -n x", " -print0 | xargs -0 cat", " | xargs -0 cat", " | grep go | xargs cat", " | grep -v u | xargs -n 1 cat",
		" | xargs -I{} cat {}", " | xargs -I% uniq % a%b", " -exec cat {} +", " -exec wc -l {} \\;", " -exec grep -l x {} + -maxdepth 1", " -exec uniq {} +", " | xargs mk", " -exec sh -c 'cat *' {} +", " | xargs", " | xargs cat | xargs wc", " | xargs sed -n 1p", " -print | head -3 | xargs ls",
		" | head -c 4 | xargs cat", " | xargs -d '\\n' cat", " | xargs -a x.go cat", " | xargs cat <a", " | timeout 5 xargs cat", " | while read f; do cat $f; done")
}

func (m *lineMaker) stmt() string {
	if m.depth++; m.depth > 4 {
		m.depth--
		return m.simple()
	}
	defer func() { m.depth-- }()
	kind := m.Intn(20)
	if m.tame && kind > 3 && kind < 10 && m.Intn(4) > 0 {
		kind = 1
	}
	switch kind {
	case 0:
		return m.simple() + m.of(" && ", " || ", " | ", "; ", "; ") + m.stmt()
	case 1, 2:
		return "for " + m.of("f", "f", "d", "i", "PATH", "IFS") + m.of(" in", " in", " in", "") + m.words(m.Intn(3)) + "; do " + m.line() + "; done"
	case 3:
		return "( " + m.line() + "; )"
	case 4:
		return "{ " + m.line() + "; }" + m.of("", "", " >new2.txt")
	case 5:
		return "if " + m.simple() + "; then " + m.line() + m.of("", "; else "+m.simple()) + "; fi"
	case 6:
		return "while " + m.of("false", "read f", "cat *; false") + "; do " + m.simple() + "; done </dev/null"
	case 7:
		return "case " + m.word() + " in " + m.of("*", "a", "$f", "x*") + ") " + m.line() + ";; esac"
	case 8:
		return "cat" + m.words(1) + " $(" + m.stmt() + ")"
	case 9:
		return m.simple() + " & wait"
	}
	return m.simple()
}

func (m *lineMaker) line() string {
	line := m.stmt()
	for range m.Intn(3) {
		line += m.of("; ", "; ", "\n", " && ") + m.stmt()
	}
	return line
}

// FuzzHere_AgreesWithShells has shells run lines in folders of all kinds. Parse must find each command that runs, with
// the same words and in the same folder, or report that it is known only at run time.
func FuzzHere_AgreesWithShells(f *testing.F) {
	for seed := range int64(300) {
		f.Add(seed)
	}
	s := newShells(f)
	f.Fuzz(func(t *testing.T, seed int64) {
		random := rand.New(rand.NewSource(seed))
		m := &lineMaker{Rand: random, tame: seed%4 != 0}
		var names []string
		for _, name := range []string{"a", "b", "a b", "x.go", "y.go", "B.go", "_.go", "1", "n1", "n2", "[", "a[b", "*", "-e", "new\nline", ".h", "..x", ".h.go", "é.go", "$f", "#c", "~", "\\", "s/x.go",
			"s/a", "s/.h.go", "s/u/x.go", "s/u/v.go", "t/x.go", "t/", "e/", "s/*", "t/-x"} {
			if random.Intn(3) > 0 && (random.Intn(5) > 0 || !strings.ContainsAny(name, "-\né")) {
				names = append(names, name)
			}
		}
		make := func() string {
			dir := workspace(t, names...).Dir
			if len(names)%2 == 0 {
				if err := os.Symlink("s", dir+"/l"); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink("nothing.go", dir+"/dead.go"); err != nil {
					t.Fatal(err)
				}
			}
			return dir
		}
		line := m.line()
		for _, program := range s.names {
			dir := make()
			subs, unparsed := shell.Here{Dir: dir}.Parse(line)
			if unparsed != "" || !slices.ContainsFunc(subs, func(sub *permissionv1.SubCommand) bool { return sub.GetWritten() != "" }) {
				continue
			}
			for _, r := range s.run(t, program, line, dir) {
				if !slices.ContainsFunc(subs, func(sub *permissionv1.SubCommand) bool { return r.is(sub, dir) }) {
					t.Errorf("%s, %q in %q:\nran %q in %s\nis read as\n%s", program, line, names, r.argv, strings.TrimPrefix(r.dir, dir), show(subs))
				}
			}
		}
	})
}

// is reports whether a simple command is the command that ran, or may be it.
func (r ran) is(sub *permissionv1.SubCommand, dir string) bool {
	switch {
	case len(sub.GetArgv()) == 0, !sub.GetCwdUnknown() && r.dir != real(filepath.Join(dir, sub.GetCwd())) && r.dir != real(sub.GetCwd()):
		return false
	case sub.GetDynamic() && (shell.DynamicWord(sub, 0) || sub.GetArgv()[0] == r.argv[0]):
		return true
	}
	if w := sub.GetWrappers(); sub.GetWritten() != "" && (slices.Contains(w, "xargs") || slices.Contains(w, "find -exec")) {
		// Some of the names may be missing, and they may come in another order.
		return sub.GetArgv()[0] == r.argv[0] && !slices.ContainsFunc(r.argv, func(word string) bool { return !slices.Contains(sub.GetArgv(), word) })
	}
	return slices.EqualFunc(sub.GetArgv(), r.argv, func(want, got string) bool {
		return want == got || bytes.ContainsAny([]byte(want), "$") && want == "$?"
	})
}

func real(dir string) string {
	real, _ := filepath.EvalSymlinks(dir)
	return real
}
