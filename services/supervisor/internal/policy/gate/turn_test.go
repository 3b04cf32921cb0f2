package gate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

const (
	write = permissionv1.Access_ACCESS_WRITE
	read  = permissionv1.Access_ACCESS_READ
)

func request(a *permissionv1.Action) Request {
	a.Roots, a.SessionId, a.Agent = []string{"/w"}, "s", "agent"
	return Request{Action: a, Scope: "scope", Turn: 1, Written: holds(a, "text")}
}

// holds is the content of an action's first file after a write of a text.
func holds(a *permissionv1.Action, text string) *intent.File {
	if len(a.GetPaths()) == 0 {
		return nil
	}
	return &intent.File{Place: intent.PlaceOf(a.GetPaths()[0]), Sum: sha256.Sum256([]byte(text))}
}

func editOf(id, path string) *permissionv1.Action {
	return &permissionv1.Action{Kind: "tool.edit", ToolCallId: id, Door: permissionv1.Door_DOOR_REQUEST,
		Paths: []*permissionv1.PathAccess{{Path: path, ResolvedPath: path, Access: write, InsideRoots: true}}}
}

func readOf(path string) *permissionv1.Action {
	return &permissionv1.Action{Kind: "tool.read", ToolCallId: "t", Door: permissionv1.Door_DOOR_REQUEST,
		Paths: []*permissionv1.PathAccess{{Path: path, ResolvedPath: path, Access: read, InsideRoots: true}}}
}

func fileCall(kind, path string, access permissionv1.Access) *permissionv1.Action {
	return &permissionv1.Action{Kind: kind, Door: permissionv1.Door_DOOR_CALL,
		Paths: []*permissionv1.PathAccess{{Path: path, ResolvedPath: path, Access: access, InsideRoots: true}}}
}

func commandOf(kind, id, line string, door permissionv1.Door) *permissionv1.Action {
	subs, unparsed := shell.Parse(line)
	return &permissionv1.Action{Kind: kind, ToolCallId: id, Door: door, Title: line,
		Command: &permissionv1.Command{Text: line, SubCommands: subs, Unparsed: unparsed}}
}

