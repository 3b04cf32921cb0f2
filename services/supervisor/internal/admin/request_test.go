package admin

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// errReached is the error of a request that was not rejected.
var errReached = errors.New("it got through")

func text(s string) []*supervisorv1.ContentBlock {
	return []*supervisorv1.ContentBlock{{Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: s}}}}
}

func TestRequests_RejectInvalidFields(t *testing.T) {
	conn := local(t, nothing{err: errReached})
	agents, sessions := supervisorv1.NewAgentServiceClient(conn), supervisorv1.NewSessionServiceClient(conn)
	approvals := supervisorv1.NewApprovalServiceClient(conn)
	ctx := t.Context()
	start := func(req *supervisorv1.StartAgentRequest) error { _, err := agents.StartAgent(ctx, req); return err }
	open := func(req *supervisorv1.NewSessionRequest) error { _, err := sessions.NewSession(ctx, req); return err }
	ask := func(blocks ...*supervisorv1.ContentBlock) error {
		return ended(sessions.Prompt(ctx, &supervisorv1.PromptRequest{SessionId: "s", Prompt: blocks}))
	}
	set := func(req *supervisorv1.SetConfigOptionRequest) error {
		_, err := sessions.SetConfigOption(ctx, req)
		return err
	}
	answer := func(req *supervisorv1.AnswerApprovalRequest) error {
		_, err := approvals.AnswerApproval(ctx, req)
		return err
	}
	spent := func(seconds ...int64) error {
		req := &supervisorv1.GetUsageRequest{}
		for _, s := range seconds {
			req.Days = append(req.Days, &timestamppb.Timestamp{Seconds: s})
		}
		_, err := supervisorv1.NewSupervisorStateServiceClient(conn).GetUsage(ctx, req)
		return err
	}
	var daily []int64
	for day := range int64(368) {
		daily = append(daily, day*86400)
	}
	env := func(name string, v *supervisorv1.EnvValue) map[string]*supervisorv1.EnvValue {
		return map[string]*supervisorv1.EnvValue{name: v}
	}
	file := func(name string) *supervisorv1.EnvValue {
		return &supervisorv1.EnvValue{Source: &supervisorv1.EnvValue_File{File: name}}
	}
	mcp := func(s *supervisorv1.McpServer) *supervisorv1.NewSessionRequest {
		return &supervisorv1.NewSessionRequest{AgentId: "a", Cwd: "/x", McpServers: []*supervisorv1.McpServer{s}}
	}
	stdio := func(s *supervisorv1.McpStdio) *supervisorv1.McpServer {
		return &supervisorv1.McpServer{Name: "m", Transport: &supervisorv1.McpServer_Stdio{Stdio: s}}
	}
	http := func(s *supervisorv1.McpHttp) *supervisorv1.McpServer {
		return &supervisorv1.McpServer{Name: "m", Transport: &supervisorv1.McpServer_Http{Http: s}}
	}
	for _, c := range []struct {
		name string
		err  error
		want string // in the message; empty: it gets through
	}{
		{"a preset", start(&supervisorv1.StartAgentRequest{Preset: "p", Args: []string{"x"}, Cwd: "/x", Env: env("A", file("/f"))}), ""},
		{"a command", start(&supervisorv1.StartAgentRequest{Command: []string{"p", ""}}), ""},
		{"neither preset nor command", start(&supervisorv1.StartAgentRequest{}), "preset, command"},
		{"both", start(&supervisorv1.StartAgentRequest{Preset: "p", Command: []string{"x"}}), "preset, command"},
		{"no program", start(&supervisorv1.StartAgentRequest{Command: []string{""}}), "command: its first"},
		{"arguments of a command", start(&supervisorv1.StartAgentRequest{Command: []string{"x"}, Args: []string{"y"}}), "args: they are"},
		{"NUL in a command", start(&supervisorv1.StartAgentRequest{Command: []string{"x", "a\x00"}}), "command[1]"},
		{"a relative folder", start(&supervisorv1.StartAgentRequest{Preset: "p", Cwd: "x"}), "cwd: it takes an absolute path"},
		{"a variable with =", start(&supervisorv1.StartAgentRequest{Preset: "p", Env: env("A=B", file("/f"))}), `env: "A=B"`},
		{"a variable from nowhere", start(&supervisorv1.StartAgentRequest{Preset: "p", Env: env("A", &supervisorv1.EnvValue{})}), "env.A: exactly one"},
		{"a variable from a relative file", start(&supervisorv1.StartAgentRequest{Preset: "p", Env: env("A", file("f"))}), "env.A.file"},
		{"a name with a line feed", start(&supervisorv1.StartAgentRequest{Preset: "p", Name: "a\nb"}), "name: "},
		{"a name that is too long", start(&supervisorv1.StartAgentRequest{Preset: "p", Name: strings.Repeat("x", 129)}), "name: "},

		{"a session", open(&supervisorv1.NewSessionRequest{AgentId: "a", Cwd: "/x", AdditionalDirectories: []string{"/y"}}), ""},
		{"a session without an agent", open(&supervisorv1.NewSessionRequest{Cwd: "/x"}), "agent_id: it is required"},
		{"a session nowhere", open(&supervisorv1.NewSessionRequest{AgentId: "a"}), "cwd: it takes an absolute path"},
		{"a relative root", open(&supervisorv1.NewSessionRequest{AgentId: "a", Cwd: "/x", AdditionalDirectories: []string{"/y", "z"}}), "additional_directories[1]"},
		{"an MCP server", open(mcp(stdio(&supervisorv1.McpStdio{Command: "/m", Env: map[string]string{"A": "b"}}))), ""},
		{"one over HTTP", open(mcp(http(&supervisorv1.McpHttp{Url: "https://x", Headers: map[string]string{"A": "b"}}))), ""},
		{"one without a name", open(mcp(&supervisorv1.McpServer{})), "mcp_servers[0].name"},
		{"one without a transport", open(mcp(&supervisorv1.McpServer{Name: "m"})), "mcp_servers[0]: exactly one"},
		{"one by a relative path", open(mcp(stdio(&supervisorv1.McpStdio{Command: "m"}))), "mcp_servers[0].stdio.command"},
		{"one with a bad variable", open(mcp(stdio(&supervisorv1.McpStdio{Command: "/m", Env: map[string]string{"": "b"}}))), "mcp_servers[0].stdio.env"},
		{"one with two headers in one", open(mcp(http(&supervisorv1.McpHttp{Url: "https://x", Headers: map[string]string{"A": "b\r\nC: d"}}))), "mcp_servers[0].http.headers"},

		{"a prompt", ask(text("hi")...), ""},
		{"a prompt without text", ask(text("")...), ""},
		{"an empty prompt", ask(), "at least one block"},
		{"an empty block", ask(&supervisorv1.ContentBlock{}), "prompt[0]: it is empty"},
		{"another's block", ask(&supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Other{Other: "{}"}}), "prompt[0].other"},
		{"an image of nothing", ask(&supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Image{Image: &supervisorv1.ImageContent{MimeType: "image/png"}}}), "prompt[0].image: neither"},
		{"an image of no type", ask(&supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Image{Image: &supervisorv1.ImageContent{Data: []byte("x")}}}), "prompt[0].image.mime_type"},
		{"a silent sound", ask(&supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Audio{Audio: &supervisorv1.AudioContent{MimeType: "audio/wav"}}}), "prompt[0].audio.data"},
		{"a link to nowhere", ask(&supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_ResourceLink{ResourceLink: &supervisorv1.ResourceLink{Name: "x"}}}), "prompt[0].resource_link.uri"},
		{"a resource of nothing", ask(&supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Resource{Resource: &supervisorv1.EmbeddedResource{Uri: "x"}}}), "prompt[0].resource: neither"},
		{"meta that is no object", ask(&supervisorv1.ContentBlock{Content: text("x")[0].GetContent(), Meta: "[]"}), "prompt[0].meta"},
		{"a prompt without a session", ended(sessions.Prompt(ctx, &supervisorv1.PromptRequest{Prompt: text("x")})), "session_id: it is required"},

		{"an option that is on", set(&supervisorv1.SetConfigOptionRequest{SessionId: "s", ConfigId: "c", To: &supervisorv1.SetConfigOptionRequest_Enabled{}}), ""},
		{"an option of nothing", set(&supervisorv1.SetConfigOptionRequest{SessionId: "s", ConfigId: "c"}), "value, enabled"},
		{"an option without a name", set(&supervisorv1.SetConfigOptionRequest{SessionId: "s", To: &supervisorv1.SetConfigOptionRequest_Enabled{}}), "config_id"},

		{"an answer", answer(&supervisorv1.AnswerApprovalRequest{Id: "x", Answer: &supervisorv1.AnswerApprovalRequest_Accept{Accept: " {} "}}), ""},
		{"an answer to nothing", answer(&supervisorv1.AnswerApprovalRequest{Answer: &supervisorv1.AnswerApprovalRequest_Cancel{Cancel: true}}), "id: it is required"},
		{"no answer", answer(&supervisorv1.AnswerApprovalRequest{Id: "x"}), "exactly one of them is the answer"},
		{"no option", answer(&supervisorv1.AnswerApprovalRequest{Id: "x", Answer: &supervisorv1.AnswerApprovalRequest_OptionId{}}), "option_id: it is required"},
		{"content that is a list", answer(&supervisorv1.AnswerApprovalRequest{Id: "x", Answer: &supervisorv1.AnswerApprovalRequest_Accept{Accept: "[]"}}), "accept: it takes a JSON object"},
		{"content that is cut off", answer(&supervisorv1.AnswerApprovalRequest{Id: "x", Answer: &supervisorv1.AnswerApprovalRequest_Accept{Accept: `{"a": `}}), "accept: it takes a JSON object"},
		{"the usage of a year", spent(daily[:367]...), ""},
		{"of a day of 23 hours and 15 minutes", spent(900, 84600), ""},
		{"of no day", spent(), "days: say when each day begins"},
		{"of a day without an end", spent(0), "days: say when each day begins"},
		{"of more than a year", spent(daily...), "got 368"},
		{"of a day that begins at no full quarter of an hour", spent(0, 901), "days[1]: a day begins"},
		{"of an invalid time", spent(0, 1<<62), "days[1]: a day begins"},
		{"of days that are in no order", spent(900, 900), "days[1]: it is not after"},
		{"an invalid rejection", answer(&supervisorv1.AnswerApprovalRequest{Id: "x", Answer: &supervisorv1.AnswerApprovalRequest_Decline{}}), "decline: it is true"},
	} {
		st := status.Convert(c.err)
		switch {
		case c.want == "" && (st.Code() != codes.FailedPrecondition || st.Message() != errReached.Error()):
			t.Errorf("%s did not get through: %v", c.name, c.err)
		case c.want != "" && (st.Code() != codes.InvalidArgument || !strings.Contains(st.Message(), c.want)):
			t.Errorf("%s: %v, want INVALID_ARGUMENT with %q", c.name, c.err, c.want)
		}
	}
}

