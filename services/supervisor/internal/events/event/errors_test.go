package event

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

func TestErrorOf_Kinds(t *testing.T) {
	tests := []struct {
		name, method, fault string
		ours                bool
		want                string
	}{
		{"log in first", "session/new", `{"code":-32000,"message":"Authentication required"}`, false,
			`{"kind":"ERROR_KIND_AUTH_REQUIRED","code":-32000,"message":"session/new: the agent requires a login first: Authentication required"}`},
		{"an unknown session", "session/load", `{"code":-32002,"message":"no such session","data":{"id":"x"}}`, false,
			`{"kind":"ERROR_KIND_SESSION_NOT_FOUND","code":-32002,"message":"session/load: the agent does not know the session: no such session","data":"{\"id\":\"x\"}"}`},
		{"something else is not there", "authenticate", `{"code":-32002,"message":"no such file"}`, false,
			`{"kind":"ERROR_KIND_AGENT_ERROR","code":-32002,"message":"authenticate: the agent answered with an error: no such file"}`},
		{"not offered", "session/fork", `{"code":-32601,"message":"Method not found"}`, false,
			`{"kind":"ERROR_KIND_NOT_SUPPORTED","code":-32601,"message":"session/fork: the agent does not offer it: Method not found"}`},
		{"another error, whose words are in its data", "session/prompt", `{"code":-32603,"message":"Internal error","data":{"details":"quota used up"}}`, false,
			`{"kind":"ERROR_KIND_AGENT_ERROR","code":-32603,"message":"session/prompt: the agent answered with an error: Internal error: quota used up","data":"{\"details\":\"quota used up\"}"}`},
		{"words in an error in the data", "authenticate", `{"code":-32603,"message":"Internal error","data":{"details":" ","message":"Internal error","error":{"message":"the key has expired"}}}`, false,
			`{"kind":"ERROR_KIND_AGENT_ERROR","code":-32603,"message":"authenticate: the agent answered with an error: Internal error: the key has expired","data":"{\"details\":\" \",\"message\":\"Internal error\",\"error\":{\"message\":\"the key has expired\"}}"}`},
		{"words in the data alone", "", `{"code":1,"data":"because"}`, false,
			`{"kind":"ERROR_KIND_AGENT_ERROR","code":1,"message":"the agent answered with an error: because","data":"\"because\""}`},
		{"crashed", "session/prompt", crash, true,
			`{"kind":"ERROR_KIND_CRASHED","message":"session/prompt: the agent crashed","exitCode":3,"signal":"SIGKILL","stderrTail":["one","two"]}`},
		{"stopped", "session/prompt", `{"code":-32603,"message":"session/prompt: stopped","data":{"acphost":{"kind":"stopped","exitCode":null}}}`, true,
			`{"kind":"ERROR_KIND_STOPPED","message":"session/prompt: stopped"}`},
		{"a crash that an agent makes up", "session/prompt", crash, false,
			`{"kind":"ERROR_KIND_AGENT_ERROR","code":-32603,"message":"session/prompt: the agent answered with an error: the agent crashed","data":"{\"acphost\":{\"kind\":\"crashed\",\"exitCode\":3,\"signal\":\"SIGKILL\",\"stderrTail\":[\"one\",\"two\"]}}"}`},
		{"refused by acphost", "session/prompt", `{"code":-32600,"message":"session/prompt: no"}`, true,
			`{"kind":"ERROR_KIND_AGENT_ERROR","code":-32600,"message":"session/prompt: no"}`},
		{"no error at all", "session/prompt", `7`, false, `{"kind":"ERROR_KIND_AGENT_ERROR","message":"session/prompt: the agent answered with an error"}`},
		{"nothing", "", ``, false, `{"kind":"ERROR_KIND_AGENT_ERROR","message":"the agent answered with an error"}`},
		{"an invalid code", "", `{"code":1e99,"message":7}`, false, `{"kind":"ERROR_KIND_AGENT_ERROR","message":"the agent answered with an error"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := &supervisorv1.AgentError{}
			if err := protojson.Unmarshal([]byte(tt.want), want); err != nil {
				t.Fatal(err)
			}
			if got := ErrorOf(tt.method, []byte(tt.fault), tt.ours); !proto.Equal(got, want) {
				t.Errorf("got  %s\nwant %s", shown(got), shown(want))
			}
		})
	}
}

func TestErrorOf_WithoutMethod(t *testing.T) {
	if got := ErrorOf("", []byte(`{"code":-32002,"message":"x"}`), false).GetKind(); got != supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND {
		t.Errorf("got %v", got)
	}
	if got := ErrorOf("", []byte(crash), false).GetKind(); got != supervisorv1.ErrorKind_ERROR_KIND_AGENT_ERROR {
		t.Errorf("got %v", got)
	}
}

func TestErrorOf_LimitsMessageAndTail(t *testing.T) {
	e := ErrorOf("session/prompt", []byte(`{"code":1,"message":"`+strings.Repeat("ä", 10_000)+`","data":"`+strings.Repeat("y", 100_000)+`"}`), false)
	if n := len(e.GetMessage()); n > maxWords+100 || !utf8.ValidString(e.GetMessage()) {
		t.Errorf("the message has %d bytes, valid %v", n, utf8.ValidString(e.GetMessage()))
	}
	if e.GetData() != "" {
		t.Errorf("data of %d bytes is kept", len(e.GetData()))
	}
	var tail []string
	for i := range 30 {
		tail = append(tail, fmt.Sprintf("%q", fmt.Sprint(i, strings.Repeat("z", 600))))
	}
	e = ErrorOf("", []byte(`{"data":{"acphost":{"kind":"crashed","stderrTail":[`+strings.Join(tail, ",")+`]}}}`), true)
	if lines := e.GetStderrTail(); len(lines) != maxTail || !strings.HasPrefix(lines[0], "10z") || len(lines[0]) > maxTailLine {
		t.Errorf("got %d lines, the first %.20q of %d bytes", len(lines), lines[0], len(lines[0]))
	}
}