// settle decides and records at once; the person answers if the verdict is Ask.
func settle(t *testing.T, g *Gate, r Request, o Outcome) *Decision {
	t.Helper()
	d, err := g.Decide(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	d.Shown.Command = r.Action.GetTitle() == r.Action.GetCommand().GetText()
	switch r.Action.GetKind() {
	case "tool.edit":
		d.Shown.Edits = intent.Edits{r.Written.Place: {Before: sha256.Sum256([]byte("before")), After: r.Written.Sum}}
	case "tool.read":
		d.Shown.Files = map[string]bool{intent.PlaceOf(r.Action.GetPaths()[0]): true}
	}
	if d.Verdict != Ask {
		o = Outcome{Allowed: d.Verdict == Allow}
	}
	if err := g.Record(d, o); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDecide_AllowedRequestCoversCall(t *testing.T) {
	yes := Outcome{Allowed: true, By: ByClient, Option: acp.AllowOnce}
	no := Outcome{By: ByClient, Option: acp.RejectOnce}
	run := func(line string) *permissionv1.Action {
		return commandOf("tool.execute", "t", line, permissionv1.Door_DOOR_REQUEST)
	}
	create := func(line string) *permissionv1.Action {
		return commandOf("terminal.create", "", line, permissionv1.Door_DOOR_CALL)
	}
	tests := []struct {
		name  string
		asked *permissionv1.Action
		said  Outcome
		calls []*permissionv1.Action
		want  []permissionv1.Verdict
	}{
		{"a write, once", editOf("t", "/w/a"), yes,
			[]*permissionv1.Action{fileCall("fs.write", "/w/a", write), fileCall("fs.write", "/w/a", write)}, []permissionv1.Verdict{Allow, Ask}},
		{"reads of it, as often as it likes", editOf("t", "/w/a"), yes,
			[]*permissionv1.Action{fileCall("fs.read", "/w/a", read), fileCall("fs.read", "/w/a", read)}, []permissionv1.Verdict{Allow, Allow}},
		{"not another file", editOf("t", "/w/a"), yes,
			[]*permissionv1.Action{fileCall("fs.write", "/w/b", write)}, []permissionv1.Verdict{Ask}},
		{"a command, once", run("make"), yes, []*permissionv1.Action{create("make"), create("make")}, []permissionv1.Verdict{Allow, Ask}},
		{"not another command", run("make"), yes, []*permissionv1.Action{create("make install")}, []permissionv1.Verdict{Ask}},
		{"what a person refused is not asked again", run("make"), no, []*permissionv1.Action{create("make")}, []permissionv1.Verdict{Deny}},
		{"a question that was cancelled says nothing", run("make"), Outcome{Cancelled: true}, []*permissionv1.Action{create("make")}, []permissionv1.Verdict{Ask}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := gateWith(true, answers(Ask))
			settle(t, g, request(tt.asked), tt.said)
			for i, a := range tt.calls {
				d := settle(t, g, request(a), no)
				if d.Verdict != tt.want[i] {
					t.Errorf("call %d: got %v, want %v", i, d.Verdict, tt.want[i])
				}
				if d.Verdict == Allow && d.By != ByEarlier {
					t.Errorf("call %d was answered by %q", i, d.By)
				}
			}
		})
	}
}

// On each surface, an answer allows and remembers only actions that people can read there, whoever gives it.
func TestAnswer_AllowsOnlyWhatItsSurfaceShowed(t *testing.T) {
	command := func(kind string, door permissionv1.Door) *permissionv1.Action {
		return commandOf(kind, "t", "rm x", door)
	}
	for name, tt := range map[string]struct {
		asked, called *permissionv1.Action
		seen          Seen
	}{
		"a command":                {command("tool.execute", permissionv1.Door_DOOR_REQUEST), command("terminal.create", permissionv1.Door_DOOR_CALL), Seen{Command: true}},
		"a read":                   {readOf("/w/a"), fileCall("fs.read", "/w/a", read), Seen{Files: map[string]bool{"/w/a": true}}},
		"a read of an edited file": {editOf("t", "/w/a"), fileCall("fs.read", "/w/a", read), Seen{Edits: intent.Edits{"/w/a": {}}}},
		"a process's write": {editOf("t", "/w/a"), &permissionv1.Action{Kind: "fs.write", Door: permissionv1.Door_DOOR_KERNEL,
			Paths: fileCall("fs.write", "/w/a", write).GetPaths()}, Seen{Files: map[string]bool{"/w/a": true}}},
	} {
		for surface, s := range map[string]struct {
			is   Surface
			by   string
			own  bool
			seen Seen
		}{
			"the editor, shown":              {by: ByClient, seen: tt.seen},
			"the editor, not shown":          {by: ByClient},
			"an attached client, shown":      {by: "approver", is: supervisorv1.Surface_SURFACE_AGENT_WORDS, seen: tt.seen},
			"an attached client, not shown":  {by: "approver", is: supervisorv1.Surface_SURFACE_AGENT_WORDS},
			"a program that says nothing":    {by: "grpc"},
			"a program with another surface": {by: "grpc", is: 77},
			"chat, prompt, console":          {by: "cli", is: supervisorv1.Surface_SURFACE_INPUT, own: true},
		} {
			t.Run(name+"/"+surface, func(t *testing.T) {
				wanted := s.own || s.seen.Command || s.seen.Files != nil || s.seen.Edits != nil
				for _, option := range []string{acp.AllowOnce, acp.AllowAlways} {
					g := askingGate(t)
					d, err := g.Decide(t.Context(), request(proto.CloneOf(tt.asked)))
					if err != nil {
						t.Fatal(err)
					}
					d.Shown = s.seen
					if err := g.Record(d, Outcome{Allowed: true, By: s.by, Option: option, Surface: s.is}); err != nil {
						t.Fatal(err)
					}
					if got := len(g.opts.Grants.List()) > 0; got != (wanted && option == acp.AllowAlways) {
						t.Errorf("%s: grants: %v", option, g.opts.Grants.List())
					}
					if option == acp.AllowAlways {
						continue
					}
					call, err := g.Decide(t.Context(), request(proto.CloneOf(tt.called)))
					if err != nil {
						t.Fatal(err)
					}
					if got := call.Verdict == Allow; got != wanted {
						t.Errorf("the call passes: %v, want %v (%s)", got, wanted, call.By)
					}
				}
			})
		}
	}
}

func TestDecide_AnswerAboutLinkExcludesTarget(t *testing.T) {
	for name, tt := range map[string]struct {
		asked string
		o     Outcome
		want  string // which component decides the write
	}{
		"by its name":             {"/w/real", Outcome{Allowed: true, By: ByClient, Option: acp.AllowOnce}, ByEarlier},
		"by a link":               {"/w/link", Outcome{Allowed: true, By: ByClient, Option: acp.AllowOnce}, ByPolicy},
		"by a link, and always":   {"/w/link", Outcome{Allowed: true, By: ByClient, Option: acp.AllowAlways}, ByPolicy},
		"a no holds all the same": {"/w/link", Outcome{By: ByClient, Option: acp.RejectOnce}, ByEarlier},
		"a no for good does, too": {"/w/link", Outcome{By: ByClient, Option: acp.RejectAlways}, ByEarlier},
	} {
		t.Run(name, func(t *testing.T) {
			g := askingGate(t)
			asked := editOf("t", "/w/real")
			asked.Paths[0].Path = tt.asked
			settle(t, g, request(asked), tt.o)
			if d := settle(t, g, request(fileCall("fs.write", "/w/real", write)), Outcome{Cancelled: true}); d.By != tt.want {
				t.Errorf("the write is decided by %s, want %s", d.By, tt.want)
			}
			if refused := tt.o.Option == acp.RejectAlways; refused != (len(g.opts.Grants.List()) == 1) {
				t.Errorf("remembered: %v", g.opts.Grants.List())
			}
		})
	}
}

func TestDecide_AsksAboutUnshownWrite(t *testing.T) {
	yes := Outcome{Allowed: true, By: ByClient, Option: acp.AllowOnce}
	writes := func(path, text string) Request {
		r := request(fileCall("fs.write", path, write))
		r.Written = holds(r.Action, text)
		return r
	}
	shows := func(text string, paths ...string) Request {
		r := request(editOf("t", paths[0]))
		r.Written = holds(r.Action, text) // of the first file only
		for _, path := range paths[1:] {
			r.Action.Paths = append(r.Action.Paths, editOf("t", path).Paths...)
		}
		return r
	}
	unknown := writes("/w/a", "A")
	unknown.Written = nil
	tests := []struct {
		name  string
		asked []Request
		said  []Outcome
		calls []Request
		want  []permissionv1.Verdict
	}{
		{"what was shown", []Request{shows("A", "/w/a")}, nil, []Request{writes("/w/a", "A")}, []permissionv1.Verdict{Allow}},
		{"something else, then what was shown", []Request{shows("A", "/w/a")}, nil,
			[]Request{writes("/w/a", "B"), writes("/w/a", "A")}, []permissionv1.Verdict{Ask, Allow}},
		{"a content that is not known", []Request{shows("A", "/w/a")}, nil, []Request{unknown}, []permissionv1.Verdict{Ask}},
		{"the same into a file that was only named", []Request{shows("A", "/w/a", "/w/b")}, nil,
			[]Request{writes("/w/b", "A")}, []permissionv1.Verdict{Ask}},
		{"a read of a file that was not shown", []Request{shows("A", "/w/a", "/w/b")}, nil,
			[]Request{request(fileCall("fs.read", "/w/b", read))}, []permissionv1.Verdict{Ask}},
		{"two edits of one file, in any order", []Request{shows("A", "/w/a"), shows("B", "/w/a")}, nil,
			[]Request{writes("/w/a", "A"), writes("/w/a", "B"), writes("/w/a", "A")}, []permissionv1.Verdict{Allow, Allow, Ask}},
		{"a read of a file of which a person refused an edit", []Request{shows("A", "/w/a")}, []Outcome{{By: ByClient, Option: acp.RejectOnce}},
			[]Request{request(fileCall("fs.read", "/w/a", read))}, []permissionv1.Verdict{Ask}},
		{"anything into a file of which a person refused an edit", []Request{shows("A", "/w/a")}, []Outcome{{By: ByClient, Option: acp.RejectOnce}},
			[]Request{writes("/w/a", "B")}, []permissionv1.Verdict{Deny}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := gateWith(true, answers(Ask))
			for i, r := range tt.asked {
				o := yes
				if i < len(tt.said) {
					o = tt.said[i]
				}
				settle(t, g, r, o)
			}
			for i, r := range tt.calls {
				if d := settle(t, g, r, Outcome{Cancelled: true}); d.Verdict != tt.want[i] {
					t.Errorf("call %d: got %v, want %v", i, d.Verdict, tt.want[i])
				}
			}
		})
	}
}

