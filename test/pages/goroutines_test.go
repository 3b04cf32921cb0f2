package pages

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// serving are the folders whose programs serve several peers at once.
var serving = []string{"services", "sdk/handler", "sdk/launch", "internal/confirmsocket", "internal/sandbox/decisions"}

// alone are the folders whose goroutines need not recover, with the reason.
var alone = map[string]string{
	"services/supervisor/guard/":                             "a guard is a process for one agent, which ends with its guard",
	"services/termd/internal/guard/":                         "a guard is a process for one terminal, which ends with its guard",
	"services/supervisor/internal/host/pid1/":                "it serves no peer, and reaps processes alone",
	"services/supervisor/internal/cli/internal/demo/":        "it plays one turn for the person who started it",
	"services/supervisor/internal/tui/jobcontrol/":           "it serves the terminal of one command",
	"services/supervisor/internal/cli/connect/":              "the process is one connection",
	"services/supervisor/internal/cli/dial/":                 "the process is one connection",
	"services/supervisor/internal/cli/console/":              "the process is one call",
	"services/supervisor/internal/cli/init/":                 "the process serves the person at the terminal",
	"services/supervisor/internal/cli/sessions/":             "the process is one call",
	"services/supervisor/internal/cli/top/":                  "the process serves the person at the terminal",
	"services/supervisor/internal/cli/internal/commandtest/": "it serves tests",
	"services/supervisor/daemon/":                            "it hears signals, and a launcher's end",
}

// unguarded are other goroutines that do not recover, by file and function, with the reason.
var unguarded = map[string]string{
	"services/gatewayd/internal/socket/socket.go read":                            "it ends a context",
	"services/supervisor/internal/sandbox/containment/command.go openConfinement": "it ends a context",
	"services/supervisor/internal/proxy/link/queue.go admit":                      "work, which it calls, recovers",
	"services/supervisor/internal/tui/chat/chat.go Run":                           "Bubble Tea gives the terminal back after a panic",
	"services/supervisor/internal/tui/chat/chat.go quit":                          "it sends messages to the screen",
	"services/supervisor/internal/tui/chat/job.go aside":                          "it sends messages to the screen",
	"services/supervisor/internal/cli/chat/ending.go newEnding":                   "it hears signals",
	"services/supervisor/internal/cli/chat/log.go newLogRelay":                    "it shows the log",
	"services/supervisor/internal/cli/prompt/keys_unix.go openKeyboard":           "it reads keys",
	"services/supervisor/internal/cli/prompt/prompt.go promptInput":               "it reads standard input",
	"services/supervisor/internal/cli/prompt/signals.go spawn":                    "the process is one prompt; the terminal is restored before the panic ends the process",
	"services/supervisor/internal/cli/prompt/signals.go run":                      "as spawn",
	"services/supervisor/internal/cli/internal/command/call.go execute":           "it is the command itself",
	"services/supervisor/internal/cli/internal/hosting/killtimer.go NewKillTimer": "it receives signals",
	"services/supervisor/internal/cli/internal/hosting/killtimer.go After":        "it ends a context",
	"sdk/handler/child.go watch":                                                  "it ends the handler",
	"sdk/handler/main.go endSignals":                                              "it hears signals",
	"sdk/handler/sidecar.go serveSidecar":                                         "calls recover in interceptors",
}

func TestGoroutines_RecoverFromPanics(t *testing.T) {
	found := map[string]bool{}
	for _, dir := range serving {
		packages := map[string][]*ast.File{}
		names := map[*ast.File]string{}
		err := filepath.WalkDir(filepath.Join(top, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			packages[filepath.Dir(path)] = append(packages[filepath.Dir(path)], file)
			names[file], err = filepath.Rel(top, path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, files := range packages {
			functions := guardedFunctions(files)
			for _, file := range files {
				for _, d := range file.Decls {
					f, ok := d.(*ast.FuncDecl)
					if !ok || f.Body == nil {
						continue
					}
					key := names[file] + " " + f.Name.Name
					for _, started := range goroutines(f.Body) {
						if usesPanics(started) || functions[called(started)] {
							continue
						}
						if isAlone(names[file]) {
							continue
						}
						found[key] = true
						if unguarded[key] == "" {
							t.Errorf("%s starts a goroutine that does not recover from panics: use package panics, or give the reason in unguarded", key)
						}
					}
				}
			}
		}
	}
	for key := range unguarded {
		if !found[key] {
			t.Errorf("%s is listed as unguarded, and is not", key)
		}
	}
}

func isAlone(file string) bool {
	for folder := range alone {
		if strings.HasPrefix(file, folder) {
			return true
		}
	}
	return false
}

// goroutines returns what a function starts in new goroutines or by timers: by go, WaitGroup.Go or time.AfterFunc.
func goroutines(body ast.Node) (started []ast.Node) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			started = append(started, n.Call)
		case *ast.CallExpr:
			s, ok := n.Fun.(*ast.SelectorExpr)
			switch {
			case !ok, fmt.Sprint(s.X) == "context": // which ends contexts and connections
			case s.Sel.Name == "Go" && len(n.Args) == 1:
				started = append(started, n.Args[0])
			case s.Sel.Name == "AfterFunc" && len(n.Args) == 2:
				started = append(started, n.Args[1])
			}
		}
		return true
	})
	return started
}

// guardedFunctions are the names of the functions of a package that use package panics.
func guardedFunctions(files []*ast.File) map[string]bool {
	guarded := map[string]bool{}
	for _, file := range files {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil && usesPanics(f.Body) {
				guarded[f.Name.Name] = true
			}
		}
	}
	return guarded
}

func usesPanics(n ast.Node) (uses bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "panics" {
				uses = true
			}
		}
		return !uses
	})
	return uses
}

// called is the name of the function or method that a started expression is, or calls first, or alone.
func called(n ast.Node) string {
	switch n := n.(type) {
	case *ast.CallExpr:
		return called(n.Fun)
	case *ast.Ident:
		return n.Name
	case *ast.SelectorExpr:
		return n.Sel.Name
	case *ast.FuncLit:
		if len(n.Body.List) == 1 {
			switch s := n.Body.List[0].(type) {
			case *ast.ExprStmt:
				return called(s.X)
			case *ast.SendStmt:
				return called(s.Value)
			}
		}
	}
	return ""
}
