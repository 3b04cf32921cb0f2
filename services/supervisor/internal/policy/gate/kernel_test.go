package gate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/audit"
)

// tries is a process action.
func tries(kind, path string) *permissionv1.Action {
	return &permissionv1.Action{
		Kind: kind, Door: permissionv1.Door_DOOR_KERNEL, SessionId: "s", Agent: "a", Roots: []string{"/w"}, ResolvedRoots: []string{"/w"},
		Paths: []*permissionv1.PathAccess{{Path: path, ResolvedPath: path, Access: permissionv1.Access_ACCESS_WRITE}},
	}
}

// runs is a process action that starts a command.
func runs(door permissionv1.Door, text string) *permissionv1.Action {
	kind := "terminal.create"
	if door == permissionv1.Door_DOOR_REQUEST {
		kind = "tool.execute"
	}
	return &permissionv1.Action{
		Kind: kind, Door: door, SessionId: "s", Agent: "a", Roots: []string{"/w"},
		Command: &permissionv1.Command{Text: text, Argv: strings.Fields(text), SubCommands: []*permissionv1.SubCommand{{Argv: strings.Fields(text)}}, Cwd: "/w"},
	}
}

func decide(t *testing.T, g *Gate, r Request) *Decision {
	t.Helper()
	d, err := g.Decide(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDecide_CoveredRefusesOnlyDenials(t *testing.T) {
	for name, c := range map[string]struct {
		gate    *Gate
		covered bool
		want    permissionv1.Verdict
	}{
		"the policy asks about the agent":                 {gateWith(true, answers(Ask)), false, Ask},
		"the policy asks about a command":                 {gateWith(true, answers(Ask)), true, Allow},
		"the policy denies a command":                     {gateWith(true, answers(Deny)), true, Deny},
		"the policy of a command cannot be reached":       {gateWith(true, fails), true, Deny},
		"the policy of the agent cannot be reached":       {gateWith(true, fails), false, Deny},
		"nobody has chosen a policy":                      {gateWith(false, answers(Ask)), false, Allow},
		"nobody has chosen a policy, and it is not there": {gateWith(false, fails), false, Allow},
		"there is no policy":                              {New(Options{Logger: slog.New(slog.DiscardHandler)}), false, Allow},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(t, c.gate, Request{Action: tries("fs.write", "/x"), Scope: "1", Covered: c.covered})
			if d.Verdict != c.want {
				t.Errorf("got %v, want %v", d.Verdict, c.want)
			}
			if d.By == ByCommand && d.Rule != "" {
				t.Errorf("what the command does is allowed by the rule %q, which asks", d.Rule)
			}
			a := tries("fs.write", "/own")
			a.Paths[0].Protected = true
			if d := decide(t, c.gate, Request{Action: a, Scope: "1", Covered: c.covered}); d.Verdict != Deny || d.Rule != RuleProtected {
				t.Errorf("acphost's own file: got %v by %s", d.Verdict, d.Rule)
			}
		})
	}
}

// asksBy answers that a rule asks; empty: no rule matches.
func asksBy(rule string, processes bool) policy {
	return func(context.Context) (*permissionv1.DecideResponse, error) {
		return &permissionv1.DecideResponse{Verdict: Ask, Rule: rule, Processes: processes}, nil
	}
}