// byName is a policy that allows actions with one tool name, and asks about all others.
type byName string

func (n byName) Invoke(_ context.Context, _ string, req, reply any, _ ...grpc.CallOption) error {
	res := reply.(*permissionv1.DecideResponse)
	if res.Verdict = Ask; req.(*permissionv1.DecideRequest).GetAction().GetTool() == string(n) {
		res.Verdict = Allow
	}
	return nil
}

func (byName) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.New("no streams")
}

func TestDecide_ToolNameAllowsNoCall(t *testing.T) {
	yes := Outcome{Allowed: true, By: ByClient, Option: acp.AllowOnce}
	for name, tt := range map[string]struct {
		asked, call *permissionv1.Action
	}{
		"a command": {commandOf("tool.execute", "t", "make", permissionv1.Door_DOOR_REQUEST), commandOf("terminal.create", "", "make", permissionv1.Door_DOOR_CALL)},
		"a write":   {editOf("t", "/w/a"), fileCall("fs.write", "/w/a", write)},
		"a read":    {readOf("/w/a"), fileCall("fs.read", "/w/a", read)},
	} {
		t.Run(name, func(t *testing.T) {
			g := gateWith(true, nil)
			g.opts.Chain[0].Conn = func() (grpc.ClientConnInterface, error) { return byName("mcp__notes__show"), nil }
			tt.asked.Tool = "mcp__notes__show"
			if d := settle(t, g, request(tt.asked), Outcome{}); d.Verdict != Allow {
				t.Fatalf("the question: got %v", d.Verdict)
			}
			if d := settle(t, g, request(tt.call), Outcome{}); d.Verdict != Ask {
				t.Errorf("the call: got %v by %q, want to ask", d.Verdict, d.By)
			}
			tt.asked.Tool = "another" // a person is asked about it, and sees the action
			settle(t, g, request(tt.asked), yes)
			if d := settle(t, g, request(tt.call), Outcome{}); d.Verdict != Allow || d.By != ByEarlier {
				t.Errorf("the call after a person's yes: got %v by %q", d.Verdict, d.By)
			}
		})
	}
}

