package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"google.golang.org/grpc"
)

// gatedRig is a rig whose second door decides about files.
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

// line is what tests look at of a message.
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

func TestDoorTwoDecidesBeforeAHandlerIsCalled(t *testing.T) {
	r := gatedRig(t)
	r.handler.write = func(context.Context, *fsv1.WriteTextFileRequest) (*fsv1.WriteTextFileResponse, error) {
		t.Error("the handler was called")
		return &fsv1.WriteTextFileResponse{}, nil
	}
	r.handler.decide = answer(permissionv1.Verdict_VERDICT_DENY)
	r.open(`{}`)
	r.agent.send(fmt.Sprintf(writeCall, 1, 1))
	r.agent.wantError("1", -32603, "because (rule the-rule)")
	if told := r.front.next(); !strings.Contains(told, "because (rule the-rule)") {
		t.Errorf("the person is told %s", told)
	}
	r.down.Store(true)
	r.agent.send(fmt.Sprintf(writeCall, 2, 1))
	r.agent.wantError("2", -32603, "could not be asked")
}

func TestABadCallIsRefusedBeforeAnybodyIsAsked(t *testing.T) {
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

func TestAnExtensionOfTheFrontsPassesTheGateAsItCame(t *testing.T) {
	r := gatedRig(t)
	seen := make(chan *permissionv1.Action, 1)
	r.handler.decide = func(_ context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		seen <- a
		return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ALLOW}, nil
	}
	r.open(`{}`)
	odd := `{"id":"e" ,"method":"_x/y","params":{"sessionId":"s","n":1.50}}`
	r.agent.send(odd)
	r.front.want(odd)
	if a := <-seen; a.GetKind() != "_x/y" || a.GetDoor() != permissionv1.Door_DOOR_CALL {
		t.Errorf("the policy saw %v", a)
	}
	r.front.send(`{"id":"e","result":{}}`)
	r.agent.want(`{"id":"e","result":{}}`)
}

func TestAQuestionOfOursHasOneAnswerWhoeverGivesIt(t *testing.T) {
	r := gatedRig(t)
	r.open(`{}`)
	r.agent.send(fmt.Sprintf(writeCall, 1, 1))
	created := parse(t, r.front.next())
	asked := parse(t, r.front.next())
	if created.Params.Update.SessionUpdate != "tool_call" || created.Params.Update.ToolCallID != asked.Params.ToolCall.ToolCallID {
		t.Fatalf("got %+v, then %+v", created, asked)
	}
	if _, err := r.Answer(asked.ID, Answer{Option: gate.AllowOnce}, "somebody else"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Answer(asked.ID, Answer{Option: gate.RejectOnce}, "a third"); !errors.Is(err, ErrNotOpen) {
		t.Errorf("a second answer: %v, want ErrNotOpen", err)
	}
	if m := parse(t, r.front.next()); m.Method != "$/cancel_request" || string(m.Params.RequestID) != string(asked.ID) {
		t.Errorf("the front was told %+v", m)
	}
	r.front.send(choose(asked.ID, gate.RejectOnce)) // too late
	if m := parse(t, r.agent.next()); m.Error != nil || string(m.ID) != "1" {
		t.Errorf("the agent was answered %+v", m)
	}
	for _, want := range []string{"in_progress", "completed"} {
		if m := parse(t, r.front.next()); m.Params.Update.Status != want {
			t.Errorf("got %+v, want %s", m, want)
		}
	}
}

func TestAsksDoNotHoldUpWhatNeedsNoPerson(t *testing.T) {
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
		r.front.next()
	}
	r.agent.send(`{"id":"r","method":"fs/read_text_file","params":{"sessionId":"s","path":"/w/f"}}`)
	if m := parse(t, r.agent.next()); string(m.ID) != `"r"` || m.Error != nil {
		t.Errorf("a read behind eight questions was answered %+v", m)
	}
}

func TestEveryCallIsAnsweredOnceWhateverRaces(t *testing.T) {
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
	go func() { // the agent's end
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
	var front sync.WaitGroup
	front.Go(func() { // answers some, leaves some, answers some twice
		for asked := 0; ; {
			m := parse(t, r.front.next())
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
				r.front.send(choose(m.ID, gate.AllowOnce))
			case 1:
				r.front.send(choose(m.ID, gate.RejectOnce), choose(m.ID, gate.AllowOnce))
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
	case <-time.After(patience):
		t.Error("not every call was answered")
	}
	r.agent.send(`{"jsonrpc":"2.0","method":"_end"}`)
	front.Wait()
}