// ended is the error that a stream ends with.
func ended[T any](stream grpc.ServerStreamingClient[T], err error) error {
	if err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

// local serves something within the process and returns a connection to it.
func local(t *testing.T, n nothing) grpc.ClientConnInterface {
	t.Helper()
	return serving(t, Options{Agents: n, Sessions: n, Events: n, Approvals: n})
}

// serving is local for other options.
func serving(t *testing.T, o Options) grpc.ClientConnInterface {
	t.Helper()
	o.State, o.NoSocket = noState{}, true
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	conn, err := s.Local()
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestReadOnly_RefusesChanges(t *testing.T) {
	conn := serving(t, Options{Agents: nothing{}, Events: nothing{}, ReadOnly: "they are an editor's"})
	for _, service := range []grpc.ServiceDesc{supervisorv1.AgentService_ServiceDesc, supervisorv1.SessionService_ServiceDesc} {
		for _, m := range service.Methods {
			if m.MethodName == "ListAgents" || m.MethodName == "GetAgent" {
				continue
			}
			err := conn.Invoke(t.Context(), "/"+service.ServiceName+"/"+m.MethodName, &supervisorv1.ListAgentsRequest{}, &supervisorv1.ListAgentsResponse{})
			if want := m.MethodName + ": they are an editor's"; status.Code(err) != codes.FailedPrecondition || status.Convert(err).Message() != want {
				t.Errorf("%s: got %v, want %q", m.MethodName, err, want)
			}
		}
	}
	if err := ended(supervisorv1.NewSessionServiceClient(conn).Prompt(t.Context(), &supervisorv1.PromptRequest{})); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a prompt: %v", err)
	}
	if err := second(supervisorv1.NewAgentServiceClient(conn).GetAgent(t.Context(), &supervisorv1.GetAgentRequest{})); status.Code(err) != codes.InvalidArgument {
		t.Errorf("an agent without a name: %v", err)
	}
}

func TestRequests_NeedSessionID(t *testing.T) {
	conn := local(t, nothing{})
	c := supervisorv1.NewSessionServiceClient(conn)
	ctx := t.Context()
	for name, err := range map[string]error{
		"load":    second(c.LoadSession(ctx, &supervisorv1.LoadSessionRequest{AgentId: "a", Cwd: "/x"})),
		"resume":  second(c.ResumeSession(ctx, &supervisorv1.ResumeSessionRequest{AgentId: "a", Cwd: "/x"})),
		"fork":    second(c.ForkSession(ctx, &supervisorv1.ForkSessionRequest{})),
		"close":   second(c.CloseSession(ctx, &supervisorv1.CloseSessionRequest{})),
		"delete":  second(c.DeleteSession(ctx, &supervisorv1.DeleteSessionRequest{AgentId: "a"})),
		"cancel":  second(c.CancelPrompt(ctx, &supervisorv1.CancelPromptRequest{})),
		"mode":    second(c.SetMode(ctx, &supervisorv1.SetModeRequest{ModeId: "m"})),
		"model":   second(c.SetModel(ctx, &supervisorv1.SetModelRequest{ModelId: "m"})),
		"watch":   ended(c.WatchSession(ctx, &supervisorv1.WatchSessionRequest{})),
		"get":     second(supervisorv1.NewSupervisorStateServiceClient(conn).GetSession(ctx, &supervisorv1.GetSessionRequest{})),
		"no NUL":  second(c.CloseSession(ctx, &supervisorv1.CloseSessionRequest{SessionId: "a\x00"})),
		"no book": second(c.CloseSession(ctx, &supervisorv1.CloseSessionRequest{SessionId: strings.Repeat("x", 5000)})),
	} {
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "session_id") {
			t.Errorf("%s: %v, want INVALID_ARGUMENT", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestAnswererName_RejectsInvalidNames(t *testing.T) {
	long := strings.Repeat("é", 65)
	for _, c := range []struct {
		name    string
		who     identity
		claimed string
		want    string // empty: refused
	}{
		{"an unnamed caller", identity{}, "", "grpc"},
		{"a word", identity{}, "  slack\tbot ", "slack bot"},
		{"a word that moves the cursor", identity{}, "a\x1b[2Jb\u202ec", "a[2Jbc"},
		{"only such", identity{}, "\x1b\x07", "grpc"},
		{"the policy", identity{}, "policy", ""},
		{"the editor, loudly", identity{}, " FRONT ", ""},
		{"a grant", identity{self: true}, "grant", ""},
		{"time", identity{self: true}, "timeout", ""},
		{"the policy, hidden", identity{}, "pol\u200bicy", ""},
		{"64 characters", identity{}, long[2:], long[2:]},
		{"65 characters", identity{}, long, ""},
		{"a certificate", identity{certificate: true, name: "ci"}, "somebody else", "ci"},
		{"a certificate's odd name", identity{certificate: true, name: "a\nb" + long}, "", "a b" + strings.Repeat("é", 61)},
		{"a certificate of the policy's", identity{certificate: true, name: "Policy"}, "", "certificate of Policy"},
		{"a certificate without a name", identity{certificate: true}, "x", "grpc"},
	} {
		got, err := answerer(c.who, c.claimed)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}