func TestDecide_EffectsOfProcesses(t *testing.T) {
	start := tries("terminal.create", "make")
	connect := &permissionv1.Action{
		Door: permissionv1.Door_DOOR_KERNEL, Kind: "net.connect", Endpoint: &permissionv1.Endpoint{Host: "1.1.1.1", Port: 443},
	}
	for name, c := range map[string]struct {
		action    *permissionv1.Action
		rule      string
		processes bool
		proxied   bool
		want      permissionv1.Verdict
		by        string
	}{
		"a start that no rule names":            {start, "", false, false, Allow, ByAcphost},
		"the same with rules for processes":     {start, "", true, false, Allow, ByAcphost},
		"a start that a rule asks about":        {start, "r", false, false, Ask, ByPolicy},
		"a read":                                {tries("fs.read", "/x"), "r", false, false, Allow, ByCommand},
		"a read with rules for processes":       {tries("fs.read", "/x"), "r", true, false, Ask, ByPolicy},
		"a change":                              {tries("fs.write", "/x"), "", false, false, Ask, ByPolicy},
		"a connection":                          {connect, "r", false, false, Allow, ByCommand},
		"a connection through the proxy":        {connect, "r", false, true, Ask, ByPolicy},
		"a connection with rules for processes": {connect, "r", true, false, Ask, ByPolicy},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(t, gateWith(true, asksBy(c.rule, c.processes)), Request{Action: c.action, Scope: "1", Proxied: c.proxied})
			if d.Verdict != c.want || d.By != c.by || d.AllowsCommand() {
				t.Errorf("got %v by %s, allows a command: %t; want %v by %s", d.Verdict, d.By, d.AllowsCommand(), c.want, c.by)
			}
		})
	}
}

func TestDecide_AnswerAppliesToNextTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateWith(true, answers(Ask))
		ask := func(a *permissionv1.Action, turn uint64) *Decision {
			return decide(t, g, Request{Action: a, Scope: "1", Turn: turn})
		}
		say := func(d *Decision, allowed bool, option string) {
			if err := g.Record(d, Outcome{Allowed: allowed, Option: option, By: ByClient}); err != nil {
				t.Fatal(err)
			}
		}
		d := ask(tries("fs.write", "/x"), 1)
		say(d, true, "allow_once")
		for range 2 { // a file is opened and changed by several calls
			if d := ask(tries("fs.write", "/x"), 2); d.Verdict != Allow || !d.Settled() {
				t.Errorf("the next try: got %v", d.Verdict)
			}
		}
		if d := ask(tries("fs.write", "/x"), 3); d.Verdict != Ask {
			t.Errorf("the turn after: got %v", d.Verdict)
		}
		if d := ask(tries("fs.write", "/y"), 2); d.Verdict != Ask {
			t.Errorf("another file: got %v", d.Verdict)
		}
		say(ask(runs(permissionv1.Door_DOOR_KERNEL, "make x"), 3), true, "allow_once")
		if d := ask(runs(permissionv1.Door_DOOR_KERNEL, "make x"), 3); d.Verdict != Allow {
			t.Errorf("a command: got %v", d.Verdict)
		}
		if d := ask(runs(permissionv1.Door_DOOR_KERNEL, "make x"), 3); d.Verdict != Ask {
			t.Errorf("a command, once more: got %v", d.Verdict)
		}
		say(ask(tries("fs.write", "/z"), 3), false, "reject_once")
		if d := ask(tries("fs.write", "/z"), 4); d.Verdict != Deny {
			t.Errorf("after a refusal: got %v", d.Verdict)
		}
		time.Sleep(answerLife + time.Second)
		if d := ask(tries("fs.write", "/z"), 4); d.Verdict != Ask {
			t.Errorf("long after a refusal: got %v", d.Verdict)
		}
		if err := g.Record(ask(tries("fs.write", "/u"), 4), Outcome{Allowed: true, By: ByTimeout}); err != nil {
			t.Fatal(err)
		}
		if d := ask(tries("fs.write", "/u"), 4); d.Verdict != Allow {
			t.Errorf("after nobody was there, and the policy lets it pass: got %v", d.Verdict)
		}
		say(ask(tries("fs.write", "/v"), 4), true, "allow_once")
		g.EndSession("1")
		if d := ask(tries("fs.write", "/v"), 4); d.Verdict != Ask {
			t.Errorf("in another session: got %v", d.Verdict)
		}
	})
}