func TestDecide_UnneededToolNameAllowsCall(t *testing.T) {
	g := gateWith(true, answers(Allow))
	asked := editOf("t", "/w/a")
	asked.Tool = "Write"
	settle(t, g, request(asked), Outcome{})
	if d := settle(t, g, request(fileCall("fs.write", "/w/a", write)), Outcome{}); d.Verdict != Allow || d.By != ByEarlier {
		t.Errorf("got %v by %q", d.Verdict, d.By)
	}
}

func TestDecide_AnswerIsLimitedToTurnSessionAndToolCall(t *testing.T) {
	yes := Outcome{Allowed: true, By: ByClient, Option: acp.AllowOnce}
	for name, change := range map[string]func(t *testing.T, g *Gate, r *Request){
		"the next turn":     func(_ *testing.T, _ *Gate, r *Request) { r.Turn = 2 },
		"another session":   func(_ *testing.T, _ *Gate, r *Request) { r.Scope = "other" },
		"no session":        func(_ *testing.T, _ *Gate, r *Request) { r.Scope = "" },
		"after the turn":    func(_ *testing.T, g *Gate, _ *Request) { g.EndTurn("scope") },
		"after a long time": func(*testing.T, *Gate, *Request) { time.Sleep(answerLife + time.Second) },
		"after its tool call": func(_ *testing.T, g *Gate, _ *Request) {
			_, _ = g.Reported(context.Background(), request(editOf("t", "/w/a")), true)
		},
		"decided too late": func(t *testing.T, g *Gate, r *Request) {
			settle(t, g, Request{Action: fileCall("fs.read", "/w/b", read), Scope: "scope", Turn: 2}, Outcome{})
		},
		"after its failed call": func(_ *testing.T, g *Gate, _ *Request) {
			_, _ = g.Reported(context.Background(), request(editOf("t", "/w/a")), false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := gateWith(true, answers(Ask))
				settle(t, g, request(editOf("t", "/w/a")), yes)
				r := request(fileCall("fs.write", "/w/a", write))
				change(t, g, &r)
				if d := settle(t, g, r, Outcome{}); d.Verdict != Ask {
					t.Errorf("got %v, want to ask", d.Verdict)
				}
			})
		})
	}
}

