package grant

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(child(role))
	}
	goleak.VerifyTestMain(m)
}

var (
	start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	here  = Where{Scope: "scope-1", SessionID: "session-1", Agent: "claude", Workspace: "/w", Turn: 3}
)

const (
	turn       = supervisorv1.GrantScope_GRANT_SCOPE_TURN
	session    = supervisorv1.GrantScope_GRANT_SCOPE_SESSION
	workspace  = supervisorv1.GrantScope_GRANT_SCOPE_WORKSPACE
	agent      = supervisorv1.GrantScope_GRANT_SCOPE_AGENT
	everywhere = supervisorv1.GrantScope_GRANT_SCOPE_EVERYWHERE
)

// clock is a time that tests move.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

// logged is a logger, and what it was told.
func logged() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewTextHandler(&b, nil)), &b
}

func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func tempFile(t testing.TB) string { return filepath.Join(t.TempDir(), "state", "grants.jsonl") }

func add(t testing.TB, s *Store, w Where, grants ...*supervisorv1.Grant) {
	t.Helper()
	if err := s.Add(w, grants...); err != nil {
		t.Fatal(err)
	}
}

// line is a command line in the workspace, as the gate makes an action of it. Redirections lead below /w.
func line(text string) *permissionv1.Action {
	subs, unparsed := shell.Parse(text)
	return command(text, subs, unparsed)
}

// words is a command that is executed without a shell.
func words(argv ...string) *permissionv1.Action {
	subs, unparsed := shell.FromArgv(argv)
	a := command(shell.Quote(argv), subs, unparsed)
	a.Command.Argv = argv
	return a
}

func command(text string, subs []*permissionv1.SubCommand, unparsed string) *permissionv1.Action {
	a := &permissionv1.Action{
		Kind: "terminal.create", Agent: "claude", SessionId: "session-1", Roots: []string{"/link/w"}, ResolvedRoots: []string{"/w"},
		Command: &permissionv1.Command{Text: text, SubCommands: subs, Unparsed: unparsed},
	}
	for _, sub := range subs {
		for _, r := range sub.GetRedirections() {
			if r.GetDynamic() || r.GetPath() == "/dev/null" {
				continue
			}
			path := r.GetPath()
			if !filepath.IsAbs(path) {
				path = filepath.Join("/w", path)
			}
			access := permissionv1.Access_ACCESS_WRITE
			if r.GetOperator() == "<" {
				access = permissionv1.Access_ACCESS_READ
			}
			r.ResolvedPath = path
			a.Paths = append(a.Paths, &permissionv1.PathAccess{Path: path, ResolvedPath: path, Access: access})
		}
	}
	return a
}

func in(a *permissionv1.Action, cwd string) *permissionv1.Action {
	a.Command.Cwd = cwd
	return a
}

func withEnv(a *permissionv1.Action, env ...string) *permissionv1.Action {
	a.Command.Env = env
	return a
}

// file is a call on one file that leads where it says.
func onFile(kind, path string) *permissionv1.Action { return onLink(kind, path, path) }

func onLink(kind, path, resolved string) *permissionv1.Action {
	access := permissionv1.Access_ACCESS_WRITE
	if kind == "fs.read" || kind == "tool.read" || kind == "fs.list" || kind == "tool.search" {
		access = permissionv1.Access_ACCESS_READ
	}
	return &permissionv1.Action{Kind: kind, Agent: "claude", Roots: []string{"/w"}, ResolvedRoots: []string{"/w"},
		Paths: []*permissionv1.PathAccess{{Path: path, ResolvedPath: resolved, Access: access, InsideRoots: true}}}
}

// call is an action that is neither a command nor about a file.
func call(kind, input string) *permissionv1.Action {
	return &permissionv1.Action{Kind: kind, Agent: "claude", Method: kind, RawInput: input}
}

func prefix(scope supervisorv1.GrantScope, argv string) *supervisorv1.Grant {
	g := run(scope, argv)
	g.Prefix = true
	return g
}

func run(scope supervisorv1.GrantScope, argv string) *supervisorv1.Grant {
	return &supervisorv1.Grant{Scope: scope, Workspace: "/w", Agent: "claude", Action: "run", Argv: strings.Fields(argv), GrantedBy: "front"}
}

func path(action, glob string) *supervisorv1.Grant {
	return &supervisorv1.Grant{Scope: session, Action: action, Path: glob, GrantedBy: "front"}
}

func refusing(g *supervisorv1.Grant) *supervisorv1.Grant {
	g.Refuse = true
	return g
}

func protected(a *permissionv1.Action) *permissionv1.Action {
	a.Paths[0].Protected = true
	return a
}

func unparsed(a *permissionv1.Action, input string) *permissionv1.Action {
	a.Unparsed, a.RawInput = "something in it cannot be read", input
	return a
}

// lasting is a grant as it stands in a file.
func lasting(id string, argv ...string) *supervisorv1.Grant {
	return &supervisorv1.Grant{Id: id, Scope: everywhere, Action: "run", Argv: argv, GrantedBy: "cli",
		CreateTime: timestamppb.New(start), ExpireTime: timestamppb.New(start.AddDate(0, 0, 90))}
}
