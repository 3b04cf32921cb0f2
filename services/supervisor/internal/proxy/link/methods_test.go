package link

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/testkit"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
)

// namesOf are the names by which peers may call a method, its own first: the names in the table, and other spellings of each.
func namesOf(method string) []string {
	names := append([]string{method}, acp.OtherNames(method)...)
	for _, name := range names {
		space, rest, _ := strings.Cut(name, "/")
		camel := ""
		for i, word := range strings.Split(rest, "_") {
			if i > 0 && word != "" {
				word = strings.ToUpper(word[:1]) + word[1:]
			}
			camel += word
		}
		if rest != "" {
			names = append(names, space+"/"+camel, space+"."+rest, strings.ToUpper(space)+"/"+rest)
		}
		names = append(names, strings.ToUpper(name), strings.NewReplacer("k", "\u212a", "s", "\u017f").Replace(name))
	}
	return names
}

// policyRig is a rig whose policy decides about files and commands, as in the default configuration. toClient: the client answers them.
func policyRig(t *testing.T, verdict permissionv1.Verdict, toClient bool) *rig {
	t.Helper()
	r := gatedRig(t, func(o *Options) {
		conn := o.Conn
		o.Gate = gate.New(gate.Options{
			Chain:    []gate.Policy{{Name: "permission", Conn: func() (grpc.ClientConnInterface, error) { return conn("permission") }}},
			Enforced: true, Methods: []string{"fs/*", "terminal/create", "terminal/run"}, Logger: o.Logger,
		})
		if toClient {
			o.Ready = func(context.Context) (*route.Table, error) {
				return route.Build(nil, map[string]string{"fs/*": "front", "terminal/*": "front"})
			}
		}
	})
	r.handler.decide = answer(verdict)
	r.open(`{}`)
	return r
}

func TestMethodNames_AreDecided(t *testing.T) {
	for method, params := range map[string]string{
		acp.MethodReadTextFile:   `"path":"/w/f"`,
		acp.MethodWriteTextFile:  `"path":"/w/f","content":"x"`,
		acp.MethodListDirectory:  `"path":"/w"`,
		acp.MethodTerminalCreate: `"command":"ls"`,
		acp.MethodTerminalRun:    `"command":"ls"`,
	} {
		for _, toClient := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, at the client: %v", method, toClient), func(t *testing.T) {
				r := policyRig(t, permissionv1.Verdict_VERDICT_DENY, toClient)
				refuse := func(what string) { t.Errorf("the handler was called: %s", what) }
				r.handler.read = func(_ context.Context, m *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
					refuse(m.String())
					return &fsv1.ReadTextFileResponse{}, nil
				}
				r.handler.write = func(_ context.Context, m *fsv1.WriteTextFileRequest) (*fsv1.WriteTextFileResponse, error) {
					refuse(m.String())
					return &fsv1.WriteTextFileResponse{}, nil
				}
				for i, name := range namesOf(method) {
					id := fmt.Sprint(i)
					message := fmt.Sprintf(`"method":%q,"params":{"sessionId":"s",%s,"extra":[1]}}`, name, params)
					r.agent.send(`{"jsonrpc":"2.0",` + message) // it could not be answered
					r.agent.send(`{"jsonrpc":"2.0","id":` + id + `,` + message)
					r.agent.wantError(id, -32603, method+": denied")
					if i == 0 { // equal denials are notified once
						r.client.next()
					}
				}
				mark := `{"jsonrpc":"2.0","method":"_mark","params":{}}`
				r.agent.send(mark)
				r.client.want(mark) // no message precedes it
			})
		}
	}
}

