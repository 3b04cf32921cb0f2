package policy_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

const (
	allow = permissionv1.Verdict_VERDICT_ALLOW
	deny  = permissionv1.Verdict_VERDICT_DENY
	ask   = permissionv1.Verdict_VERDICT_ASK
)

// decide judges an action by one file alone.
func decide(p *policy.Policy, a *permissionv1.Action) *permissionv1.DecideResponse {
	return policy.Decide([]policy.Part{{Policy: p, Layer: permissionv1.Layer_LAYER_USER}}, a)
}

// parse compiles rules for a user whose home is /home/u, a symbolic link to /data/u.
func parse(tb testing.TB, rules string) *policy.Policy {
	tb.Helper()
	p, err := policy.Parse("rules.yaml", []byte(rules), policy.Surroundings{
		Home:      "/home/u",
		Protected: []string{"/home/u/.config/acphost"},
		Real: func(path string) (string, error) {
			if rest, ok := strings.CutPrefix(path, "/home/u"); ok {
				return "/data/u" + rest, nil
			}
			return path, nil
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// about is an action with one root, /ws, as a supervisor would put it together.
func about(kind string, with ...func(*permissionv1.Action)) *permissionv1.Action {
	a := &permissionv1.Action{Kind: kind, Agent: "a", SessionId: "s", Roots: []string{"/ws"}, Door: permissionv1.Door_DOOR_CALL}
	for _, f := range with {
		f(a)
	}
	return a
}

// path adds paths that resolve to themselves.
func path(paths ...string) func(*permissionv1.Action) {
	return func(a *permissionv1.Action) {
		for _, p := range paths {
			link(p, p)(a)
		}
	}
}

// link adds a path that leads somewhere else; to nowhere known if resolved is empty.
func link(asked, resolved string) func(*permissionv1.Action) {
	return func(a *permissionv1.Action) {
		a.Paths = append(a.Paths, &permissionv1.PathAccess{Path: asked, ResolvedPath: resolved, InsideRoots: inRoots(a, asked) && inRoots(a, resolved),
			Access: permissionv1.Access_ACCESS_READ})
	}
}

func inRoots(a *permissionv1.Action, name string) bool {
	for _, root := range a.GetRoots() {
		rest, ok := strings.CutPrefix(filepath.Clean(name), filepath.Clean(root))
		if ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

// line adds a command line.
func line(text string) func(*permissionv1.Action) {
	return func(a *permissionv1.Action) {
		subs, unparsed := shell.Parse(text)
		for _, sub := range subs {
			policy.Ordinary(sub)
		}
		a.Command = &permissionv1.Command{Text: text, SubCommands: subs, Unparsed: unparsed}
	}
}

// argv adds a command that is executed without a shell.
func argv(args ...string) func(*permissionv1.Action) {
	return func(a *permissionv1.Action) {
		subs, unparsed := shell.FromArgv(args)
		for _, sub := range subs {
			policy.Ordinary(sub)
		}
		a.Command = &permissionv1.Command{Text: shell.Quote(args), Argv: args, SubCommands: subs, Unparsed: unparsed}
	}
}

func env(entries ...string) func(*permissionv1.Action) {
	return func(a *permissionv1.Action) { a.Command.Env = entries }
}

func cwd(dir string) func(*permissionv1.Action) {
	return func(a *permissionv1.Action) { a.Command.Cwd = dir }
}

func unparsed(a *permissionv1.Action)  { a.Unparsed = "it is not clear" }
func protected(a *permissionv1.Action) { a.Paths[0].Protected = true }
func roots(dirs ...string) func(*permissionv1.Action) {
	return func(a *permissionv1.Action) { a.Roots = dirs }
}
