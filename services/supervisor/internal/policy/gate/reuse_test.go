//go:build linux

package gate

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/reuse"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// child is a policy that acphost started. It counts the calls, and its allowances cover a folder.
type child struct {
	t       *testing.T
	rules   string // the path of its file
	told    atomic.Uint64
	sidecar bool
	calls   int
	except  []string
	during  func() // called while it decides
	view    string
	verdict permissionv1.Verdict
}

func newChild(t *testing.T) *child {
	c := &child{t: t, rules: filepath.Join(t.TempDir(), "rules"), view: reuse.View(), verdict: Allow}
	c.write("one")
	return c
}

func (c *child) write(text string) {
	c.t.Helper()
	if err := os.WriteFile(c.rules, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func (c *child) Told() (uint64, bool) { return c.told.Load(), !c.sidecar }

func (c *child) Invoke(_ context.Context, _ string, args, reply any, _ ...grpc.CallOption) error {
	c.calls++
	res := &permissionv1.DecideResponse{Verdict: c.verdict, Rule: "reading", Reason: "why", PolicyDigest: "d"}
	if args.(*permissionv1.DecideRequest).GetReuse() {
		state, _ := reuse.Of(c.rules, true)
		res.Reuse = &permissionv1.Reuse{View: c.view, Except: c.except, Files: []*permissionv1.FileState{state}}
	}
	if c.during != nil {
		c.during()
	}
	proto.Merge(reply.(*permissionv1.DecideResponse), res)
	return nil
}

func (c *child) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.New("no streams")
}

func gateOf(told func(*supervisorv1.AuditRecord), children ...*child) *Gate {
	var chain []Policy
	for _, c := range children {
		chain = append(chain, Policy{Name: "permission", Conn: func() (grpc.ClientConnInterface, error) { return c, nil }, Plugin: func() string { return "child 1" }})
	}
	return New(Options{Chain: chain, Methods: []string{"fs/*"}, Enforced: true, Decided: told, Logger: slog.New(slog.DiscardHandler)})
}

func fileRead(file string) *permissionv1.Action {
	return &permissionv1.Action{Kind: "fs.read", Agent: "a", Mode: "code", Method: "fs/read_text_file", Door: permissionv1.Door_DOOR_CALL,
		SessionId: "s", Roots: []string{"/w"}, ResolvedRoots: []string{"/w"}, RawInput: file,
		Paths: []*permissionv1.PathAccess{{Path: file, ResolvedPath: file, Access: permissionv1.Access_ACCESS_READ, InsideRoots: true}}}
}

func decided(t *testing.T, g *Gate, a *permissionv1.Action, want permissionv1.Verdict) {
	t.Helper()
	d, err := g.Decide(t.Context(), Request{Action: a})
	if err != nil || d.Verdict != want {
		t.Fatalf("%s: got %+v, %v; want %v", a.GetPaths(), d, err, want)
	}
	if err := g.Record(d, Outcome{Allowed: d.Verdict == Allow}); err != nil {
		t.Fatal(err)
	}
}

// programStart is a process that starts git.
func programStart(args ...string) *permissionv1.Action {
	argv := append([]string{"git"}, args...)
	return &permissionv1.Action{Kind: "terminal.create", Agent: "a", Door: permissionv1.Door_DOOR_KERNEL, SessionId: "s", Roots: []string{"/w"},
		Command: &permissionv1.Command{Argv: argv, Cwd: "/w", SubCommands: []*permissionv1.SubCommand{{Argv: argv}}}}
}

func TestReuse_ProgramNeedsSameStart(t *testing.T) {
	c := newChild(t)
	g := gateOf(nil, c)
	calls := func(a *permissionv1.Action, want int) {
		t.Helper()
		decided(t, g, a, Allow)
		if c.calls != want {
			t.Errorf("%v: %d calls, want %d", a.GetCommand().GetArgv(), c.calls, want)
		}
	}
	calls(programStart("status"), 1)
	calls(programStart("status"), 1)
	calls(programStart("status", "-s"), 2)
	elsewhere := programStart("status")
	elsewhere.Command.Cwd = "/w/sub"
	calls(elsewhere, 3)
	other := programStart("status")
	other.SessionId = "t"
	calls(other, 4)
	asked := programStart("status")
	asked.Door = permissionv1.Door_DOOR_CALL
	calls(asked, 5)
	calls(asked, 6)
	c.write("two, which is longer")
	calls(programStart("status"), 7)
	c.told.Add(2)
	calls(programStart("status"), 8)
	calls(programStart("status"), 8)
}

func TestReuse_CoversReadsOfFolder(t *testing.T) {
	c := newChild(t)
	var records []*supervisorv1.AuditRecord
	g := gateOf(func(r *supervisorv1.AuditRecord) { records = append(records, proto.CloneOf(r)) }, c)
	for _, name := range []string{"a", "b", "a"} {
		decided(t, g, fileRead("/w/src/"+name), Allow)
	}
	if c.calls != 1 || len(records) != 3 {
		t.Fatalf("%d calls and %d records, want 1 and 3", c.calls, len(records))
	}
	for i, r := range records {
		if r.GetReused() != (i > 0) || r.GetRule() != "reading" || r.GetReason() != "why" || r.GetPolicyDigest() != "d" || r.GetPlugin() != "child 1" ||
			r.GetAnsweredBy() != ByPolicy || r.GetVerdict() != "allow" || r.GetOutcome() != "allowed" {
			t.Errorf("record %d: %v", i, r)
		}
	}
	if got := records[1].GetAction().GetPaths()[0].GetPath(); got != "/w/src/b" {
		t.Errorf("the second record is about %s", got)
	}
}

func TestReuse_CoversNothingElse(t *testing.T) {
	with := func(change func(a *permissionv1.Action)) *permissionv1.Action {
		a := fileRead("/w/src/b")
		change(a)
		return a
	}
	path := func(change func(p *permissionv1.PathAccess)) *permissionv1.Action {
		return with(func(a *permissionv1.Action) { change(a.GetPaths()[0]) })
	}
	for name, a := range map[string]*permissionv1.Action{
		"another folder":             fileRead("/w/b"),
		"a folder below":             fileRead("/w/src/lib/b"),
		"an excepted name":           fileRead("/w/src/.env.local"),
		"an excepted name, in case":  fileRead("/w/src/x.ENV"),
		"a name of other characters": fileRead("/w/src/\u212aey"),
		"a name that is no text":     fileRead("/w/src/a\xff"),
		"the same folder otherwise":  fileRead("/w/src/../src/b"),
		"another mode":               with(func(a *permissionv1.Action) { a.Mode = "plan" }),
		"another agent":              with(func(a *permissionv1.Action) { a.Agent = "b" }),
		"another method":             with(func(a *permissionv1.Action) { a.Method = "_x/read" }),
		"other roots":                with(func(a *permissionv1.Action) { a.Roots = []string{"/w/src"} }),
		"roots that lead elsewhere":  with(func(a *permissionv1.Action) { a.ResolvedRoots = []string{"/v"} }),
		"a root more":                with(func(a *permissionv1.Action) { a.Roots = append(a.Roots, "/x") }),
		"a write":                    with(func(a *permissionv1.Action) { a.Kind = "fs.write" }),
		"a listing":                  with(func(a *permissionv1.Action) { a.Kind = "fs.list" }),
		"a request":                  with(func(a *permissionv1.Action) { a.Door = permissionv1.Door_DOOR_REQUEST }),
		"it is done":                 with(func(a *permissionv1.Action) { a.Done = true }),
		"it is not understood":       with(func(a *permissionv1.Action) { a.Unparsed = "?" }),
		"a tool's":                   with(func(a *permissionv1.Action) { a.Tool = "Read" }),
		"a command":                  with(func(a *permissionv1.Action) { a.Command = &permissionv1.Command{} }),
		"two files":                  with(func(a *permissionv1.Action) { a.Paths = append(a.Paths, a.GetPaths()[0]) }),
		"no file":                    with(func(a *permissionv1.Action) { a.Paths = nil }),
		"a link to another folder":   path(func(p *permissionv1.PathAccess) { p.ResolvedPath = "/etc/b" }),
		"a link to another name":     path(func(p *permissionv1.PathAccess) { p.ResolvedPath = "/w/src/c" }),
		"it is not resolved":         path(func(p *permissionv1.PathAccess) { p.ResolvedPath = "" }),
		"outside of the roots":       path(func(p *permissionv1.PathAccess) { p.InsideRoots = false }),
		"git's own":                  path(func(p *permissionv1.PathAccess) { p.GitInternal = true }),
		"all below it":               path(func(p *permissionv1.PathAccess) { p.Recursive = true }),
		"it would be written":        path(func(p *permissionv1.PathAccess) { p.Access = permissionv1.Access_ACCESS_WRITE }),
	} {
		t.Run(name, func(t *testing.T) {
			c := newChild(t)
			c.except = []string{".env"}
			g := gateOf(nil, c)
			decided(t, g, fileRead("/w/src/a"), Allow)
			before := c.calls
			c.verdict = Deny
			if _, err := g.Decide(t.Context(), Request{Action: a}); err != nil {
				t.Fatal(err)
			}
			if c.calls == before {
				t.Error("the policy was not asked")
			}
			decided(t, g, fileRead("/w/src/c"), Allow) // the first answer is still valid
		})
	}
}

func TestReuse_ExcludesProtectedFiles(t *testing.T) {
	c := newChild(t)
	g := gateOf(nil, c)
	decided(t, g, fileRead("/w/src/a"), Allow)
	a := fileRead("/w/src/b")
	a.Paths[0].Protected = true
	decided(t, g, a, Deny)
}

func TestReuse_EndsWhenPolicyChanges(t *testing.T) {
	for name, change := range map[string]func(c *child){
		"its rules change":         func(c *child) { c.write("other") },
		"its rules are gone":       func(c *child) { _ = os.Remove(c.rules) },
		"it is configured again":   func(c *child) { c.told.Add(2) },
		"another takes its place":  func(c *child) { c.sidecar = true },
		"its rules are a folder's": func(c *child) { _ = os.Remove(c.rules); _ = os.Mkdir(c.rules, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newChild(t)
			g := gateOf(nil, c)
			decided(t, g, fileRead("/w/a"), Allow)
			decided(t, g, fileRead("/w/b"), Allow)
			c.verdict = Deny
			change(c)
			decided(t, g, fileRead("/w/c"), Deny)
			decided(t, g, fileRead("/w/b"), Deny)
			if c.calls != 3 {
				t.Errorf("%d calls, want 3: a denial holds for nothing else", c.calls)
			}
		})
	}
}

func TestReuse_ExcludesAnswersDuringReload(t *testing.T) {
	c := newChild(t)
	g := gateOf(nil, c)
	c.during = func() { c.told.Add(2) }
	decided(t, g, fileRead("/w/a"), Allow)
	c.during, c.verdict = nil, Deny
	decided(t, g, fileRead("/w/b"), Deny)

	c = newChild(t)
	g = gateOf(nil, c)
	c.during = func() { c.write("changed while it decides") }
	decided(t, g, fileRead("/w/a"), Allow)
	c.during, c.verdict = nil, Deny
	decided(t, g, fileRead("/w/b"), Deny)
}

func TestReuse_NeedsCheckableAnswer(t *testing.T) {
	for name, change := range map[string]func(c *child){
		"a sidecar's":          func(c *child) { c.sidecar = true },
		"it sees other files":  func(c *child) { c.view += "!" },
		"it says no view":      func(c *child) { c.view = "" },
		"too many exceptions":  func(c *child) { c.except = make([]string, maxExcept+1) },
		"a long exception":     func(c *child) { c.except = []string{strings.Repeat("x", maxName+1)} },
		"it is to be asked":    func(c *child) { c.verdict = Ask },
		"an exception of none": func(c *child) { c.except = []string{""} },
	} {
		t.Run(name, func(t *testing.T) {
			c := newChild(t)
			change(c)
			g := gateOf(nil, c)
			decided(t, g, fileRead("/w/a"), c.verdict)
			decided(t, g, fileRead("/w/a"), c.verdict)
			if c.calls != 2 {
				t.Errorf("%d calls, want 2", c.calls)
			}
		})
	}
}

func TestReuse_IsPerPolicy(t *testing.T) {
	first, second := newChild(t), newChild(t)
	second.sidecar = true
	var last *supervisorv1.AuditRecord
	g := gateOf(func(r *supervisorv1.AuditRecord) { last = proto.CloneOf(r) }, first, second)
	decided(t, g, fileRead("/w/a"), Allow)
	decided(t, g, fileRead("/w/b"), Allow)
	if first.calls != 1 || second.calls != 2 || last.GetReused() {
		t.Errorf("%d and %d calls, want 1 and 2; reused: %v", first.calls, second.calls, last.GetReused())
	}
	second.verdict = Deny
	decided(t, g, fileRead("/w/c"), Deny)
	second.verdict, second.sidecar = Allow, false
	decided(t, g, fileRead("/w/d"), Allow)
	decided(t, g, fileRead("/w/e"), Allow)
	if second.calls != 4 || !last.GetReused() {
		t.Errorf("%d calls, want 4; reused: %v", second.calls, last.GetReused())
	}
}

func TestReuse_ExcludesDoubtedPolicy(t *testing.T) {
	c := newChild(t)
	g := gateOf(nil, c)
	decided(t, g, fileRead("/w/a"), Allow)
	g.opts.Chain[0].Doubt = func() string { return "its files have changed" }
	decided(t, g, fileRead("/w/b"), Ask)
}

func TestReuse_LimitsAnswers(t *testing.T) {
	c := newChild(t)
	g := gateOf(nil, c)
	for i := range maxHeld + 10 {
		decided(t, g, fileRead("/w/"+strings.Repeat("d", i+1)+"/a"), Allow)
	}
	if n := len(g.opts.Chain[0].answers.held); n > maxHeld {
		t.Errorf("%d are held", n)
	}
}

func TestReuse_ProcessActionsUntilRuleChanges(t *testing.T) {
	c := newChild(t)
	g := gateOf(nil, c)
	write := func(name string) *permissionv1.Action {
		a := fileRead("/w/src/" + name)
		a.Kind, a.Method, a.Door, a.Paths[0].Access = "fs.write", "", permissionv1.Door_DOOR_KERNEL, permissionv1.Access_ACCESS_WRITE
		return a
	}
	for _, name := range []string{"a", "b", "a"} {
		decided(t, g, write(name), Allow)
	}
	if c.calls != 1 {
		t.Errorf("%d calls, want 1", c.calls)
	}
	c.write("two, of another size")
	c.verdict = Deny
	decided(t, g, write("a"), Deny)
}
