package acp

import (
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

func TestMethods_NamesAreUnique(t *testing.T) {
	of := map[string]string{}
	for _, m := range methods {
		for _, name := range append(strings.Fields(m.others), m.name) {
			letters := string(fold([]byte(name)))
			if other := of[letters]; other != "" && other != m.name {
				t.Errorf("%s means %s and %s", name, other, m.name)
			}
			of[letters] = m.name
		}
	}
}

func TestMethod_KnowsOtherNames(t *testing.T) {
	for name, want := range map[string]string{
		"session/update": "session/update", "sessionUpdate": "session/update", "acp/session_update": "session/update",
		"newSession": "session/new", "prompt": "session/prompt", "cancel": "session/cancel", "setSessionMode": "session/set_mode",
		"requestPermission": "session/request_permission", "session/requestPermission": "session/request_permission",
		"readTextFile": "fs/read_text_file", "fs/readTextFile": "fs/read_text_file", "FS/READ_TEXT_FILE": "fs/read_text_file",
		"fs.read-text file": "fs/read_text_file", "./fs/read_text_file": "fs/read_text_file", "fs/read_text_file\u200b": "fs/read_text_file",
		"waitForTerminalExit": "terminal/wait_for_exit", "terminal/waitForExit": "terminal/wait_for_exit",
		"$/cancelRequest": "$/cancel_request", "session/elicitation": "elicitation/create",
		"read_text_file": "fs/read_text_file", "write_text_file": "fs/write_text_file", "request_permission": "session/request_permission",
		"_fs/read_text_file": "_fs/read_text_file", "fs/read_text_file2": "fs/read_text_file2", "": "", "unheard/of": "unheard/of",
		strings.Repeat("/", 300) + "prompt": strings.Repeat("/", 300) + "prompt",
	} {
		if got := string(Method([]byte(name))); got != want {
			t.Errorf("Method(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestResembles_FindsNamesLikeFileAndTerminalMethods(t *testing.T) {
	for name, want := range map[string]string{
		"fs/delete_file": "fs/write_text_file", "FS.stat": "fs/write_text_file", "terminal_input": "terminal/create",
		"writeTextFileV2": "fs/write_text_file", "editor/create-terminal": "terminal/create",
		// Of the protocol before its version 1.
		"readBinaryFile": "fs/read_text_file", "globSearch": "fs/list_directory", "requestToolCallConfirmation": "terminal/create",
		"pushToolCall": "", "streamAssistantMessageChunk": "",
		strings.Repeat("x", 1000) + "write_text_file": "fs/write_text_file",
		"_fs/delete_file": "", "cursor/ask_question": "", "files/list": "", "": "",
	} {
		if got := Resembles(Method([]byte(name))); got != want {
			t.Errorf("%.40q resembles %q, want %q", name, got, want)
		}
	}
}

func TestScanner_KnownMethodsAllocateNothing(t *testing.T) {
	var s Scanner
	var m jsonrpc.Message
	for _, method := range []string{"session/update", "fs/read_text_file", "sessionUpdate", "readTextFile"} {
		line := []byte(`{"jsonrpc":"2.0","method":"` + method + `","params":{"sessionId":"s"}}`)
		if n := testing.AllocsPerRun(100, func() { _ = s.Scan(line, &m) }); n > 0 {
			t.Errorf("%s: %v allocations", method, n)
		}
	}
}

func TestPermissionOption_InfersOnlyCertainKinds(t *testing.T) {
	for option, want := range map[string]PermissionOption{
		`{"optionId":"a","kind":"allow_once","name":"Yes"}`:      {"a", AllowOnce, "Yes"},
		`{"optionId":"a","kind":"allowAlways","label":"Always"}`: {"a", AllowAlways, "Always"},
		`{"optionId":"a","kind":"deny"}`:                         {"a", RejectOnce, ""},
		`{"id":"once","label":"Allow Once"}`:                     {"once", AllowOnce, "Allow Once"},
		`{"id":"always","label":"Always Allow"}`:                 {"always", AllowAlways, "Always Allow"},
		`{"id":"deny","label":"Deny"}`:                           {"deny", RejectOnce, "Deny"},
		`{"id":"reject","label":"Not now"}`:                      {"reject", RejectOnce, "Not now"},
		`{"id":"allow"}`:                                         {"allow", AllowOnce, ""},
		`"approve"`:                                              {"approve", AllowOnce, "approve"},
		`{"id":"allow","label":"Allow everything"}`:              {"allow", "", "Allow everything"},
		`{"id":"allow_always","label":"Allow"}`:                  {"allow_always", "", "Allow"},
		`{"id":"deny","label":"Allow"}`:                          {"deny", "", "Allow"},
		`{"id":"1","label":"Go"}`:                                {"1", "", "Go"},
		`{"id":"allow","label":"Allow","kind":"custom"}`:         {"allow", "custom", "Allow"},
		`{"id":"allow","label":"Allow","kind":true}`:             {"allow", "", "Allow"},
	} {
		if got, _, ok := ParsePermissionOption([]byte(option)); !ok || got != want {
			t.Errorf("%s is %+v (%v), want %+v", option, got, ok, want)
		}
	}
}

func TestParseAnswer_ChoosesAtMostOneOption(t *testing.T) {
	for result, want := range map[string]Answer{
		`{"outcome":{"outcome":"selected","optionId":"a"}}`:            {Option: "a"},
		`{"outcome":{"outcome":"selected","optionId":"a","_meta":{}}}`: {Option: "a"},
		`{"optionId":"a"}`:                                                 {Option: "a"},
		`{"outcome":{"optionId":"a"}}`:                                     {Option: "a"},
		`{"outcome":"selected","optionId":"a"}`:                            {Option: "a"},
		`{"outcome":{"outcome":"selected","optionId":"a"},"optionId":"a"}`: {Option: "a"},
		`{"outcome":{"outcome":"cancelled"}}`:                              {},
		`{"outcome":{"outcome":"cancelled","optionId":null}}`:              {},
		`{"outcome":"cancelled"}`:                                          {},
		`{"outcome":{"outcome":"selected","optionId":"a"},"optionId":"b"}`: {Unknown: "it names an option beside the outcome, and another one or none in it"},
		`{"outcome":{"outcome":"cancelled"},"optionId":"a"}`:               {Unknown: "it names an option beside the outcome, and another one or none in it"},
		`{"outcome":{"outcome":"cancelled","optionId":"a"}}`:               {Unknown: `its outcome is "cancelled" where "selected", or "cancelled" without an option, is expected`},
		`{"outcome":{"outcome":"selected"}}`:                               {Unknown: "it names no option"},
		`{"outcome":{"outcome":"selected","optionId":""}}`:                 {Unknown: "it names no option"},
		`{"outcome":{"outcome":"selected","optionId":1}}`:                  {Unknown: "its optionId is no text"},
		`{"outcome":{"outcome":"selected","optionId":"\ud800"}}`:           {Unknown: "its optionId is no text"},
		`{"outcome":"allow"}`:                                              {Unknown: `its outcome is "allow" where "selected", or "cancelled" without an option, is expected`},
		`{"outcome":[]}`:                                                   {Unknown: "its outcome is no text"},
		`{}`:                                                               {Unknown: "it names no option"},
		`null`:                                                             {Unknown: "the result is no object"},
		`"a"`:                                                              {Unknown: "the result is no object"},
		`{"outcome":{"outcome":"selected","optionId":"no"},"outcome":{"outcome":"selected","optionId":"a"}}`: {Ambiguous: `the name "outcome" occurs twice`},
		`{"outcome":{"outcome":"selected","optionId":"no","optionId":"a"}}`:                                  {Ambiguous: `the name "optionId" occurs twice`},
		`{"outcome":{"outcome":"cancelled","outcome":"selected","optionId":"a"}}`:                            {Ambiguous: `the name "outcome" occurs twice`},
		`{"outcome":{"outcome":"selected","optionId":"no","OptionID":"a"}}`:                                  {Ambiguous: `the name "OptionID" differs from "optionId" only in case`},
		`{"Outcome":{"outcome":"selected","optionId":"a"},"outcome":{"outcome":"cancelled"}}`:                {Ambiguous: `the name "Outcome" differs from "outcome" only in case`},
	} {
		got := ParseAnswer([]byte(result))
		if want.Ambiguous != "" {
			got.Ambiguous = got.Ambiguous[max(0, strings.Index(got.Ambiguous, "the name")):]
		}
		if got != want {
			t.Errorf("%s is read as %+v, want %+v", result, got, want)
		}
	}
	for _, made := range [][]byte{Selected("x\""), SelectedFlat("x\"")} {
		if Chosen(made) != "x\"" {
			t.Errorf("%s does not choose what it was made of", made)
		}
	}
}

// FuzzToday checks that what Today makes of valid JSON is valid JSON, and an update.
func FuzzToday(f *testing.F) {
	f.Add([]byte(`{"type":"tool_call","content":{"toolCall":{"id":"c","name":"bash","input":{},"status":"running"}}}`))
	f.Add([]byte(`{"type":"tool_result","toolResult":"x","content":[1]}`))
	f.Add([]byte(`{"type":"text","content":{"type":null}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if Members(b, func(string, []byte) bool { return true }) != nil {
			return
		}
		today := CurrentUpdate(b)
		if today == nil {
			return
		}
		kind := 0
		if err := Members(today, func(name string, _ []byte) bool {
			if name == "sessionUpdate" {
				kind++
			}
			return true
		}); err != nil || kind != 1 {
			t.Errorf("%s becomes %s: %v", b, today, err)
		}
	})
}

func TestNameLike_FollowsDialectOfPeer(t *testing.T) {
	for _, tt := range []struct{ method, like, want string }{
		{MethodRequestPermission, "newSession", "requestPermission"},
		{MethodRequestPermission, "acp/new_session", "acp/request_permission"},
		{MethodRequestPermission, "session/new", MethodRequestPermission},
		{MethodRequestPermission, "session/new_session", MethodRequestPermission},
		{MethodSessionUpdate, "loadSession", "sessionUpdate"},
		{"session/unheard_of", "newSession", "session/unheard_of"},
		{MethodRequestPermission, "", MethodRequestPermission},
	} {
		if got := NameLike(tt.method, tt.like); got != tt.want {
			t.Errorf("%s like %s: %s, want %s", tt.method, tt.like, got, tt.want)
		}
	}
}

func TestParseOpening_ReadsOlderNameOfFolder(t *testing.T) {
	for params, want := range map[string]string{
		`{"workingDirectory":"/w"}`:            "/w",
		`{"cwd":null,"workingDirectory":"/w"}`: "/w",
		`{"cwd":"/w","workingDirectory":"/w"}`: "/w",
		`{"cwd":"/w","workingDirectory":"/x"}`: "error",
		`{"workingDirectory":"w"}`:             "error",
		`{"cwd":"/w","workingDirectory":5}`:    "/w",
	} {
		o, err := ParseOpening([]byte(params))
		if got := o.Cwd; err != nil != (want == "error") || err == nil && got != want {
			t.Errorf("%s: %q, %v; want %s", params, got, err, want)
		}
	}
}

func TestPromptOf_ReadsOlderForms(t *testing.T) {
	for params, want := range map[string]string{
		`{"prompt":[{"type":"text","text":"a"}],"content":"b"}`: `[{"type":"text","text":"a"}]`,
		`{"content":"b"}`:                        `[{"type":"text","text":"b"}]`,
		`{"content":{"type":"text","text":"b"}}`: `[{"type":"text","text":"b"}]`,
		`{"content":[1]}`:                        `[1]`,
		`{}`:                                     ``,
	} {
		if got := string(PromptOf([]byte(params))); got != want {
			t.Errorf("%s: %s, want %s", params, got, want)
		}
	}
}