// TestDecide_AnswerAppliesToSameContent: a question names what the content of a file would change.
func TestDecide_AnswerAppliesToSameContent(t *testing.T) {
	g := gateWith(true, answers(Ask))
	ask := func(content string) *Decision {
		return decide(t, g, Request{Action: tries("fs.write", "/w/.git/config"), Scope: "1", Turn: 1, Content: content})
	}
	first := ask("a")
	if err := g.Record(first, Outcome{Allowed: true, Option: "allow_once", By: ByClient}); err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]permissionv1.Verdict{"a": Allow, "b": Ask, "": Ask} {
		if d := ask(content); d.Verdict != want {
			t.Errorf("content %q: got %v, want %v", content, d.Verdict, want)
		}
	}
	if ask("b").Key() == first.Key() {
		t.Error("a question about another content counts as asked already")
	}
}

// A process action cannot wait for an answer, so that an allowing answer applies to the next try.
func TestRecord_ProcessActionWasRefusedBeforeItWasAllowed(t *testing.T) {
	for name, c := range map[string]struct {
		outcome       Outcome
		first, second string
		counted       [2]uint64 // allowed and denied calls
	}{
		"a person allows":             {Outcome{Allowed: true, Option: "allow_once", By: ByClient}, outcomeNextTry, "allowed", [2]uint64{1, 1}},
		"unattended, and it is allow": {Outcome{Allowed: true, By: ByTimeout}, outcomeNextTry, "allowed", [2]uint64{1, 1}},
		"a person rejects":            {Outcome{Option: "reject_once", By: ByClient}, "denied", "denied", [2]uint64{0, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			asks := answers(Ask)
			g := New(Options{
				Chain:    []Policy{{Name: "p", Conn: func() (grpc.ClientConnInterface, error) { return asks, nil }}},
				Enforced: true, Logger: slog.New(slog.DiscardHandler),
				Decided: func(rec *supervisorv1.AuditRecord) { got = append(got, rec.GetOutcome()) },
			})
			try := func() *Decision {
				return decide(t, g, Request{Action: tries("fs.write", "/x"), Scope: "1", Turn: 1})
			}
			if err := g.Record(try(), c.outcome); err != nil {
				t.Fatal(err)
			}
			second := try()
			if second.Verdict == Allow {
				if err := g.RecordAllowed(second, "/bin/cc"); err != nil {
					t.Fatal(err)
				}
			} else if err := g.Record(second, Outcome{}); err != nil {
				t.Fatal(err)
			}
			if want := []string{c.first, c.second}; !slices.Equal(got, want) {
				t.Errorf("outcomes = %q, want %q", got, want)
			}
			if n := g.Counters(); [2]uint64{n.GetCallsAllowed(), n.GetCallsDenied()} != c.counted {
				t.Errorf("calls allowed and denied = %d, %d, want %v", n.GetCallsAllowed(), n.GetCallsDenied(), c.counted)
			}
		})
	}
}

func TestDecide_DenialOverridesAnswer(t *testing.T) {
	verdict := Ask
	g := gateWith(true, func(context.Context) (*permissionv1.DecideResponse, error) {
		return &permissionv1.DecideResponse{Verdict: verdict}, nil
	})
	d := decide(t, g, Request{Action: tries("fs.write", "/x"), Scope: "1"})
	if err := g.Record(d, Outcome{Allowed: true, Option: "allow_once"}); err != nil {
		t.Fatal(err)
	}
	verdict = Deny
	if d := decide(t, g, Request{Action: tries("fs.write", "/x"), Scope: "1"}); d.Verdict != Deny {
		t.Errorf("got %v", d.Verdict)
	}
}