func TestReported_ComparesWithDecisions(t *testing.T) {
	yes := Outcome{Allowed: true, By: ByClient, Option: acp.AllowOnce}
	no := Outcome{By: ByClient, Option: acp.RejectOnce}
	type step struct {
		action *permissionv1.Action
		said   Outcome
	}
	tests := []struct {
		name      string
		policy    permissionv1.Verdict
		before    []step
		done      *permissionv1.Action
		want      permissionv1.Verdict // 0: nothing is said
		violation bool
		counted   string
	}{
		{name: "asked and allowed", policy: Ask, before: []step{{editOf("t", "/w/a"), yes}}, done: editOf("t", "/w/a")},
		{name: "allowed at door two", policy: Ask, before: []step{{fileCall("fs.write", "/w/a", write), yes}}, done: editOf("t", "/w/a")},
		{name: "refused at door two first, allowed then", policy: Ask,
			before: []step{{fileCall("fs.write", "/w/a", write), no}, {fileCall("fs.write", "/w/a", write), yes}}, done: editOf("t", "/w/a")},
		{name: "never asked, and allowed", policy: Allow, done: editOf("t", "/w/a"), counted: "allow"},
		{name: "never asked, and to be asked", policy: Ask, done: editOf("t", "/w/a"), want: Ask, counted: "ask"},
		{name: "never asked, and denied", policy: Deny, done: editOf("t", "/w/a"), want: Deny, counted: "deny"},
		{name: "only one of two files was allowed", policy: Ask, before: []step{{fileCall("fs.write", "/w/a", write), yes}},
			done: &permissionv1.Action{Kind: "tool.edit", ToolCallId: "t", Paths: []*permissionv1.PathAccess{
				{Path: "/w/a", ResolvedPath: "/w/a", Access: write}, {Path: "/w/b", ResolvedPath: "/w/b", Access: write}}}, want: Ask, counted: "ask"},
		{name: "refused at door one", policy: Ask, before: []step{{editOf("t", "/w/a"), no}}, done: editOf("t", "/w/a"), want: Deny, violation: true},
		{name: "refused at door two", policy: Deny, before: []step{{fileCall("fs.write", "/w/a", write), no}}, done: editOf("t", "/w/a"), want: Deny, violation: true},
		{name: "read, and denied", policy: Deny, done: readOf("/w/a"), want: Deny, counted: "deny"},
		{name: "read, and to be asked", policy: Ask, done: readOf("/w/a")},
		{name: "read, and allowed", policy: Allow, done: readOf("/w/a")},
		{name: "read after it was refused at door two", policy: Deny, before: []step{{fileCall("fs.read", "/w/a", read), no}}, done: readOf("/w/a")},
		{name: "searched for", policy: Deny, done: &permissionv1.Action{Kind: "tool.search", ToolCallId: "t"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := gateWith(true, answers(tt.policy))
			for _, s := range tt.before {
				settle(t, g, request(s.action), s.said)
			}
			var told []string
			g.opts.Denied = func(rec *supervisorv1.AuditRecord) { told = append(told, rec.GetOutcome()) }
			rep, err := g.Reported(t.Context(), request(tt.done), true)
			if err != nil {
				t.Fatal(err)
			}
			if denied := tt.counted == "deny"; denied != slices.Equal(told, []string{"done, not asked"}) || !denied && len(told) > 0 {
				t.Errorf("told as denied: %q", told)
			}
			var got permissionv1.Verdict
			if rep.Decision != nil {
				got = rep.Verdict
			}
			if got != tt.want || rep.Violation != tt.violation {
				t.Errorf("got %v, violation %v; want %v, %v", got, rep.Violation, tt.want, tt.violation)
			}
			if tt.counted != "" && g.Counters().GetUnasked()[tt.counted] != 1 {
				t.Errorf("counted %v", g.Counters().GetUnasked())
			}
			if again, _ := g.Reported(t.Context(), request(tt.done), true); again.Decision != nil {
				t.Error("the same tool call was reported twice")
			}
		})
	}
}