func TestMethodNames_AreRouted(t *testing.T) {
	for _, policy := range []bool{true, false} {
		for method, want := range map[string]struct{ params, result string }{
			acp.MethodReadTextFile:  {`"path":"/w/f"`, `{"content":"text"}`},
			acp.MethodWriteTextFile: {`"path":"/w/f","content":"x"`, `{}`},
			acp.MethodTerminalWait:  {`"terminalId":"t"`, `{"exitCode":3}`},
		} {
			t.Run(fmt.Sprintf("%s, policy: %v", method, policy), func(t *testing.T) {
				var r *rig
				if policy {
					r = policyRig(t, permissionv1.Verdict_VERDICT_ALLOW, false)
				} else {
					r = newRig(t)
					r.open(`{}`)
				}
				r.handler.wait = func(context.Context, *terminalv1.WaitForExitRequest) (*terminalv1.WaitForExitResponse, error) {
					code := uint32(3)
					return &terminalv1.WaitForExitResponse{ExitCode: &code}, nil
				}
				for i, name := range namesOf(method) {
					r.agent.send(fmt.Sprintf(`{"id":"%d","method":%q,"params":{"sessionId":"s",%s}}`, i, name, want.params))
					r.agent.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d","result":%s}`, i, want.result))
				}
			})
		}
	}
}

func TestMethodNames_AreForwardedUnchanged(t *testing.T) {
	for name, r := range map[string]*rig{
		"with a policy":    policyRig(t, permissionv1.Verdict_VERDICT_ALLOW, true),
		"without a policy": newRig(t, func(o *Options) { o.Ready = frontRoutes }),
	} {
		t.Run(name, func(t *testing.T) {
			if name == "without a policy" {
				r.open(`{}`)
			}
			for i, method := range append(namesOf(acp.MethodReadTextFile), namesOf(acp.MethodTerminalOutput)...) {
				request := fmt.Sprintf(`{ "id" : %d,"params":{"path":"/w/f","terminalId":"t","sessionId":"s", "x":1.0},"method":%q}`, i, method)
				r.agent.send(request)
				r.client.want(request)
				answer := fmt.Sprintf(`{"id":%d,"result":{"content":"","own":0.0}}`, i)
				r.client.send(answer)
				r.agent.want(answer)
			}
		})
	}
}

func frontRoutes(context.Context) (*route.Table, error) {
	return route.Build(nil, map[string]string{"fs/*": "front", "terminal/*": "front"})
}

func TestMethodNames_SimilarNamesAreDecided(t *testing.T) {
	near := []string{"fs/delete_file", "FS/anything", "terminal/exec", "Terminal.start", "client/write_text_file", "writeTextFileV2", "x.createTerminal", "fs_write"}
	other := []string{"cursor/ask_question", "_fs/write_text_file", "_x.ai/terminal/create", "session/list_files"}
	r := policyRig(t, permissionv1.Verdict_VERDICT_DENY, false)
	for i, name := range near {
		r.agent.send(fmt.Sprintf(`{"id":"%d","method":%q,"params":{"sessionId":"s","path":"/w/f","content":"x"}}`, i, name))
		r.agent.wantError(fmt.Sprintf(`"%d"`, i), -32603, "denied")
		r.client.next() // a notice to the person
		r.agent.send(fmt.Sprintf(`{"method":%q,"params":{"sessionId":"s"}}`, name))
	}
	for i, name := range other {
		line := fmt.Sprintf(`{"id":%d,"method":%q,"params":{"sessionId":"s"}}`, i, name)
		r.agent.send(line)
		r.client.want(line)
	}
	r = newRig(t)
	r.open(`{}`)
	for i, name := range append(near, other...) {
		line := fmt.Sprintf(`{"id":%d,"method":%q,"params":{"sessionId":"s"}}`, i, name)
		r.agent.send(line)
		r.client.want(line)
	}
}

func TestMethodNames_PermissionRequestsAreDecided(t *testing.T) {
	for i, name := range namesOf(acp.MethodRequestPermission) {
		question := strings.Replace(askedEdit, `"session/request_permission"`, fmt.Sprintf("%q", name), 1)
		for verdict, want := range map[permissionv1.Verdict]string{permissionv1.Verdict_VERDICT_ALLOW: "a", permissionv1.Verdict_VERDICT_DENY: "r"} {
			r := policyRig(t, verdict, false)
			r.agent.send(question)
			r.agent.want(`{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"selected","optionId":"` + want + `"}}}`)
			if i == 0 {
				r.agent.send(strings.Replace(question, `"id":7,`, ``, 1)) // it could not be answered
				r.agent.send(`{"id":8,"method":"readTextFile","params":{"path":"/w/f"}}`)
				r.agent.next()
			}
		}
		r := policyRig(t, permissionv1.Verdict_VERDICT_ASK, false)
		r.agent.send(question)
		r.client.want(question)
		answer := choose([]byte("7"), "a")
		r.client.send(answer)
		r.agent.want(answer)
	}
}

