package programs

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
)

func TestMeta_IsSentUnchanged(t *testing.T) {
	r := newRig(t, nil)
	_, a := r.start()
	ctx := t.Context()
	if _, err := r.NewSession(ctx, &supervisorv1.NewSessionRequest{AgentId: "bot", Cwd: "/w", Meta: "{ \"b\": 1.50,\n\t\"a\": \"\\u0041\u2028\", \"sessionId\": \"x\" }\n"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.LoadSession(ctx, &supervisorv1.LoadSessionRequest{AgentId: "bot", SessionId: "old", Cwd: "/w", Meta: `{"n":"load"}`}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ResumeSession(ctx, &supervisorv1.ResumeSessionRequest{AgentId: "bot", SessionId: "older", Cwd: "/w", Meta: `{"n":"resume"}`}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ForkSession(ctx, &supervisorv1.ForkSessionRequest{SessionId: "s1", Meta: `{"n":"fork"}`}); err != nil {
		t.Fatal(err)
	}
	prompt := promptOf("s1", "hello")
	prompt.Meta = `{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`
	if err := r.Prompt(ctx, prompt, func(*supervisorv1.Event) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ method, want string }{
		{"session/new", `{"cwd":"/w","mcpServers":[],"_meta":{"b":1.50,"a":"\u0041\u2028","sessionId":"x"}}`},
		{"session/load", `{"sessionId":"old","cwd":"/w","mcpServers":[],"_meta":{"n":"load"}}`},
		{"session/resume", `{"sessionId":"older","cwd":"/w","mcpServers":[],"_meta":{"n":"resume"}}`},
		{"session/fork", `{"sessionId":"s1","cwd":"/w","mcpServers":[],"_meta":{"n":"fork"}}`},
		{"session/prompt", `{"sessionId":"s1","prompt":[{"type":"text","text":"hello"}],"_meta":` + prompt.GetMeta() + `}`},
	} {
		if got := string(a.next(tt.method).Params); got != tt.want {
			t.Errorf("%s: got\n%s, want\n%s", tt.method, got, tt.want)
		}
	}
}

func TestMeta_RejectsInvalid(t *testing.T) {
	r := newRig(t, nil)
	_, a := r.start()
	r.open("bot")
	a.next("session/new")
	ctx := t.Context()
	deep := func(n int) string { return strings.Repeat(`{"a":`, n-1) + "{}" + strings.Repeat("}", n-1) }
	for name, tt := range map[string]struct{ meta, want string }{
		"a list":                      {`[]`, "another value"},
		"a string":                    {`"{}"`, "another value"},
		"nothing":                     {`null`, "another value"},
		"white space":                 {" \n", "not one JSON object"},
		"no JSON":                     {`{a:1}`, "not one JSON object"},
		"one that ends early":         {`{"a":{}`, "not one JSON object"},
		"two":                         {`{} {}`, "something comes after it"},
		"one that ends its member":    {`{}},"sessionId":"x"`, "something comes after it"},
		"a name twice":                {`{"a":1,"a":2}`, "duplicate"},
		"a name twice, spelled apart": {`{"a":1,"\u0061":2}`, "duplicate"},
		"a name twice, further in":    {`{"x":[{"a":1,"a":2}]}`, "duplicate"},
		"half a character":            {`{"a":"\ud800"}`, "not one JSON object"},
		"one that is too deep":        {deep(event.MaxMetaDepth + 1), "too deep"},
		"one that is too large":       {`{"a":"` + strings.Repeat("a", maxMeta) + `"}`, "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			prompt := promptOf("s1", "hello")
			prompt.Meta = tt.meta
			for _, err := range []error{
				second(r.NewSession(ctx, &supervisorv1.NewSessionRequest{AgentId: "bot", Cwd: "/w", Meta: tt.meta})),
				second(r.LoadSession(ctx, &supervisorv1.LoadSessionRequest{AgentId: "bot", SessionId: "x", Cwd: "/w", Meta: tt.meta})),
				second(r.ResumeSession(ctx, &supervisorv1.ResumeSessionRequest{AgentId: "bot", SessionId: "x", Cwd: "/w", Meta: tt.meta})),
				second(r.ForkSession(ctx, &supervisorv1.ForkSessionRequest{SessionId: "s1", Meta: tt.meta})),
				r.Prompt(ctx, prompt, nil),
			} {
				wantFault(t, err, fault.Invalid, noKind, "meta", tt.want)
			}
		})
	}
	// This request is sent after all earlier messages.
	if _, err := r.NewSession(ctx, &supervisorv1.NewSessionRequest{AgentId: "bot", Cwd: "/w", Meta: deep(event.MaxMetaDepth)}); err != nil {
		t.Errorf("one that is as deep as may be: %v", err)
	}
	if m := <-a.got; m.Method != "session/new" || !bytes.Contains(m.Params, []byte(deep(event.MaxMetaDepth))) {
		t.Errorf("the agent got %s", m.Method)
	}
}

func TestMeta_IsSentAgainOnResume(t *testing.T) {
	const meta = `{"claudeCode":{"options":{"settingSources":["user"]}}}`
	for method, initialize := range map[string]string{
		"session/resume": everything, "session/load": `{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}`,
	} {
		t.Run(method, func(t *testing.T) {
			r := newRig(t, map[string]part{"initialize": answer(initialize)})
			_, a := r.start()
			s, err := r.NewSession(t.Context(), &supervisorv1.NewSessionRequest{AgentId: "bot", Cwd: "/w", Meta: meta})
			if err != nil {
				t.Fatal(err)
			}
			prompt := promptOf(s.GetSessionId(), "hello")
			prompt.Meta = `{"of":"the turn"}`
			if err := r.Prompt(t.Context(), prompt, func(*supervisorv1.Event) error { return nil }); err != nil {
				t.Fatal(err)
			}
			a.crash()
			if got, want := string(r.latest().next(method).Params), `{"sessionId":"s1","cwd":"/w","mcpServers":[],"_meta":`+meta+`}`; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			r.until("bot", running, 1)
		})
	}
}

func TestMeta_OpenSessionNeedsSameMeta(t *testing.T) {
	r := newRig(t, nil)
	_, a := r.start()
	resume := func(meta string) error {
		return second(r.ResumeSession(t.Context(), &supervisorv1.ResumeSessionRequest{AgentId: "bot", SessionId: "x", Cwd: "/w", Meta: meta}))
	}
	if err := resume(`{"a":1}`); err != nil {
		t.Fatal(err)
	}
	a.next("session/resume")
	if err := resume(`{ "a": 1 }`); err != nil || a.saw("session/resume") {
		t.Errorf("with the same: %v", err)
	}
	wantFault(t, resume(`{"a":2}`), fault.Precondition, noKind, "open already")
	wantFault(t, resume(""), fault.Precondition, noKind, "open already")
}

func FuzzMeta_IsOneMemberOfLine(f *testing.F) {
	f.Add(`{"claudeCode":{"options":{"settingSources":["user"]}}}`)
	f.Add("{\"a\u2028\":\t[1.0e1, \"\\u2029\"]}\r\n")
	f.Add(`{"a":1,"\u0061":2}`)
	f.Add(`{}},"x":{`)
	f.Add(`{"":[1e1000,12345678901234567890]}`)
	f.Fuzz(func(t *testing.T, text string) {
		meta, err := newMeta("test", text)
		if err != nil || text == "" {
			return
		}
		line := append(appendMeta([]byte(`{"x":1`), meta), '}')
		if bytes.ContainsAny(line, "\r\n\u2028\u2029") {
			t.Errorf("%q is more than a line", line)
		}
		var params struct {
			Meta json.RawMessage `json:"_meta"`
		}
		var got, want map[string]any
		if err := withNumbers([]byte(text), &want); err != nil || want == nil {
			t.Fatalf("%q was taken: %v", text, err)
		}
		if err := json.Unmarshal(line, &params); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if err := withNumbers(params.Meta, &got); err != nil {
			t.Fatal(err)
		}
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		if !bytes.Equal(g, w) {
			t.Errorf("got %s, want %s", g, w)
		}
	})
}

// withNumbers reads JSON with any numbers, including those that no float64 holds.
func withNumbers(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}