func TestDecide_AllowedRequestCoversProcessAction(t *testing.T) {
	g := gateWith(true, answers(Ask))
	asked := decide(t, g, Request{Action: runs(permissionv1.Door_DOOR_REQUEST, "make x"), Scope: "1", Turn: 1})
	asked.Shown.Command = true
	if err := g.Record(asked, Outcome{Allowed: true, Option: "allow_once", By: ByClient}); err != nil {
		t.Fatal(err)
	}
	wrapped := runs(permissionv1.Door_DOOR_KERNEL, "bash -c source")
	if d := decide(t, g, Request{Action: wrapped, Scope: "1", Turn: 1}); d.Verdict != Ask {
		t.Errorf("another command: got %v", d.Verdict)
	}
	if d := decide(t, g, Request{Action: wrapped, Inner: runs(permissionv1.Door_DOOR_KERNEL, "make x"), Scope: "1", Turn: 1}); d.Verdict != Allow {
		t.Errorf("the command in a wrapping: got %v", d.Verdict)
	}
	if d := decide(t, g, Request{Action: runs(permissionv1.Door_DOOR_KERNEL, "make x"), Scope: "1", Turn: 1}); d.Verdict != Ask {
		t.Errorf("the command once more: got %v", d.Verdict)
	}
}

// recording is a gate with a policy that allows everything, with its audit log and the file of the log.
func recording(t *testing.T) (*Gate, *audit.Log, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	log, err := audit.Open(audit.Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	allows := answers(Allow)
	return New(Options{
		Chain:    []Policy{{Name: "p", Conn: func() (grpc.ClientConnInterface, error) { return allows, nil }}},
		Enforced: true, Audit: log, Logger: slog.New(slog.DiscardHandler),
	}), log, file
}

func TestRecordAllowed_CountsRepeats(t *testing.T) {
	g, log, file := recording(t)
	for _, path := range []string{"/w/a", "/w/b", "/w/c", "/w/d/e"} {
		if err := g.RecordAllowed(decide(t, g, Request{Action: tries("fs.write", path), Scope: "1", Turn: 1}), "/bin/cc"); err != nil {
			t.Error(err)
		}
	}
	g.EndTurn("1")
	g.Close()
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(data, []byte("\n")); lines != 3 || !bytes.Contains(data, []byte(`"repeats":"2"`)) {
		t.Errorf("got %d lines, want one for each folder and one with the count:\n%s", lines, data)
	}
}

func TestCountDenied_RecordsCountOfEachAction(t *testing.T) {
	g, log, file := recording(t)
	for _, line := range []string{"git push a", "git push b", "git push a", "git push a"} {
		d := decide(t, g, Request{Action: runs(permissionv1.Door_DOOR_KERNEL, line), Scope: "1", Turn: 1})
		d.Verdict, d.Rule, d.Reason = Deny, "publish", "no"
		g.CountDenied(d, "")
	}
	g.EndTurn("1")
	g.Close()
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	got := map[string]bool{}
	for r, err := range audit.Read(file, audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		got[fmt.Sprint(r.GetAction().GetCommand().GetText(), ": ", r.GetOutcome(), " ", r.GetRepeats())] = true
	}
	if want := map[string]bool{"git push a: denied 3": true, "git push b: denied 1": true}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRecordAllowed_RecordsEachStartedProgram(t *testing.T) {
	g, log, file := recording(t)
	for _, line := range []string{"sh build.sh", "cc -c a.c", "cc -c b.c", "cc -c c.c", "/w/x"} {
		if err := g.RecordAllowed(decide(t, g, Request{Action: runs(permissionv1.Door_DOOR_KERNEL, line), Scope: "1", Turn: 1}), "/bin/sh"); err != nil {
			t.Error(err)
		}
	}
	g.EndTurn("1")
	g.Close()
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	var got []string
	for r, err := range audit.Read(file, audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(r.GetAction().GetCommand().GetText(), " ", r.GetRepeats()))
	}
	if want := []string{"sh build.sh 0", "cc -c a.c 0", "/w/x 0", "cc -c a.c 2"}; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestRecordAllowed_ReturnsWriteError(t *testing.T) {
	log, err := audit.Open(audit.Options{File: filepath.Join(t.TempDir(), "audit.jsonl")})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	allows := answers(Allow)
	g := New(Options{
		Chain:    []Policy{{Name: "p", Conn: func() (grpc.ClientConnInterface, error) { return allows, nil }}},
		Enforced: true, Audit: log, Logger: slog.New(slog.DiscardHandler),
	})
	for range 2 {
		if err := g.RecordAllowed(decide(t, g, Request{Action: tries("fs.write", "/w/a"), Scope: "1"}), "/bin/cc"); !errors.Is(err, audit.ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
	g.Close()
}

func TestRecord_LimitsLogOfWriteErrors(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "state")
	log, err := audit.Open(audit.Options{File: filepath.Join(folder, "audit.jsonl")})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	var said bytes.Buffer
	now, allows := time.Unix(1700000000, 0), answers(Allow)
	g := New(Options{
		Chain:    []Policy{{Name: "p", Conn: func() (grpc.ClientConnInterface, error) { return allows, nil }}},
		Enforced: true, Audit: log, Logger: slog.New(slog.NewTextHandler(&said, nil)), Now: func() time.Time { return now },
	})
	defer g.Close()
	expect := func(n int, fails bool, want string) {
		t.Helper()
		said.Reset()
		for i := range n {
			err := g.RecordAllowed(decide(t, g, Request{Action: tries("fs.write", fmt.Sprintf("/w/%d/a", i)), Scope: "1"}), "/bin/cc")
			if (err != nil) != fails {
				t.Fatal(err)
			}
		}
		if lines := strings.Count(said.String(), "\n"); !strings.Contains(said.String(), want) || want == "" && lines > 0 || lines > 1 {
			t.Errorf("the log has %d lines, want one with %q:\n%s", lines, want, said.String())
		}
	}
	// Like a full disk, but for root, too: a file replaces the folder.
	if err := errors.Join(os.RemoveAll(folder), os.WriteFile(folder, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	expect(500, true, "a decision could not be recorded; further ones are counted")
	now = now.Add(30 * time.Second)
	expect(7, true, "")
	now = now.Add(31 * time.Second)
	expect(100, true, "unlogged=506")
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	expect(3, false, "decisions are recorded again\" unlogged=99")
}

func TestProcessBehind_AppliesRulesOfGate(t *testing.T) {
	file := func(kind string, internal bool) *permissionv1.Action {
		return &permissionv1.Action{Kind: kind, Door: permissionv1.Door_DOOR_KERNEL, Paths: []*permissionv1.PathAccess{
			{Path: "/w/x", ResolvedPath: "/w/x", Access: permissionv1.Access_ACCESS_WRITE, GitInternal: internal}}}
	}
	socket := file("net.connect", false)
	for name, tt := range map[string]struct {
		action *permissionv1.Action
		said   *permissionv1.DecideResponse
		want   permissionv1.Verdict // unspecified: the policy's
	}{
		"git, without rules for processes": {file("fs.write", true), &permissionv1.DecideResponse{Verdict: Allow}, Deny},
		"git, with rules for processes":    {file("fs.write", true), &permissionv1.DecideResponse{Verdict: Ask, Processes: true}, 0},
		"a read without such rules":        {file("fs.read", false), &permissionv1.DecideResponse{Verdict: Ask}, Allow},
		"a read that is denied":            {file("fs.read", false), &permissionv1.DecideResponse{Verdict: Deny}, 0},
		"a write":                          {file("fs.write", false), &permissionv1.DecideResponse{Verdict: Ask}, 0},
		"a socket":                         {socket, &permissionv1.DecideResponse{Verdict: Ask}, Allow},
		"a socket that a rule names":       {socket, &permissionv1.DecideResponse{Verdict: Ask, NamesPaths: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ProcessBehind(tt.action, tt.said); (got == nil) != (tt.want == 0) || got != nil && got.Verdict != tt.want {
				t.Errorf("got %+v, want %v", got, tt.want)
			}
		})
	}
}
