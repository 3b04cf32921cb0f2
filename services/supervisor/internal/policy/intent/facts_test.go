package intent

import (
	"fmt"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/secretfile"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

func TestFacts_OfCommands(t *testing.T) {
	l := newLinked(t)
	s := l.inSession()
	s.Place = func(path string) Place {
		at := l.place(path)
		at.GitInternal = strings.Contains(path, "/.git/")
		if at.Resolved == "" {
			at.Resolved, at.Inside = path, true
		}
		return at
	}
	if err := os.Symlink("/proc/self/cwd", l.real+"/here"); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"cat here/main.go":           "unknown",
		"cat sub/../here/../x":       "unknown",
		"cat innocent":               "read .env true",
		"cat main.go":                "read main.go true",
		"cat way-out/f":              "read outside/deep/f false",
		"cd sub && cat x":            "read sub true metadata; read sub/x true",
		"cd way-out && ls":           "read outside/deep false metadata; read outside/deep false metadata",
		"cd sub; cat x":              "read sub true metadata; unknown",
		"grep -rn TODO .":            "read real true recursive",
		"cat x; rg --pre y z":        "read x true; unknown",
		"cat way-in/../../outside/f": "read outside/f false",
		"echo $HOME; frobnicate":     "; unknown",
		"tee -a .git/config":         "unknown",
		"tee -a notes":               "write notes true",
	} {
		a := l.call(s, map[string]any{"command": line})
		var got []string
		for _, sub := range a.GetCommand().GetSubCommands() {
			got = append(got, l.does(sub.GetFacts()))
		}
		if got := strings.Join(got, "; "); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
	s.StaysPut = false
	if a := Question(s, acp.ToolCall{ID: "1", Kind: "execute", RawInput: []byte(`{"command":"cat main.go"}`)}); l.does(a.GetCommand().GetSubCommands()[0].GetFacts()) == "" {
		t.Errorf("a question has no facts: %v", a)
	}
}

func TestFacts_UnknownForFoldersOfRepository(t *testing.T) {
	l := newLinked(t)
	s := l.inSession()
	s.Place = func(path string) Place { return Place{Resolved: path, Inside: true} }
	if err := os.WriteFile(l.real+"/HEAD", []byte("ref: refs/heads/x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, known := range map[string]bool{
		"mkdir objects refs":                 false,
		"mkdir objects && mkdir -p refs/x":   false,
		"mkdir objects; touch sub/y ./refs":  false,
		"mkdir objects":                      true,
		"mkdir sub/objects sub/refs":         true,
		"mkdir -p src/objects src/x src/y/z": true,
	} {
		a := l.call(s, map[string]any{"command": line})
		for _, sub := range a.GetCommand().GetSubCommands() {
			if f := sub.GetFacts(); f.GetKnown() != known || !known && !strings.Contains(f.GetUnknown(), "git's own") {
				t.Errorf("%s: known %t (%s), want %t", line, f.GetKnown(), f.GetUnknown(), known)
			}
		}
	}
}

// A command that comes before another in its line may put links in the place of the files that the other names.
func TestFacts_UnknownAfterCommandThatMakesLinks(t *testing.T) {
	l := newLinked(t)
	s := l.inSession()
	s.Place = func(path string) Place {
		at := l.place(path)
		if at.Resolved == "" {
			at.Resolved, at.Inside = path, true
		}
		return at
	}
	for line, want := range map[string]string{
		"git checkout x && cat main.go":                    "cat ?",
		"git checkout x; cd sub && ls":                     "cd ?; ls ?",
		"git switch x; ls -la; pwd":                        "ls; pwd",
		"git switch x && ls . ${root}":                     "ls",
		"git stash pop && npm test -- sub/x":               "npm",
		"git stash && cd sub && make -C y":                 "cd ?; make",
		"git stash; make > out":                            "make >?",
		"git stash; make > /dev/null":                      "make",
		"git restore x && touch sub/y":                     "touch ?",
		"git checkout x && git commit -F sub/y":            "git ?",
		"git checkout x && git commit -m y; git diff sub":  "git; git",
		"cat main.go && git checkout x":                    "cat",
		"cd ${root} && git stash && go test ./...":         "cd; go",
		"cat main.go | git apply":                          "cat ?",
		"(sleep 1; cat main.go) & git checkout x":          "sleep; cat ?",
		"for i in 1 2; do cat main.go; git stash; done":    "cat ?",
		"cat main.go; echo $(git stash)":                   "cat ?; echo ?",
		"find . -exec cat main.go ';' -exec git stash ';'": "find; cat ?",
		"sh -c 'cat main.go; git stash'":                   "cat ?",
		"ln -s / x; cat main.go":                           "cat ?",
		"tar -xf x.tar; head -n 3 main.go; echo done":      "head ?; echo",
		"git checkout -b new && cat main.go":               "git; cat",
		"git stash list && cat main.go":                    "git; cat",
		"git add main.go && cat main.go":                   "git; cat",
	} {
		a := l.call(s, map[string]any{"command": strings.ReplaceAll(line, "${root}", l.real)})
		var got []string
		for _, sub := range a.GetCommand().GetSubCommands() {
			argv := sub.GetArgv()
			if len(argv) == 0 || shell.Relinks(argv) {
				continue
			}
			text := argv[0]
			if len(sub.GetDynamicWords()) == len(argv)-1 && len(argv) > 1 && !sub.GetFacts().GetKnown() || sub.GetCwdUnknown() {
				text += " ?"
			}
			for _, r := range sub.GetRedirections() {
				if r.GetDynamic() {
					text += " >?"
				}
			}
			got = append(got, text)
		}
		if got := strings.Join(got, "; "); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

func (l *linked) does(f *permissionv1.Facts) string {
	if !f.GetKnown() {
		return "unknown"
	}
	var got []string
	for _, file := range f.GetFiles() {
		text := fmt.Sprintf("%s %s %t", strings.ToLower(strings.TrimPrefix(file.GetAccess().String(), "ACCESS_")),
			strings.TrimPrefix(strings.TrimPrefix(file.GetResolvedPath(), l.real+"/"), l.base+"/"), file.GetInsideRoots())
		if file.GetRecursive() {
			text += " recursive"
		}
		if file.GetMetadataOnly() {
			text += " metadata"
		}
		got = append(got, text)
	}
	return strings.Join(got, ", ")
}

func TestFacts_MarkPublicKeyFiles(t *testing.T) {
	l := newLinked(t)
	s := l.inSession()
	s.Place = func(path string) Place {
		return Place{Resolved: path, Inside: true, NoFolder: true, Content: func(bool) secretfile.Verdict {
			if strings.HasSuffix(path, "/ca.pem") {
				return secretfile.Public
			}
			return secretfile.Secret
		}}
	}
	a := l.call(s, map[string]any{"command": "cat ca.pem server.pem < ca.pem"})
	got := map[string]bool{}
	for _, f := range a.GetCommand().GetSubCommands()[0].GetFacts().GetFiles() {
		got[path.Base(f.GetPath())] = f.GetPublic()
	}
	if !got["ca.pem"] || got["server.pem"] || len(got) != 2 || len(a.GetPaths()) != 1 || !a.GetPaths()[0].GetPublic() {
		t.Errorf("got %v and %v, want that ca.pem holds public keys, and server.pem may not", got, a.GetPaths())
	}
}
