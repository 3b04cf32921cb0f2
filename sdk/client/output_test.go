package client_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
)

func TestShownOutput_ReadsRawOutput(t *testing.T) {
	for name, c := range map[string]struct {
		raw, text string
		code      int // -1: none
	}{
		"text":         {`"a\nb"`, "a\nb", -1},
		"codex":        {`{"call_id":"c","stdout":"a\n","stderr":"","aggregated_output":"a\n","exit_code":1,"formatted_output":"a\n"}`, "a\n", 1},
		"opencode":     {`{"output":"a\n","metadata":{"output":"a\n","exit":2,"truncated":false}}`, "a\n", 2},
		"pi":           {`{"content":[{"type":"text","text":"a\n"},{"type":"text","text":"b"}],"details":{}}`, "a\nb", -1},
		"cline":        {`[{"query":"ls","result":"a\nb\n","success":true}]`, "a\nb", -1},
		"both streams": {`{"stdout":"out\n","stderr":"err\n","exitCode":0}`, "out\nerr\n", 0},
		"errors alone": {`{"stderr":"err\n"}`, "err\n", -1},
	} {
		t.Run(name, func(t *testing.T) {
			call := &supervisorv1.ToolCall{}
			client.FoldToolCall(call, &supervisorv1.ToolCallReport{Kind: proto.String("execute"), RawOutput: c.raw})
			o := client.ShownOutput(call, nil)
			if o.GetText() != c.text || (o.ExitCode == nil) != (c.code < 0) || o.ExitCode != nil && int(o.GetExitCode()) != c.code {
				t.Errorf("got %v", o)
			}
		})
	}
	for name, raw := range map[string]string{
		"no JSON": `{"output":`, "nothing": `{}`, "a number": `7`, "null": `null`, "unknown": `{"x":"y"}`, "deep": `[[[[[["x"]]]]]]`,
		"that it ended well": `{"exit_code":0}`, "an invalid exit code": `{"exit_code":-1}`,
	} {
		call := &supervisorv1.ToolCall{}
		client.FoldToolCall(call, &supervisorv1.ToolCallReport{Kind: proto.String("execute"), RawOutput: raw})
		if o := client.ShownOutput(call, nil); o != nil {
			t.Errorf("%s: got %v", name, o)
		}
	}
	call := &supervisorv1.ToolCall{}
	client.FoldToolCall(call, &supervisorv1.ToolCallReport{Kind: proto.String("read"), RawOutput: `"the file"`})
	if o := client.ShownOutput(call, nil); o != nil {
		t.Errorf("the content of a file is shown as output of a command: %v", o)
	}
}

func TestShownOutput_ShowsExitStatusOfFailedCommand(t *testing.T) {
	text := func(text string) []*supervisorv1.ToolCallContent {
		return []*supervisorv1.ToolCallContent{{Item: &supervisorv1.ToolCallContent_Content{Content: client.Text(text)}}}
	}
	for name, c := range map[string]struct {
		raw     string
		content []*supervisorv1.ToolCallContent
		text    string
		code    int // 0: nothing is shown
	}{
		"it printed nothing":            {`{"exit_code":1}`, nil, "", 1},
		"its tool call shows the text":  {`{"output":"a\n","metadata":{"exit":2}}`, text("a"), "", 2},
		"its tool call shows something": {`{"output":"a\n","metadata":{"exit":2}}`, text("b"), "a\n", 2},
		"it did not fail":               {`{"output":"a\n","metadata":{"exit":0}}`, text("a"), "", 0},
	} {
		call := &supervisorv1.ToolCall{}
		client.FoldToolCall(call, &supervisorv1.ToolCallReport{Kind: proto.String("execute"), RawOutput: c.raw, ContentSet: true, Content: c.content})
		if o := client.ShownOutput(call, nil); (o != nil) != (c.code != 0) || o.GetText() != c.text || int(o.GetExitCode()) != c.code {
			t.Errorf("%s: got %v", name, o)
		}
	}
}

func TestShownOutput_KeepsBeginningAndEnd(t *testing.T) {
	for _, size := range []int{99, 1000, 300_000} {
		call := &supervisorv1.ToolCall{}
		all := strings.Repeat("0123456789é", 30_000)
		for rest := all; rest != ""; {
			n := min(size, len(rest))
			for n < len(rest) && !utf8.RuneStart(rest[n]) {
				n++
			}
			before := call.GetOutput()
			was := proto.CloneOf(before)
			client.FoldToolCall(call, &supervisorv1.ToolCallReport{Output: &supervisorv1.ToolOutput{TerminalId: "t", Text: rest[:n]}})
			if !proto.Equal(before, was) {
				t.Fatal("the event was changed")
			}
			rest = rest[n:]
		}
		o := call.GetOutput()
		if !strings.HasPrefix(all, o.GetText()) || !strings.HasSuffix(all, o.GetTail()) || o.GetText() == "" || o.GetTail() == "" ||
			len(o.GetText())+int(o.GetOmitted())+len(o.GetTail()) != len(all) {
			t.Errorf("pieces of %d: %d bytes, %d left out, %d bytes", size, len(o.GetText()), o.GetOmitted(), len(o.GetTail()))
		}
		if len(o.GetText()) > 64<<10 || len(o.GetTail()) > 64<<10 || !utf8.ValidString(o.GetText()) || !utf8.ValidString(o.GetTail()) {
			t.Errorf("pieces of %d: %d and %d bytes are kept", size, len(o.GetText()), len(o.GetTail()))
		}
	}
}

func TestShownOutput_OmitsOutputOfOwnTerminal(t *testing.T) {
	call := &supervisorv1.ToolCall{}
	client.FoldToolCall(call, &supervisorv1.ToolCallReport{Kind: proto.String("execute"), RawOutput: `"printed"`, ContentSet: true,
		Content: []*supervisorv1.ToolCallContent{{Item: &supervisorv1.ToolCallContent_TerminalId{TerminalId: "T"}}}})
	if o := client.ShownOutput(call, func(id string) bool { return id == "T" }); o != nil {
		t.Errorf("it is shown again: %v", o)
	}
	if o := client.ShownOutput(call, func(string) bool { return false }); o.GetText() != "printed" {
		t.Errorf("the terminal is not shown: %v", o)
	}
}