func TestReported_UsesDecisionsOfItsTurn(t *testing.T) {
	run := func() *permissionv1.Action {
		return commandOf("tool.execute", "t", "make", permissionv1.Door_DOOR_REQUEST)
	}
	for name, meanwhile := range map[string]func(*Gate){
		"nothing else happens":  func(*Gate) {},
		"the turn ends":         func(g *Gate) { g.EndTurn("scope") },
		"the session ends":      func(g *Gate) { g.EndSession("scope") },
		"the next turn decides": func(g *Gate) { g.EndTurn("scope"); g.Created("scope", 2, "terminal") },
	} {
		for said, want := range map[bool]string{true: "", false: "this was rejected, and the agent reports that it did it anyway"} {
			t.Run(fmt.Sprintf("%s, allowed: %v", name, said), func(t *testing.T) {
				g := gateWith(true, answers(Ask))
				settle(t, g, request(run()), Outcome{Allowed: said, By: ByClient})
				r := g.OfItsTurn(request(run()))
				meanwhile(g)
				rep, err := g.Reported(t.Context(), r, true)
				if err != nil {
					t.Fatal(err)
				}
				got := ""
				if rep.Decision != nil {
					got = rep.Reason
				}
				if got != want {
					t.Errorf("the report is told with %q, want %q", got, want)
				}
			})
		}
	}
}

func TestReported_ChecksReusedIDs(t *testing.T) {
	run := func(line string) *permissionv1.Action {
		return commandOf("tool.execute", "t", line, permissionv1.Door_DOOR_REQUEST)
	}
	for name, tt := range map[string]struct{ first, then *permissionv1.Action }{
		"another command":          {run("ls"), run("rm x")},
		"another file":             {editOf("t", "/w/a"), editOf("t", "/w/b")},
		"a write of what was read": {readOf("/w/a"), editOf("t", "/w/a")},
	} {
		t.Run(name, func(t *testing.T) {
			g := gateWith(true, answers(Deny))
			for _, a := range []*permissionv1.Action{tt.first, tt.then} {
				if rep, err := g.Reported(t.Context(), request(a), true); err != nil || rep.Decision == nil {
					t.Errorf("nothing is said of %v (%v)", a, err)
				}
			}
			if rep, _ := g.Reported(t.Context(), request(tt.first), true); rep.Decision != nil {
				t.Error("the first is told again")
			}
		})
	}
}

func TestReported_KnowsCommandByTerminal(t *testing.T) {
	for name, want := range map[string]permissionv1.Verdict{"made by a call that passed": 0, "of its own": Ask} {
		t.Run(name, func(t *testing.T) {
			g := gateWith(true, answers(Ask))
			if want == 0 {
				g.Created("scope", 1, "term")
			}
			r := request(&permissionv1.Action{Kind: "tool.execute", ToolCallId: "t"})
			r.Terminals = []string{"term"}
			rep, err := g.Reported(t.Context(), r, true)
			if err != nil {
				t.Fatal(err)
			}
			if got := rep.Decision; (got == nil) != (want == 0) {
				t.Errorf("got %+v", rep.Decision)
			}
		})
	}
}

func TestDecide_StrictestPolicyCounts(t *testing.T) {
	member := func(name string, p policy) Policy {
		return Policy{Name: name, Conn: func() (grpc.ClientConnInterface, error) { return p, nil }}
	}
	says := func(v permissionv1.Verdict, rule string, grantable bool, unattended permissionv1.Verdict) policy {
		return func(context.Context) (*permissionv1.DecideResponse, error) {
			return &permissionv1.DecideResponse{Verdict: v, Rule: rule, Grantable: grantable, Unattended: unattended, PolicyDigest: rule}, nil
		}
	}
	for _, tt := range []struct {
		name       string
		a, b       policy
		want       permissionv1.Verdict
		rule       string
		grantable  bool
		unattended permissionv1.Verdict
	}{
		{"both allow", says(Allow, "a", false, 0), says(Allow, "b", false, 0), Allow, "a", false, 0},
		{"one denies", says(Allow, "a", false, 0), says(Deny, "b", false, 0), Deny, "b", false, 0},
		{"deny is stricter than ask", says(Ask, "a", true, Allow), says(Deny, "b", false, 0), Deny, "b", false, 0},
		{"one asks", says(Ask, "a", true, Allow), says(Allow, "b", false, 0), Ask, "a", true, Allow},
		{"both ask, and one lets no grant answer", says(Ask, "a", true, Allow), says(Ask, "b", false, Deny), Ask, "a", false, Deny},
		{"one fails", says(Allow, "a", false, 0), fails, Deny, "", false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := New(Options{Chain: []Policy{member("one", tt.a), member("two", tt.b)}, Enforced: true, Logger: slog.New(slog.DiscardHandler)})
			d, err := g.Decide(t.Context(), request(editOf("t", "/w/a")))
			if err != nil || d.Verdict != tt.want || d.Rule != tt.rule || d.Grantable != tt.grantable || d.Unattended != tt.unattended {
				t.Errorf("got %+v, %v", d, err)
			}
		})
	}
}