func TestMethodNames_OfClient(t *testing.T) {
	r := policyRig(t, permissionv1.Verdict_VERDICT_ASK, false)
	pass := func(line string) {
		t.Helper()
		r.client.send(line)
		r.agent.want(line)
	}
	back := func(line string) {
		t.Helper()
		r.agent.send(line)
		r.client.want(line)
	}
	pass(`{"jsonrpc":"2.0","id":1,"method":"newSession","params":{"cwd":"/other"}}`)
	back(`{"jsonrpc":"2.0","id":1,"result":{"sessionId":"t","modes":{"currentModeId":"code"}}}`)
	if cc, err := r.opts.Sessions.Context("t"); err != nil || cc.GetRoots()[0].GetPath() != "/other" || cc.GetMode() != "code" {
		t.Fatalf("newSession made %v, %v", cc, err)
	}
	pass(`{"jsonrpc":"2.0","id":2,"method":"setSessionMode","params":{"sessionId":"t","modeId":"ask"}}`)
	back(`{"jsonrpc":"2.0","id":2,"result":null}`)
	if cc, _ := r.opts.Sessions.Context("t"); cc.GetMode() != "ask" {
		t.Errorf("setSessionMode leaves the mode at %q", cc.GetMode())
	}
	back(`{"jsonrpc":"2.0","method":"sessionUpdate","params":{"sessionId":"t","update":{"sessionUpdate":"currentModeUpdate","modeId":"plan"}}}`)
	if cc, _ := r.opts.Sessions.Context("t"); cc.GetMode() != "plan" {
		t.Errorf("an update with modeId leaves the mode at %q", cc.GetMode())
	}
	for i, cancel := range []string{
		`{"jsonrpc":"2.0","method":"cancel","params":{"sessionId":"t"}}`,
		`{"jsonrpc":"2.0","id":"c","method":"session/cancel","params":{"sessionId":"t"}}`,
	} {
		id := fmt.Sprint(10 + i)
		pass(`{"jsonrpc":"2.0","id":` + id + `,"method":"prompt","params":{"sessionId":"t","prompt":[]}}`)
		if p := r.opts.Sessions.Prompting(); len(p) != 1 || p[0] != "t" {
			t.Fatalf("prompt begins turns in %q", p)
		}
		r.agent.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"requestPermission","params":{"sessionId":"t","toolCall":{"toolCallId":"x"},"options":[]}}`)
		r.client.next()
		pass(cancel)
		if !testkit.Poll(func() bool { return r.opts.Sessions.GivenUp("t") }) { // which is recorded after the agent gets the cancellation
			t.Fatalf("%s does not cancel the turn", cancel)
		}
		r.agent.send(`{"jsonrpc":"2.0","id":99,"method":"writeTextFile","params":{"sessionId":"t","path":"/other/f","content":""}}`)
		r.agent.wantError("99", -32800, "cancelled")
		r.client.send(`{"jsonrpc":"2.0","id":` + id + `,"result":{"outcome":{"outcome":"cancelled"}}}`)
		r.agent.next()
		back(`{"jsonrpc":"2.0","id":` + id + `,"result":{"stopReason":"cancelled"}}`)
	}
	pass(`{"jsonrpc":"2.0","id":20,"method":"prompt","params":{"sessionId":"t","prompt":[]}}`)
	back(`{"jsonrpc":"2.0","method":"session/end_turn","params":{"sessionId":"t","reason":"complete"}}`)
	if p := r.opts.Sessions.Prompting(); len(p) != 0 {
		t.Errorf("session/end_turn leaves turns in %q", p)
	}
	back(`{"jsonrpc":"2.0","id":20,"result":{}}`)
	pass(`{"jsonrpc":"2.0","id":21,"method":"closeSession","params":{"sessionId":"t"}}`)
	back(`{"jsonrpc":"2.0","id":21,"result":{}}`)
	if _, err := r.opts.Sessions.Context("t"); err == nil {
		t.Error("closeSession leaves the session open")
	}
}

func TestMethodNames_CancellationFindsCall(t *testing.T) {
	for _, cancel := range []string{`$/cancel_request","params":{"requestId":1}`, `$/cancelRequest","params":{"id":1}`, `cancelRequest","params":{"requestId":1}`} {
		r := newRig(t)
		started := make(chan struct{})
		r.handler.read = func(ctx context.Context, _ *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
			close(started)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		r.open(`{}`)
		r.agent.send(`{"id":1,"method":"readTextFile","params":{"sessionId":"s","path":"/w/f"}}`)
		<-started
		r.agent.send(`{"jsonrpc":"2.0","method":"` + cancel + `}`)
		r.agent.wantError("1", -32800, "fs/read_text_file: cancelled")
	}
}

