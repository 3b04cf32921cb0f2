package adversary

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/acphost/acphost/test/wire"
)

// allows has a person allow a question that shows text, and reject all others. It returns the rejected questions.
func (s *fixture) allows(text string) (rejected func() []string) {
	var mu sync.Mutex
	var others []string
	s.Handle("session/request_permission", func(m wire.Message) (any, error) {
		option := "allow_once"
		if !strings.Contains(string(m.Raw), text) {
			option = "reject_once"
			mu.Lock()
			defer mu.Unlock()
			others = append(others, string(m.Raw))
		}
		return map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": option}}, nil
	})
	s.Handle("session/update", func(wire.Message) (any, error) { return nil, nil })
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return others
	}
}

// isContent reports whether a file has a text in it.
func isContent(file, text string) bool {
	data, err := os.ReadFile(file)
	return err == nil && strings.Contains(string(data), text)
}

// TestAllowedLine_CoversNoOtherProtectedFiles: a person allows a build, and has read nothing of a hook in it.
func TestAllowedLine_CoversNoOtherProtectedFiles(t *testing.T) {
	needsSandbox(t)
	for name, flags := range map[string]func(*wire.Place) []string{
		"one wall":  configured("permission: {policy: ask}\nsandbox: {mode: enforce, require: true}\n"),
		"workspace": behindOneWall,
		"old rules": inSandbox("enforce", `
version: 1
rules:
  - {id: later, effect: ask, on: [fs.write], path: ["**/.vscode/**"]}
`),
	} {
		for _, by := range []string{"terminal", "agent"} {
			t.Run(name+"/"+by, func(t *testing.T) {
				t.Parallel()
				p := wire.NewPlace(t)
				git(t, p, p.Work, "init", "-q")
				s := openFixtureAt(t, p, flags)
				s.prompt()
				const line = "sh ./build all"
				s.allows("build all")
				s.File(t, "build", `try() { mkdir -p "${1%/*}"; echo evil >"$1"; echo evil >x; mv x "$1"; ln -s /evil "$1"; }
try .git/hooks/pre-commit; try ~/.bashrc; try ~/new/file; try .vscode/tasks.json; mv .git/hooks h; echo evil >h/pre-commit; mv h .git/hooks
git config core.pager evil; git config --global core.pager evil; (try ~/.profile); setsid sh -c 'echo evil >~/.zshrc'
mkdir -p out && for i in 1 2 3; do echo good >out/$i; done; git add out; git -c user.name=a -c user.email=a@b commit -qm x; echo done >end`)
				if by == "terminal" {
					if _, allowed := s.runs(line, s.Work); !allowed {
						t.Fatal("the command is not run")
					}
				} else {
					call := s.agent.Send("session/request_permission", requestFor(line))
					call.Result(nil)
					s.hand.try("run", "/bin/sh", "-c", line)
				}
				for _, file := range []string{
					p.Path(".git/hooks/pre-commit"), p.Path(".git/config"), p.Path(".vscode/tasks.json"),
					filepath.Join(p.Home, ".bashrc"), filepath.Join(p.Home, "new/file"), filepath.Join(p.Home, ".gitconfig"),
					filepath.Join(p.Home, ".profile"), filepath.Join(p.Home, ".zshrc"),
				} {
					if target, _ := os.Readlink(file); target != "" || isContent(file, "evil") {
						t.Errorf("ATTACK SUCCEEDED: %s was written", file)
					}
				}
				for _, file := range []string{"out/3", "end", ".git/refs/heads/master"} {
					if _, err := os.Stat(p.Path(file)); err != nil {
						t.Errorf("an ordinary file is refused: %v", err)
					}
				}
				s.finish()
			})
		}
	}
}

// requestFor is the params of an agent's permission request for a command line.
func requestFor(line string) map[string]any {
	text := map[string]any{"type": "content", "content": map[string]any{"type": "text", "text": line}}
	return params("toolCall", map[string]any{
		"toolCallId": line, "title": line, "kind": "execute", "rawInput": map[string]any{"command": line}, "content": []any{text},
	}, "options", []any{
		map[string]any{"optionId": "allow_once", "name": "Yes", "kind": "allow_once"},
		map[string]any{"optionId": "reject_once", "name": "No", "kind": "reject_once"},
	})
}

// TestAllowedLine_CoversFilesThatItNames: the question about the line showed these files, so there is no second one.
func TestAllowedLine_CoversFilesThatItNames(t *testing.T) {
	needsSandbox(t)
	for line, file := range map[string]string{
		"cp good .git/hooks/pre-commit":                  ".git/hooks/pre-commit",
		"cp good hook .git/hooks/":                       ".git/hooks/good",
		"mkdir -p .vscode && cat good >.vscode/x.json":   ".vscode/x.json",
		"cat good > ~/.bashrc":                           "~/.bashrc",
		"cp good ~/.bashrc && sed -i s/x/y/ ~/.bashrc":   "~/.bashrc",
		"mkdir -p ~/new/deep && cp good ~/new/deep/a":    "~/new/deep/a",
		"mkdir ~/new; cp -r many ~/new":                  "~/new/many/good",
		"tar cf - good | tar xf - -C \"$HOME/unpacked\"": "~/unpacked/good",
		"git config core.pager good":                     ".git/config",
		"git config --global core.pager good":            "~/.gitconfig",
		"for f in good; do cp $f .git/hooks; done":       ".git/hooks/good",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			p := wire.NewPlace(t)
			git(t, p, p.Work, "init", "-q")
			for _, name := range []string{"good", "hook", "many/good"} {
				p.File(t, name, "good\n")
			}
			if err := os.Mkdir(filepath.Join(p.Home, "unpacked"), 0o700); err != nil {
				t.Fatal(err)
			}
			s := openFixtureAt(t, p, behindOneWall)
			s.prompt()
			rejected := s.allows(strings.ReplaceAll(line, `"`, `\"`))
			out, allowed := s.runs(line, s.Work)
			if rest, ok := strings.CutPrefix(file, "~/"); ok {
				file = filepath.Join(p.Home, rest)
			} else {
				file = p.Path(file)
			}
			if !allowed || !isContent(file, "good") || len(rejected()) > 0 {
				t.Errorf("allowed %t, written %t, and asked %q\n%s", allowed, isContent(file, "good"), rejected(), out)
			}
			s.finish()
		})
	}
}