func TestDecide_JoinsReasonsOfPolicies(t *testing.T) {
	asks := func(rule, reason string) Policy {
		return Policy{Name: rule, Conn: func() (grpc.ClientConnInterface, error) {
			return policy(func(context.Context) (*permissionv1.DecideResponse, error) {
				return &permissionv1.DecideResponse{Verdict: Ask, Rule: rule, Reason: reason}, nil
			}), nil
		}}
	}
	g := New(Options{Chain: []Policy{asks("a", "git push"), asks("b", "npm publish"), asks("c", "git push")}, Enforced: true, Logger: slog.New(slog.DiscardHandler)})
	d, err := g.Decide(t.Context(), request(editOf("t", "/w/a")))
	if err != nil {
		t.Fatal(err)
	}
	if want := "npm publish (rule b); git push (rule a)"; d.Why() != want {
		t.Errorf("got %q, want %q", d.Why(), want)
	}
	if want := "edit /w/a: npm publish (rule b); git push (rule a)"; d.Denial() != want {
		t.Errorf("got %q, want %q", d.Denial(), want)
	}
}

func TestDecision_WhyNamesRuleOnce(t *testing.T) {
	for _, tt := range []struct{ reason, rule, want string }{
		{"pushing is for a person.", "push", "pushing is for a person (rule push)"},
		{"", "push", "rule push"},
		{"no rule matches", "", "no rule matches"},
		{"denied by rule push", "push", "denied by rule push"},
		{"`git push` (command 2 of 2): denied by rule push", "push", "`git push` (command 2 of 2): denied by rule push"},
		{"rule push asks", "push", "rule push asks"},
		{"denied by rule push-all", "push", "denied by rule push-all (rule push)"},
		{"`a`: one (rule x); `b`: two (rule y)", "x", "`a`: one (rule x); `b`: two (rule y)"},
		{"`b`: two (rule y)", "x", "`b`: two (rule y) (rule x)"},
	} {
		if got := (&Decision{Reason: tt.reason, Rule: tt.rule}).Why(); got != tt.want {
			t.Errorf("%q by %q: got %q, want %q", tt.reason, tt.rule, got, tt.want)
		}
	}
}

func TestDecide_AppliesPolicyTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := policy(func(ctx context.Context) (*permissionv1.DecideResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		g := New(Options{Enforced: true, Logger: slog.New(slog.DiscardHandler), Chain: []Policy{
			{Name: "p", Timeout: time.Second, Conn: func() (grpc.ClientConnInterface, error) { return slow, nil }}}})
		started := time.Now()
		d, err := g.Decide(t.Context(), request(editOf("t", "/w/a")))
		if err != nil || d.Verdict != Deny || time.Since(started) != time.Second {
			t.Errorf("got %+v, %v after %v", d, err, time.Since(started))
		}
	})
}

func TestDecides_NeedsPolicy(t *testing.T) {
	with := gateWith(true, answers(Allow))
	without := gateWith(false, answers(Allow))
	for method, want := range map[string]bool{"fs/read_text_file": true, "terminal/create": true, "terminal/output": false, "_x/y": false} {
		if got := with.Decides(method, []string{"/w"}); got != want {
			t.Errorf("Decides(%q) = %v, want %v", method, got, want)
		}
		if without.Decides(method, []string{"/w"}) {
			t.Errorf("without a policy, door two decides about %s", method)
		}
	}
}