func TestMethodNames_ShareIDsInFlight(t *testing.T) {
	r := newRig(t)
	release := make(chan struct{})
	r.handler.read = func(context.Context, *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
		<-release
		return &fsv1.ReadTextFileResponse{Content: "once"}, nil
	}
	r.open(`{}`)
	r.agent.send(`{"id":1,"method":"readTextFile","params":{"sessionId":"s","path":"/w/f"}}`,
		`{"id":1.0,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/w/f"}}`)
	r.agent.wantError("1.0", -32600, "in flight already")
	close(release)
	r.agent.want(`{"jsonrpc":"2.0","id":1,"result":{"content":"once"}}`)
}

func TestMethodNames_RejectNonObjectParams(t *testing.T) {
	r := policyRig(t, permissionv1.Verdict_VERDICT_ALLOW, true)
	for i, name := range namesOf(acp.MethodWriteTextFile) {
		r.agent.send(fmt.Sprintf(`{"id":%d,"method":%q,"params":["s","/w/f","x"]}`, i, name))
		r.agent.wantError(fmt.Sprint(i), -32602, "object")
	}
}

func TestLink_AssignsOnlySession(t *testing.T) {
	r := policyRig(t, permissionv1.Verdict_VERDICT_ALLOW, false)
	sessions := make(chan string, 1)
	r.handler.write = func(_ context.Context, m *fsv1.WriteTextFileRequest) (*fsv1.WriteTextFileResponse, error) {
		sessions <- m.GetContext().GetSessionId()
		return &fsv1.WriteTextFileResponse{}, nil
	}
	for i, sessionID := range []string{"", `"sessionId":null,`} {
		r.agent.send(fmt.Sprintf(`{"id":%d,"method":"writeTextFile","params":{%s"path":"/w/f","content":"x"}}`, i, sessionID))
		r.agent.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, i))
		if got := <-sessions; got != "s" {
			t.Errorf("the call was made for session %q", got)
		}
	}
	without := strings.Replace(askedEdit, `"sessionId":"s",`, "", 1)
	r.agent.send(without)
	r.agent.want(`{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"selected","optionId":"a"}}}`)
	prompt := `{"id":"p","method":"prompt","params":{"prompt":[]}}`
	r.client.send(prompt)
	r.agent.want(prompt)
	if p := r.opts.Sessions.Prompting(); len(p) != 1 {
		t.Errorf("a prompt without a session begins turns in %q", p)
	}

	r.client.send(`{"jsonrpc":"2.0","id":"m","method":"session/new","params":{"cwd":"/v","mcpServers":[]}}`)
	r.agent.next()
	r.agent.send(`{"id":1,"method":"writeTextFile","params":{"path":"/w/f","content":"x"}}`) // the session is ambiguous
	r.agent.wantError("1", -32602, "2 sessions are open")
	r.agent.send(`{"jsonrpc":"2.0","id":"m","result":{"sessionId":"two"}}`)
	r.client.next()
	r.agent.send(`{"id":1,"method":"writeTextFile","params":{"path":"/w/f","content":"x"}}`)
	r.agent.wantError("1", -32602, "2 sessions are open")
	r.agent.send(without) // the policies of the sessions may differ
	r.client.want(without)
}

