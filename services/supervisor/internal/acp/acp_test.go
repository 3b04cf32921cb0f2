package acp

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSet_ChangesOneValueOnly(t *testing.T) {
	tests := []struct {
		name, in, value string
		path            []string
		want            string
	}{
		{"a value that is there", `{"a": 1 , "b":{"c":true}}`, "false", []string{"b", "c"}, `{"a": 1 , "b":{"c":false}}`},
		{"a member that is missing", `{"a":1.0}`, "2", []string{"b"}, `{"a":1.0,"b":2}`},
		{"objects on the way that are missing", `{ }`, "true", []string{"x", "y", "z"}, `{ "x":{"y":{"z":true}}}`},
		{"a value on the way that is no object", `{"x":null,"k":[1]}`, "1", []string{"x", "y"}, `{"x":{"y":1},"k":[1]}`},
		{"an escaped name", `{"\u0061":1}`, "2", []string{"a"}, `{"\u0061":2}`},
		{"the last of two of the same name", `{"a":1,"a":2}`, "3", []string{"a"}, `{"a":1,"a":3}`},
		{"a line with its line feed", "{\"p\":{}}\n", "1", []string{"p", "q"}, "{\"p\":{\"q\":1}}\n"},
		{"a name that needs quoting", `{}`, "1", []string{`a"b`}, `{"a\"b":1}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := []byte(tt.in)
			got, err := Set(in, []byte(tt.value), tt.path...)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if string(in) != tt.in {
				t.Errorf("the input was changed to %s", in)
			}
		})
	}
}

func TestSet_RejectsNonObjects(t *testing.T) {
	for _, in := range []string{``, `[]`, `"x"`, `{"a":`, `nope`} {
		if got, err := Set([]byte(in), []byte("1"), "a"); err == nil {
			t.Errorf("Set(%q) = %s, want an error", in, got)
		}
	}
}

func FuzzSet_ChangesOneValueOnly(f *testing.F) {
	f.Add(`{"a":1,"b":{"c":[1,2,{"d":null}]},"_meta":{"x":1e400}}`, "b")
	f.Add(`{}`, "clientCapabilities")
	f.Add(` {"\u0062":"\ud800"} `, "b")
	f.Fuzz(func(t *testing.T, obj, name string) {
		if !json.Valid([]byte(obj)) || !strings.HasPrefix(strings.TrimLeft(obj, " \t\r\n"), "{") {
			t.Skip("only objects can be edited")
		}
		out, err := Set([]byte(obj), []byte(`"set"`), name)
		if err != nil {
			t.Fatalf("Set(%q, %q): %v", obj, name, err)
		}
		if !json.Valid(out) {
			t.Fatalf("Set(%q, %q) = %q, which is not JSON", obj, name, out)
		}
		if got := Get(out, name); string(got) != `"set"` && strings.ToValidUTF8(name, "") == name {
			t.Fatalf("Set(%q, %q) = %q, where Get finds %q", obj, name, out, got)
		}
	})
}

func TestRewriteInitialize_AdvertisesServedCapabilities(t *testing.T) {
	line := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":false,"x":7},"_meta":{"terminal_output":true}},"clientInfo":{"name":"e"}}}` + "\n"
	flags := map[string]bool{"fs.readTextFile": true, "fs.writeTextFile": false, "terminal": true}
	got, err := RewriteInitialize([]byte(line), flags, map[string]json.RawMessage{"acme.com/x": []byte(`{"v":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true,"x":7,"writeTextFile":false},"_meta":{"terminal_output":true,"acme.com/x":{"v":1}},"terminal":true},"clientInfo":{"name":"e"}}}` + "\n"
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRewriteInitialize_AddsVersion1CapabilitiesToVersion2(t *testing.T) {
	line := `{"id":1,"method":"initialize","params":{"protocolVersion":2,"capabilities":{"a":{}}}}`
	got, err := RewriteInitialize([]byte(line), map[string]bool{"terminal": true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":1,"method":"initialize","params":{"protocolVersion":2,"capabilities":{"a":{}},"clientCapabilities":{"terminal":true}}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestParseInitialize_IgnoresUnreadableFields(t *testing.T) {
	tests := []struct {
		in   string
		want Initialize
	}{
		{`{"protocolVersion":1,"clientCapabilities":{"_meta":{"terminal_output":true}}}`, Initialize{ProtocolVersion: 1, TerminalOutput: true}},
		{`{"protocolVersion":"1","clientCapabilities":[]}`, Initialize{ProtocolVersion: 1}},
		{`{"protocolVersion":2.0,"clientCapabilities":{"session":{"notices":{}}}}`, Initialize{ProtocolVersion: 2, Notices: true}},
		{`{"clientCapabilities":{"session":{"notices":null},"_meta":{"terminal_output":"yes"}}}`, Initialize{ProtocolVersion: 1}},
		{`null`, Initialize{ProtocolVersion: 1}},
	}
	for _, tt := range tests {
		if got := ParseInitialize([]byte(tt.in)); got != tt.want {
			t.Errorf("ParseInitialize(%s) = %+v, want %+v", tt.in, got, tt.want)
		}
	}
}

func TestMerge_ReplacesReportedFieldsOnly(t *testing.T) {
	var tc ToolCall
	tc.Merge([]byte(`{"toolCallId":"t","title":"Edit","kind":"edit","content":[{"type":"diff","path":"/a"}],"rawInput":{"x":1}}`))
	tc.Merge([]byte(`{"toolCallId":"t","status":"in_progress","title":null,"kind":7,"content":"no"}`))
	if tc.Title != "Edit" || tc.Kind != "edit" || tc.Status != "in_progress" || string(tc.RawInput) != `{"x":1}` || len(ContentItems(tc.Content)) != 1 {
		t.Errorf("got %+v", tc)
	}
	if tc.Ambiguous != "" {
		t.Errorf("Ambiguous = %q, want none", tc.Ambiguous)
	}
}

func TestMerge_DetectsAmbiguousReports(t *testing.T) {
	for _, report := range []string{
		`{"toolCallId":"t","rawInput":{"command":"ls"},"rawInput":{"command":"rm"}}`,
		`{"toolCallId":"t","rawInput":{"command":"ls","command":"rm"}}`,
		`{"toolCallId":"t","rawInput":{},"RawInput":{}}`,
		`{"toolCallId":"t","content":[{"type":"diff","path":"/a","path":"/b"}]}`,
	} {
		var tc ToolCall
		tc.Merge([]byte(report))
		if tc.Ambiguous == "" {
			t.Errorf("Merge(%s) found nothing ambiguous", report)
		}
	}
}

func TestPermissionRequest_OptionPrefersFirstKind(t *testing.T) {
	req, err := ParsePermissionRequest([]byte(`{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[
		{"optionId":"never","kind":"reject_always","name":"x"},{"optionId":"no","kind":"reject_once"},{"optionId":3},"odd",{"optionId":"yes","kind":"allow_always"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if id, ok := req.Option(RejectOnce, RejectAlways); !ok || id != "no" {
		t.Errorf("Option(reject_once, reject_always) = %q, %v", id, ok)
	}
	if id, ok := req.Option(AllowOnce); ok {
		t.Errorf("Option(allow_once) = %q, want none: allow_always is not what was asked for", id)
	}
}

func TestParsePermissionRequest_RejectsAmbiguousParams(t *testing.T) {
	for _, in := range []string{
		`{"toolCall":{"toolCallId":"a"},"toolCall":{"toolCallId":"b"},"options":[]}`,
		`{"toolCall":"x","options":[]}`,
		`{"options":[]}`,
		`{"toolCall":{},"options":{}}`,
		`[]`,
	} {
		if req, err := ParsePermissionRequest([]byte(in)); err == nil {
			t.Errorf("ParsePermissionRequest(%s) = %+v, want an error", in, req)
		}
	}
}

func TestToolCall_FindsToolName(t *testing.T) {
	for report, want := range map[string]string{
		`{"name":"Bash"}`: "Bash",
		`{"name":"Bash","_meta":{"toolName":"other"}}`:         "Bash",
		`{"_meta":{"toolName":"mcp__db__sql"}}`:                "mcp__db__sql",
		`{"_meta":{"claudeCode":{"toolName":"mcp__db__sql"}}}`: "mcp__db__sql",
		`{"_meta":{"toolName":7}}`:                             "",
		`{}`:                                                   "",
	} {
		var tc ToolCall
		tc.Merge([]byte(report))
		if tc.Name != want {
			t.Errorf("%s: the tool is %q, want %q", report, tc.Name, want)
		}
		if tc.Merge([]byte(`{"status":"completed"}`)); tc.Name != want {
			t.Errorf("%s: a report without a name makes it %q", report, tc.Name)
		}
	}
}

func TestMerge_RepairsTitleCutInCharacter(t *testing.T) {
	tc := ToolCall{Title: "before"}
	tc.Merge([]byte(`{"toolCallId":"t","title":"Run \ud83d"}`))
	if tc.Title != "Run \uFFFD" || tc.Ambiguous != "" {
		t.Errorf("got %q, ambiguous: %q", tc.Title, tc.Ambiguous)
	}
}

func TestExact_RejectsInvalidUTF8(t *testing.T) {
	for _, raw := range []string{`"/w/\ud800"`, "\"/w/\xff\"", `7`, `null`, ``} {
		if s, ok := Exact([]byte(raw)); ok || s != "" {
			t.Errorf("Exact(%q) = %q, want none", raw, s)
		}
		if list, ok := Strings([]byte(`["ls",` + raw + `]`)); ok {
			t.Errorf("Strings with %q = %q, want none", raw, list)
		}
	}
	if got := LocationPaths([]byte(`[{"path":"/w/\udc80"},{"path":"/w/\u00e4"}]`)); len(got) != 1 || got[0] != "/w/ä" {
		t.Errorf("LocationPaths = %q", got)
	}
}

func TestMerge_ReadsReportsWithDuplicatesToTheEnd(t *testing.T) {
	var tc ToolCall
	tc.Merge([]byte(`{"toolCallId":"t","rawInput":{"command":"ls","command":"rm"},"title":"one","title":"two","kind":"execute"}`))
	if string(tc.RawInput) != `{"command":"ls","command":"rm"}` || tc.Title != "two" || tc.Kind != "execute" || tc.Ambiguous == "" {
		t.Errorf("got %+v", tc)
	}
}

func TestPermissionRequest_ContradictionIsAmbiguous(t *testing.T) {
	const options = `"options":[{"optionId":"a","kind":"allow_once"}]`
	for params, want := range map[string]bool{
		`"tool":"bash","input":{"command":"ls"}`:                                                             false,
		`"tool":"bash","name":"bash","input":{"command":"ls"},"rawInput":{"command":"ls"}`:                   false,
		`"tool":"bash","name":"read","input":{"command":"ls"}`:                                               true,
		`"tool":"bash","input":{"command":"rm"},"rawInput":{"command":"ls"}`:                                 true,
		`"toolCall":{"toolCallId":"t","rawInput":{"command":"ls"}},"input":{"command":"ls"}`:                 false,
		`"toolCall":{"toolCallId":"t","rawInput":{"command":"ls"}},"input":{"command":"rm"}`:                 true,
		`"toolCall":{"toolCallId":"t"},"rawInput":{"command":"rm"}`:                                          true,
		`"subject":{"type":"tool_call","toolCall":{"toolCallId":"t","rawInput":{"x":1}}},"rawInput":{"x":2}`: true,
		`"toolCall":{"toolCallId":"t"},"subject":{"type":"command","command":"rm"}`:                          true,
		`"subject":{"type":"command","command":"ls","cwd":"/w"}`:                                             false,
	} {
		req, err := ParsePermissionRequest([]byte("{" + params + "," + options + "}"))
		if err != nil || (req.Ambiguous != "") != want {
			t.Errorf("%s: got %q (%v), want ambiguous %v", params, req.Ambiguous, err, want)
		}
	}
}

func TestPermissionRequest_CommandSubjectIsRawInput(t *testing.T) {
	req, err := ParsePermissionRequest([]byte(`{"title":"T","subject":{"type":"command","command":"git","args":["push"],"cwd":"/w","env":{"A":"b"},
		"toolCallId":"t","terminalId":"x","_meta":{}},"options":["allow"]}`))
	if err != nil {
		t.Fatal(err)
	}
	var tc ToolCall
	tc.Merge(req.ToolCall)
	if want := `{"command":"git","args":["push"],"cwd":"/w","env":{"A":"b"}}`; tc.Kind != "execute" || tc.ID != "t" || tc.Title != "T" || string(tc.RawInput) != want {
		t.Errorf("got %+v with %s, want %s", tc, tc.RawInput, want)
	}
}

func TestMerge_AppendsContentChunks(t *testing.T) {
	var tc ToolCall
	begun := `{"toolCallId":"t","content":[ ]}`
	tc.Merge([]byte(begun))
	before := tc.Content
	for _, item := range []string{`{"type":"diff","path":"/a"}`, `{"type":"content","content":{"type":"text","text":"x"}}`, `{"type":"terminal","terminalId":"x"}`} {
		tc.Merge([]byte(`{"content":` + item + `,"toolCallId":"t","sessionUpdate":"tool_call_content_chunk"}`))
	}
	if want := `[{"type":"diff","path":"/a"},{"type":"terminal","terminalId":"x"}]`; string(tc.Content) != want || string(before) != "[ ]" {
		t.Errorf("got %s from %s, want %s", tc.Content, before, want)
	}
	tc.Merge([]byte(`{"toolCallId":"t","sessionUpdate":"tool_call_update","content":{"type":"diff","path":"/b"}}`))
	if len(ContentItems(tc.Content)) != 2 {
		t.Errorf("an update whose content is no list changes it to %s", tc.Content)
	}
	fresh := ToolCall{}
	fresh.Merge([]byte(`{"toolCallId":"t","sessionUpdate":"tool_call_content_chunk","content":{"type":"diff","path":"/a"}}`))
	if want := `[{"type":"diff","path":"/a"}]`; string(fresh.Content) != want {
		t.Errorf("the first item makes %s, want %s", fresh.Content, want)
	}
}
