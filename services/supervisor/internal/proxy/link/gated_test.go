package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/testkit"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
	"github.com/acphost/acphost/services/supervisor/internal/question"
)

// gatedRig is a rig whose gate decides about calls on files.
func gatedRig(t *testing.T, change ...func(*Options)) *rig {
	t.Helper()
	var r *rig
	dial := func() (grpc.ClientConnInterface, error) { return r.opts.Conn("permission") }
	r = newRig(t, append([]func(*Options){func(o *Options) {
		o.Gate = gate.New(gate.Options{
			Chain: []gate.Policy{{Name: "permission", Conn: dial}}, Enforced: true, Methods: []string{"fs/*", "_x/*"}, Logger: o.Logger,
		})
	}}, change...)...)
	return r
}

const writeCall = `{"jsonrpc":"2.0","id":%d,"method":"fs/write_text_file","params":{"sessionId":"s","path":"/w/f%d","content":"x"}}`

// line has the fields of a message that tests check.
type line struct {
	ID     json.RawMessage
	Method string
	Params struct {
		RequestID json.RawMessage
		ToolCall  struct{ ToolCallID string }
		Update    struct{ SessionUpdate, ToolCallID, Status string }
		Options   []struct{ OptionID string }
	}
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

func parse(t *testing.T, text string) line {
	t.Helper()
	var l line
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return l
}

func choose(id json.RawMessage, option string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"selected","optionId":%q}}}`, id, option)
}

func TestCall_IsDecidedBeforeHandler(t *testing.T) {
	r := gatedRig(t)
	r.handler.write = func(context.Context, *fsv1.WriteTextFileRequest) (*fsv1.WriteTextFileResponse, error) {
		t.Error("the handler was called")
		return &fsv1.WriteTextFileResponse{}, nil
	}
	r.handler.decide = answer(permissionv1.Verdict_VERDICT_DENY)
	r.open(`{}`)
	r.agent.send(fmt.Sprintf(writeCall, 1, 1))
	r.agent.wantError("1", -32603, "because (rule the-rule)")
	if told := r.client.next(); !strings.Contains(told, "because (rule the-rule)") {
		t.Errorf("the person is told %s", told)
	}
	r.down.Store(true)
	r.agent.send(fmt.Sprintf(writeCall, 2, 1))
	r.agent.wantError("2", -32603, "handler fs is in backoff")
}

func TestPermissionRequest_ReadsFileForDiff(t *testing.T) {
	question := strings.Replace(askedEdit, `{"toolCallId":"t"}`, `{"toolCallId":"t","kind":"edit","content":[{"type":"diff","path":"/w/link","oldText":"old","newText":"new"}]}`, 1)
	lead := func(o *Options) {
		o.Place = func(context.Context, string, *paths.Cache) PlaceFunc {
			return func(path string) intent.Place {
				return intent.Place{Resolved: strings.Replace(path, "link", "file", 1), Inside: true}
			}
		}
	}
	for name, tt := range map[string]struct {
		rig     func(*testing.T, ...func(*Options)) *rig
		verdict permissionv1.Verdict
		want    string
	}{
		"a question that is asked":   {gatedRig, permissionv1.Verdict_VERDICT_ASK, "/w/link, which leads to /w/file"},
		"a question that is allowed": {gatedRig, permissionv1.Verdict_VERDICT_ALLOW, "/w/link, which leads to /w/file"},
		"a question that is denied":  {gatedRig, permissionv1.Verdict_VERDICT_DENY, ""},
		"where no write is decided":  {newRig, permissionv1.Verdict_VERDICT_ASK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := tt.rig(t, lead)
			read := make(chan string, 1)
			r.handler.decide = answer(tt.verdict)
			r.handler.read = func(_ context.Context, q *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
				read <- q.GetPath() + ", which leads to " + q.GetContext().GetResolvedPath().GetPath()
				return &fsv1.ReadTextFileResponse{Content: "old"}, nil
			}
			r.open(`{}`)
			r.agent.send(question)
			if tt.verdict == permissionv1.Verdict_VERDICT_ASK {
				r.client.want(question)
				r.client.send(`{"id":7,"result":{"outcome":{"outcome":"selected","optionId":"a"}}}`)
			}
			r.agent.next()
			got := ""
			select {
			case got = <-read: // what is read is read before the answer
			default:
			}
			if got != tt.want {
				t.Errorf("the handler read %q, want %q", got, tt.want)
			}
		})
	}
}

// A program may write to the file after it was compared with the shown content, and before the handler writes.
func TestAskedWrite_ExpectsShownFile(t *testing.T) {
	r := gatedRig(t)
	r.handler.read = func(_ context.Context, q *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
		res := &fsv1.ReadTextFileResponse{Content: "old"}
		if !q.GetContext().GetNoDigest() {
			res.Result = &acpv1.CallResult{Digest: "sha256:old"}
		}
		return res, nil
	}
	expected := make(chan string, 1)
	r.handler.write = func(_ context.Context, q *fsv1.WriteTextFileRequest) (*fsv1.WriteTextFileResponse, error) {
		expected <- q.GetContext().GetExpectedDigest()
		return &fsv1.WriteTextFileResponse{}, nil
	}
	r.open(`{}`)
	r.agent.send(fmt.Sprintf(writeCall, 1, 1))
	r.client.send(choose(r.asked().ID, acp.AllowOnce))
	if got := <-expected; got != "sha256:old" {
		t.Errorf("the handler is told to expect the content %q", got)
	}
	r.agent.next()
}

func TestDeny_NamesFileAndRule(t *testing.T) {
	const subject, deny = "write /w/f1 (where it leads is not known): ", "because (rule the-rule)"
	for name, tt := range map[string]struct {
		verdict permissionv1.Verdict
		choose  string
		agent   string
		told    string // "": the person knows
	}{
		"a rule denies it":     {permissionv1.Verdict_VERDICT_DENY, "", subject + deny, subject + deny},
		"a person refuses it":  {permissionv1.Verdict_VERDICT_ASK, acp.RejectOnce, subject + "the user rejected this", ""},
		"nobody could be told": {permissionv1.Verdict_VERDICT_ASK, "nonsense", subject + "the client could not ask the user: ", subject + "the client could not ask the user"},
	} {
		t.Run(name, func(t *testing.T) {
			r := gatedRig(t)
			r.handler.decide = answer(tt.verdict)
			r.open(`{}`)
			r.agent.send(fmt.Sprintf(writeCall, 1, 1))
			if tt.choose != "" {
				r.client.send(choose(r.asked().ID, tt.choose))
			}
			r.agent.wantError("1", -32603, "denied: "+tt.agent)
			for tt.told != "" {
				if told := r.client.next(); strings.Contains(told, deniedTitle) {
					if !strings.Contains(told, tt.told) {
						t.Errorf("the person is told %s", told)
					}
					break
				}
			}
		})
	}
}

func TestOwnCall_ShowsReasonBeforeCommand(t *testing.T) {
	r := gatedRig(t)
	d := &gate.Decision{Reason: "`b` (command 2 of 2): no rule matches", Detail: "more"}
	command := &permissionv1.Action{Kind: "terminal.create", Command: &permissionv1.Command{Text: "a; b", Cwd: "/w"}}
	g := &heldCall{call: &agentCall{sessionID: "s"}, params: []byte(`{"content":"x"}`)}
	want := `[{"type":"content","content":{"type":"text","text":"Asked because: ` + "`b`" + ` (command 2 of 2): no rule matches"}},` +
		`{"type":"content","content":{"type":"text","text":"` + "```sh" + `\na; b\n# in /w\n` + "```" + `"}}]`
	shown := r.newOwnCall(t.Context(), g, d, command)
	if got := string(shown.content); got != want {
		t.Errorf("a command is shown as\n%s\nwant\n%s", got, want)
	}
	if got := string(shown.question(d, nil)); !strings.HasSuffix(got, `,"_meta":{"acphost.detail":"more"}}`) || strings.Contains(want, "more") {
		t.Errorf("got %s, want the detail apart from what is shown", got)
	}
	write := &permissionv1.Action{Kind: "fs.write", Paths: []*permissionv1.PathAccess{{Path: "/w/a"}}}
	if got := string(r.newOwnCall(t.Context(), g, d, write).content); !strings.HasPrefix(got, `[{"type":"content","content":{"type":"text","text":"Asked because: `+"`b`") ||
		!strings.Contains(got, `{"type":"diff"`) {
		t.Errorf("a write is shown as %s", got)
	}
}

func TestCall_InvalidParamsAreNotAsked(t *testing.T) {
	r := gatedRig(t)
	r.handler.decide = func(context.Context, *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		t.Error("the policy was asked")
		return nil, context.Canceled
	}
	r.open(`{}`)
	r.agent.send(`{"id":1,"method":"fs/write_text_file","params":{"sessionId":"s","path":"/w/f","Path":"/etc/passwd","content":"x"}}`)
	r.agent.wantError("1", -32600, "")
	r.agent.send(`{"id":2,"method":"fs/write_text_file","params":{"sessionId":"s","path":5,"content":"x"}}`)
	r.agent.wantError("2", -32602, "path")
}

func TestCall_ClientExtensionIsForwardedUnchanged(t *testing.T) {
	r := gatedRig(t)
	seen := make(chan *permissionv1.Action, 1)
	r.handler.decide = func(_ context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		seen <- a
		return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ALLOW}, nil
	}
	r.open(`{}`)
	odd := `{"id":"e" ,"method":"_x/y","params":{"sessionId":"s","n":1.50}}`
	r.agent.send(odd)
	r.client.want(odd)
	if a := <-seen; a.GetKind() != "_x/y" || a.GetDoor() != permissionv1.Door_DOOR_CALL {
		t.Errorf("the policy saw %v", a)
	}
	r.client.send(`{"id":"e","result":{}}`)
	r.agent.want(`{"id":"e","result":{}}`)
}

func TestOwnQuestion_HasOneAnswer(t *testing.T) {
	r := gatedRig(t)
	r.open(`{}`)
	r.agent.send(fmt.Sprintf(writeCall, 1, 1))
	created := parse(t, r.client.next())
	asked := parse(t, r.client.next())
	if created.Params.Update.SessionUpdate != "tool_call" || created.Params.Update.ToolCallID != asked.Params.ToolCall.ToolCallID {
		t.Fatalf("got %+v, then %+v", created, asked)
	}
	if _, err := r.Answer(asked.ID, question.Answer{Option: acp.AllowOnce}, "somebody else"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Answer(asked.ID, question.Answer{Option: acp.RejectOnce}, "a third"); !errors.Is(err, question.ErrNotOpen) {
		t.Errorf("a second answer: %v, want question.ErrNotOpen", err)
	}
	if m := parse(t, r.client.next()); m.Method != "$/cancel_request" || string(m.Params.RequestID) != string(asked.ID) {
		t.Errorf("the client was told %+v", m)
	}
	r.client.send(choose(asked.ID, acp.RejectOnce)) // too late
	if m := parse(t, r.agent.next()); m.Error != nil || string(m.ID) != "1" {
		t.Errorf("the agent was answered %+v", m)
	}
	for _, want := range []string{"in_progress", "completed"} {
		if m := parse(t, r.client.next()); m.Params.Update.Status != want {
			t.Errorf("got %+v, want %s", m, want)
		}
	}
}

func TestOwnQuestion_DoesNotBlockOtherCalls(t *testing.T) {
	r := gatedRig(t, func(o *Options) { o.Limits.MaxWorkers = 2 })
	r.handler.decide = func(_ context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		v := permissionv1.Verdict_VERDICT_ALLOW
		if a.GetKind() == "fs.write" {
			v = permissionv1.Verdict_VERDICT_ASK
		}
		return &permissionv1.DecideResponse{Verdict: v}, nil
	}
	r.open(`{}`)
	for i := range 8 {
		r.agent.send(fmt.Sprintf(writeCall, i, i))
	}
	for range 16 {
		r.client.next()
	}
	r.agent.send(`{"id":"r","method":"fs/read_text_file","params":{"sessionId":"s","path":"/w/f"}}`)
	if m := parse(t, r.agent.next()); string(m.ID) != `"r"` || m.Error != nil {
		t.Errorf("a read behind eight questions was answered %+v", m)
	}
}

func TestCall_IsAnsweredOnce(t *testing.T) {
	const calls = 200
	r := gatedRig(t)
	var written sync.Map
	r.handler.write = func(_ context.Context, w *fsv1.WriteTextFileRequest) (*fsv1.WriteTextFileResponse, error) {
		if _, twice := written.LoadOrStore(w.GetPath(), true); twice {
			t.Errorf("%s was written twice", w.GetPath())
		}
		return &fsv1.WriteTextFileResponse{}, nil
	}
	r.open(`{}`)
	done := make(chan map[string]int)
	go func() { // the agent's side
		answers := map[string]int{}
		for range calls {
			m := parse(t, r.agent.next())
			answers[string(m.ID)]++
			if m.Error != nil && m.Error.Code != -32800 && m.Error.Code != -32603 {
				t.Errorf("call %s was answered %+v", m.ID, m.Error)
			}
		}
		done <- answers
	}()
	var client sync.WaitGroup
	client.Go(func() { // answers some questions, leaves some open, and answers some twice
		for asked := 0; ; {
			m := parse(t, r.client.next())
			switch m.Method {
			case "_end":
				return
			case "session/request_permission":
				asked++
			default:
				continue
			}
			switch asked % 4 {
			case 0, 2:
				r.client.send(choose(m.ID, acp.AllowOnce))
			case 1:
				r.client.send(choose(m.ID, acp.RejectOnce), choose(m.ID, acp.AllowOnce))
			}
		}
	})
	withdraw := func(i int) {
		r.agent.send(fmt.Sprintf(`{"method":"$/cancel_request","params":{"requestId":%d}}`, i))
	}
	for i := range calls {
		r.agent.send(fmt.Sprintf(writeCall, i, i))
		if i%2 == 1 {
			withdraw(i - 1)
		}
	}
	for i := range calls {
		withdraw(i)
	}
	select {
	case answers := <-done:
		for id, n := range answers {
			if n != 1 {
				t.Errorf("call %s was answered %d times", id, n)
			}
		}
	case <-testkit.After():
		t.Error("not every call was answered")
	}
	r.agent.send(`{"jsonrpc":"2.0","method":"_end"}`)
	client.Wait()
}