// permissionShapes are permission requests in other forms than ACP v1, with the options that allow and that reject.
var permissionShapes = map[string]struct{ params, allow, reject string }{
	"options alone": {`"options":[{"optionId":"y","name":"Yes","kind":"allow_once"},{"optionId":"n","name":"No","kind":"deny"}]`,
		`{"outcome":{"outcome":"selected","optionId":"y"}}`, `{"outcome":{"outcome":"selected","optionId":"n"}}`},
	"a tool and labels": {`"id":"perm_1","tool":"bash","description":"Execute: make","options":[{"id":"once","label":"Allow Once"},{"id":"always","label":"Always Allow"},{"id":"deny","label":"Deny"}]`,
		`{"outcome":{"outcome":"selected","optionId":"once"},"optionId":"once"}`, `{"outcome":{"outcome":"selected","optionId":"deny"},"optionId":"deny"}`},
	"version 2, a tool call": {`"title":"Run?","subject":{"type":"tool_call","toolCall":{"toolCallId":"t","kind":"execute","rawInput":{"command":"ls"}}},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"},{"optionId":"n","name":"No","kind":"reject_once"}]`,
		`{"outcome":{"outcome":"selected","optionId":"y"}}`, `{"outcome":{"outcome":"selected","optionId":"n"}}`},
	"version 2, a command": {`"title":"Run?","subject":{"type":"command","command":"ls","cwd":"/w"},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"},{"optionId":"n","name":"No","kind":"reject_once"}]`,
		`{"outcome":{"outcome":"selected","optionId":"y"}}`, `{"outcome":{"outcome":"selected","optionId":"n"}}`},
	"version 2, about nothing": {`"title":"Go on?","subject":null,"options":[{"optionId":"y","name":"Yes","kind":"allow_once"},{"optionId":"n","name":"No","kind":"reject_once"}]`,
		`{"outcome":{"outcome":"selected","optionId":"y"}}`, `{"outcome":{"outcome":"selected","optionId":"n"}}`},
}

func TestPermissionRequest_OtherFormsAreDecided(t *testing.T) {
	for name, shape := range permissionShapes {
		request := `{"id":7,"method":"session/request_permission","params":{"sessionId":"s",` + shape.params + `}}`
		t.Run(name, func(t *testing.T) {
			for verdict, want := range map[permissionv1.Verdict]string{permissionv1.Verdict_VERDICT_ALLOW: shape.allow, permissionv1.Verdict_VERDICT_DENY: shape.reject} {
				r := policyRig(t, verdict, false)
				r.agent.send(request)
				r.agent.want(`{"jsonrpc":"2.0","id":7,"result":` + want + `}`)
			}
			for _, r := range []*rig{policyRig(t, permissionv1.Verdict_VERDICT_ASK, false), newRig(t)} {
				if len(r.opts.Sessions.Roots()) == 0 {
					r.open(`{}`)
				}
				r.agent.send(request)
				r.client.want(request)
				answer := `{"id":7,"result":` + shape.allow + `}`
				r.client.send(answer)
				r.agent.want(answer)
			}
		})
	}
}

func TestPermissionRequest_ActionOfOtherForms(t *testing.T) {
	for name, want := range map[string]struct {
		command  string
		unparsed bool
	}{
		"options alone": {"", true}, "a tool and labels": {"", true}, "version 2, a tool call": {"ls", false},
		"version 2, a command": {"ls", false}, "version 2, about nothing": {"", true},
	} {
		r := policyRig(t, permissionv1.Verdict_VERDICT_ASK, false)
		seen := make(chan *permissionv1.Action, 1)
		r.handler.decide = func(ctx context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
			seen <- a
			return answer(permissionv1.Verdict_VERDICT_ASK)(ctx, a)
		}
		r.agent.send(`{"id":7,"method":"session/request_permission","params":{"sessionId":"s",` + permissionShapes[name].params + `}}`)
		if a := <-seen; a.GetCommand().GetText() != want.command || (a.GetUnparsed() != "") != want.unparsed {
			t.Errorf("%s: the policy sees %v", name, a)
		}
		r.client.next()
	}
}

func TestPermissionRequest_NeverChoosesUnknownOption(t *testing.T) {
	for _, option := range []string{
		`{"optionId":"y","name":"Do it","kind":"yolo"}`, `{"optionId":"allow","name":"Reject"}`, `{"optionId":"reject","name":"Allow"}`,
		`{"optionId":"y","name":"Allow for ever"}`, `{"optionId":"allow","name":"Yes, and never ask again"}`,
		`{"optionId":"y","name":"Allow","kind":5}`, `{"optionId":"a","name":"Always allow","kind":"allow_always"}`,
	} {
		r := policyRig(t, permissionv1.Verdict_VERDICT_ALLOW, false)
		request := `{"id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[` + option + `]}}`
		r.agent.send(request)
		r.client.want(request)
	}
}

