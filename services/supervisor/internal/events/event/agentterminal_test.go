package event

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

func printed(terminal, text string) string {
	return fmt.Sprintf(`{"sessionUpdate":"terminal_output_chunk","terminalId":%q,"data":%q}`, terminal, base64.StdEncoding.EncodeToString([]byte(text)))
}

func snapshot(terminal, text string) string {
	return fmt.Sprintf(`{"sessionUpdate":"terminal_update","terminalId":%q,"output":{"data":%q}}`, terminal, base64.StdEncoding.EncodeToString([]byte(text)))
}

// outputAfter is the output of the tool call t after updates of its session.
func outputAfter(t *testing.T, updates ...string) *supervisorv1.ToolOutput {
	w := newFolded(t)
	for _, u := range updates {
		w.update(u)
	}
	for _, c := range w.show().GetToolCalls() {
		if c.GetToolCallId() == "t" {
			return c.GetOutput()
		}
	}
	return nil
}

func TestAgentTerminal_OutputBelongsToToolCall(t *testing.T) {
	const (
		shows = `{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"make","kind":"execute","content":[{"type":"terminal","terminalId":"T"}]}`
		grows = `{"sessionUpdate":"tool_call_content_chunk","toolCallId":"t","content":{"type":"terminal","terminalId":"T"}}`
		ends  = `{"sessionUpdate":"terminal_update","terminalId":"T","exitStatus":{"exitCode":3,"signal":null}}`
		other = `{"sessionUpdate":"tool_call_update","toolCallId":"u","content":[{"type":"terminal","terminalId":"T"}]}`
	)
	for _, tt := range []struct {
		name    string
		updates []string
		want    string
	}{
		{"chunks", []string{shows, printed("T", "one\n"), printed("T", "two\n"), ends}, `{"terminalId":"T","text":"one\ntwo\n","ended":true,"exitCode":3}`},
		{"before the tool call", []string{printed("T", "one\n"), ends, shows}, `{"terminalId":"T","text":"one\n","ended":true,"exitCode":3}`},
		{"a tool call that grows", []string{`{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"x"}`, printed("T", "one\n"), grows, printed("T", "two\n")}, `{"terminalId":"T","text":"one\ntwo\n"}`},
		{"a character in two chunks", []string{shows, printed("T", "a\xe2\x82"), printed("T", "\xac b")}, `{"terminalId":"T","text":"a€ b"}`},
		{"half a character at the end", []string{shows, printed("T", "a\xe2\x82"), ends}, `{"terminalId":"T","text":"a�","ended":true,"exitCode":3}`},
		{"bytes that are no text", []string{shows, printed("T", "a\xff\xfeb")}, `{"terminalId":"T","text":"a�b"}`},
		{"a snapshot", []string{shows, printed("T", "one\n"), snapshot("T", "two\n"), printed("T", "three\n")}, `{"terminalId":"T","text":"two\nthree\n"}`},
		{"a snapshot before the tool call", []string{printed("T", "one\n"), snapshot("T", "two\n"), shows}, `{"terminalId":"T","text":"two\n"}`},
		{"output that is taken back", []string{shows, printed("T", "one\n"), `{"sessionUpdate":"terminal_update","terminalId":"T","output":null}`}, `{"terminalId":"T"}`},
		{"a terminal of two tool calls is the first one's", []string{other, printed("T", "one\n"), shows, printed("T", "two\n")}, ``},
		{"an update without output", []string{shows, `{"sessionUpdate":"terminal_output_chunk","terminalId":"T","data":"%"}`, `{"sessionUpdate":"terminal_output_chunk","terminalId":7,"data":"YQ=="}`,
			`{"sessionUpdate":"terminal_update","terminalId":"T","exitStatus":null,"command":"make"}`}, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var want *supervisorv1.ToolOutput
			if tt.want != "" {
				want = &supervisorv1.ToolOutput{}
				if err := protojson.Unmarshal([]byte(tt.want), want); err != nil {
					t.Fatal(err)
				}
			}
			if got := outputAfter(t, tt.updates...); !proto.Equal(got, want) {
				t.Errorf("got  %s\nwant %s", shown(got), tt.want)
			}
		})
	}
}

func TestAgentTerminal_EarlyOutputKeepsBothEnds(t *testing.T) {
	long := strings.Repeat("0123456789abcde\n", 1<<10)
	o := outputAfter(t, printed("T", "first\n"+long+long+long+long), printed("T", long+long+"last\n"),
		`{"sessionUpdate":"tool_call_update","toolCallId":"t","content":[{"type":"terminal","terminalId":"T"}]}`)
	whole := len("first\n") + 6*len(long) + len("last\n")
	if !strings.HasPrefix(o.GetText(), "first\n") || !strings.HasSuffix(o.GetTail(), "last\n") || len(o.GetText())+int(o.GetOmitted())+len(o.GetTail()) != whole {
		t.Errorf("%d and %d bytes, %d omitted, of %d", len(o.GetText()), len(o.GetTail()), o.GetOmitted(), whole)
	}
}

func TestAgentTerminals_LimitsNumber(t *testing.T) {
	var a agentTerminals
	for i := range 3 * maxAgentTerminals {
		a.report("s", []byte(printed(fmt.Sprint(i), "x")))
	}
	a.report("s", []byte(printed(strings.Repeat("T", maxKept), "x")))
	if n := a.known.Len(); n != maxAgentTerminals {
		t.Errorf("%d terminals are kept, want %d", n, maxAgentTerminals)
	}
}