func TestPermissionRequest_RefusesNoOptionsAndTwoSubjects(t *testing.T) {
	for params, code := range map[string]int{
		`"title":"May I?"`:              -32602,
		`"title":"May I?","options":[]`: -32602,
		`"options":null`:                -32602,
		`"tool":"bash","options":"yes"`: -32602,
		`"toolCall":{"toolCallId":"a"},"subject":{"type":"tool_call","toolCall":{"toolCallId":"b"}},"options":[{"optionId":"y"}]`:                                      -32600,
		`"title":"x","subject":{"type":"command","command":"ls","toolCall":{"toolCallId":"a","rawInput":{"command":"rm"}}},"options":[{"optionId":"y"}]`:               -32600,
		`"title":"x","subject":{"type":"tool_call","toolCall":{"toolCallId":"a"},"ToolCall":{"toolCallId":"a"}},"options":[{"optionId":"y"}]`:                          -32600,
		`"tool":"bash","input":{"command":"ls"},"Input":{"command":"rm"},"options":[{"id":"y"}]`:                                                                       -32600,
		`"title":"x","subject":{"type":"tool_call","toolCallId":"b","toolCall":{"toolCallId":"a"}},"options":[{"optionId":"y"}]`:                                       -32600,
		`"title":"x","subject":{"type":"tool_call","toolCall":{"toolCallId":"a"}},"Subject":{"type":"tool_call","toolCall":{"toolCallId":"b"}},"options":[{"id":"y"}]`: -32600,
	} {
		for _, r := range []*rig{policyRig(t, permissionv1.Verdict_VERDICT_ALLOW, false), newRig(t)} {
			if len(r.opts.Sessions.Roots()) == 0 {
				r.open(`{}`)
			}
			r.agent.send(`{"id":7,"method":"session/request_permission","params":{"sessionId":"s",` + params + `}}`)
			r.agent.wantError("7", code, "session/request_permission: ")
		}
	}
}

func TestUpdate_OtherFormsOfToolCalls(t *testing.T) {
	for _, params := range []string{
		`"type":"tool_call","content":{"toolCall":{"id":"c","name":"bash","input":{"command":"ls"},"status":"running"}}`,
		`"update":{"type":"tool_call","content":{"id":"c","name":"bash","input":{"command":"ls"}}}`,
		`"sessionUpdate":"tool_call","toolCallId":"c","title":"bash","rawInput":{"command":"ls"}`,
	} {
		r := newRig(t)
		r.open(`{}`)
		update := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s",` + params + `}}`
		r.agent.send(update)
		r.client.want(update)
		got := r.opts.Sessions.ToolCall("s", []byte(`{"toolCallId":"c"}`))
		if got.Title != "bash" || string(got.RawInput) != `{"command":"ls"}` {
			t.Errorf("%s: known of the tool call: %+v", params, got)
		}
	}
}

func TestUpdate_RefusesImitatedTerminals(t *testing.T) {
	r := newRig(t)
	x := withTerminal(r, `{"_meta":{"terminal_output":true}}`)
	defer close(x.exit)
	r.agent.send(showsTerminal)
	r.client.want(ourToolCall)
	r.client.want(showsTerminal)
	const forged = `"sessionUpdate":"tool_call_update","toolCallId":"c","_meta":{"terminal_output":{"terminal_id":"acphost-1","data":"forged"}}`
	r.agent.send(
		`{"jsonrpc":"2.0","method":"sessionUpdate","params":{"sessionId":"s","update":{`+forged+`}}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s",`+forged+`}}`,
		`{"jsonrpc":"2.0","method":"acp/session_update","params":{`+forged+`}}`,
		`{"jsonrpc":"2.0","method":"_mark"}`)
	r.client.want(`{"jsonrpc":"2.0","method":"_mark"}`)
}

// TestCall_UnknownSessionCannotBypassRules: only the repository of one session has rules, and the client serves files. A client with one
// session may ignore the session id of a call.
func TestCall_UnknownSessionCannotBypassRules(t *testing.T) {
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules.yaml")
	r := gatedRig(t, func(o *Options) {
		conn := o.Conn
		o.Gate = gate.New(gate.Options{
			Chain:   []gate.Policy{{Name: "permission", Conn: func() (grpc.ClientConnInterface, error) { return conn("permission") }}},
			Methods: []string{"fs/*"}, WorkspacePolicy: "rules.yaml", Logger: o.Logger,
		})
		o.Ready = frontRoutes
	})
	r.handler.decide = answer(permissionv1.Verdict_VERDICT_DENY)
	r.open(`{}`)
	r.client.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"m","method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`, dir))
	r.agent.next()
	r.agent.send(`{"jsonrpc":"2.0","id":"m","result":{"sessionId":"ruled"}}`)
	r.client.next()
	stray := `{"id":%d,"method":"fs/write_text_file","params":{"sessionId":"S","path":"/w/f","content":"x"}}`
	r.agent.send(fmt.Sprintf(stray, 1))
	r.client.want(fmt.Sprintf(stray, 1)) // no session has rules
	if err := os.WriteFile(rules, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, session := range []string{`"S"`, `7`, `null`} {
		r.agent.send(strings.Replace(fmt.Sprintf(stray, i+2), `"S"`, session, 1))
		r.agent.wantError(fmt.Sprint(i+2), -32602, "is unknown here")
	}
	r.agent.send(strings.Replace(fmt.Sprintf(stray, 9), `"S"`, `"s"`, 1))
	r.client.want(strings.Replace(fmt.Sprintf(stray, 9), `"S"`, `"s"`, 1)) // a session without rules
}

func TestOwnQuestions_UseDialectOfClient(t *testing.T) {
	for opening, want := range map[string]string{"session/new": "session/request_permission", "newSession": "requestPermission", "acp/new_session": "acp/request_permission"} {
		t.Run(opening, func(t *testing.T) {
			r := gatedRig(t)
			r.client.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}`)
			r.agent.next()
			r.agent.send(`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}`)
			r.client.next()
			r.client.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"cwd":"/w","mcpServers":[]}}`, opening))
			r.agent.next()
			r.agent.send(`{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}`)
			r.client.next()
			r.agent.send(fmt.Sprintf(writeCall, 1, 1))
			update, asked := parse(t, r.client.next()), parse(t, r.client.next())
			if asked.Method != want || asked.Params.ToolCall.ToolCallID == "" {
				t.Errorf("the question is %+v, want the method %s", asked, want)
			}
			if known := string(acp.Method([]byte(update.Method))); known != acp.MethodSessionUpdate || (opening == "session/new") != (update.Method == known) {
				t.Errorf("the update is called %q", update.Method)
			}
			r.client.send(choose(asked.ID, acp.AllowOnce))
			if m := parse(t, r.agent.next()); m.Error != nil || string(m.ID) != "1" {
				t.Errorf("the agent was answered %+v", m)
			}
		})
	}
}

func TestCurrentParams_OfTerminals(t *testing.T) {
	for _, tt := range []struct{ method, params, want string }{
		{acp.MethodTerminalCreate, `{"command":"ls","maxOutputBytes":4}`, `{"command":"ls","maxOutputBytes":4,"outputByteLimit":4}`},
		{acp.MethodTerminalRun, `{"command":"ls","maxOutputBytes":4,"outputByteLimit":5}`, `{"command":"ls","maxOutputBytes":4,"outputByteLimit":5}`},
		{acp.MethodTerminalRun, `{"terminalId":"t","command":"ls"}`, ""},
		{acp.MethodTerminalCreate, `{"command":"ls","env":{"A":"1","B":"\u00e9"}}`, `{"command":"ls","env":[{"name":"A","value":"1"},{"name":"B","value":"\u00e9"}]}`},
		{acp.MethodTerminalCreate, `{"command":"ls","env":{"A":"1","A":"2"}}`, ""},
		{acp.MethodTerminalOutput, `{"terminalId":"t","maxOutputBytes":4}`, `{"terminalId":"t","maxOutputBytes":4}`},
	} {
		got, err := currentParams(tt.method, []byte(tt.params))
		if string(got) != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s %s: %s, %v; want %s", tt.method, tt.params, got, err, tt.want)
		}
	}
}
