package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

// passed is a frame as the link shows one that passes.
func passed(t testing.TB, d frame.Direction, line string) frame.Frame {
	t.Helper()
	var s jsonrpc.Scanner
	var m jsonrpc.Message
	f := frame.Frame{Direction: d, Line: []byte(line + "\n")}
	if jerr := s.Scan(f.Line, &m); jerr != nil {
		f.Handler = refused
		return f
	}
	if m.Kind != jsonrpc.KindBatch {
		f.Scanned, f.Method, f.ID, f.SessionID = true, m.Method, m.ID, m.SessionID
	}
	return f
}

// kept is what is kept of a frame.
func (s *Frames) kept(f frame.Frame) string {
	if s.MayHold(&f) {
		f = s.Redact(f)
	}
	return strings.TrimSuffix(string(bytes.Join(append([][]byte{f.Line}, f.Rest...), nil)), "\n")
}

func TestFrames_RedactsSecretsOnly(t *testing.T) {
	const client, agent, handler = frame.ClientToAgent, frame.AgentToClient, frame.AgentToHandler
	for _, tt := range []struct {
		name      string
		direction frame.Direction
		line      string
		want      string // empty: the same
	}{
		{"variables of an MCP server", client,
			`{"jsonrpc":"2.0", "id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[{"name":"a","command":"/x","args":["-v"],"env":[ {"name":"MODE", "value":"hush"} ,{"value":"hush","name":"B"}]}]}}`,
			`{"jsonrpc":"2.0", "id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[{"name":"a","command":"/x","args":["-v"],"env":[ {"name":"MODE", "value":"[redacted]"} ,{"value":"[redacted]","name":"B"}]}]}}`},
		{"headers of an MCP server", client,
			`{"id":1,"method":"session/load","params":{"sessionId":"s","mcpServers":[{"type":"http","name":"a","url":"https://x","headers":[{"name":"Authorization","value":"Bearer hush"}]}]}}`,
			`{"id":1,"method":"session/load","params":{"sessionId":"s","mcpServers":[{"type":"http","name":"a","url":"https://x","headers":[{"name":"Authorization","value":"[redacted]"}]}]}}`},
		{"arguments of an MCP server", client,
			`{"id":1,"method":"session/new","params":{"mcpServers":[{"command":"npx","args":["-y","mcp","--api-key","hush","--t\u006fken=hu \"sh","--header","Authorization: Bearer hush","--port","80",{"token":"hush"}],"env":[]}]}}`,
			`{"id":1,"method":"session/new","params":{"mcpServers":[{"command":"npx","args":["-y","mcp","--api-key","[redacted]","--token=[redacted]","--header","Authorization: Bearer [redacted]","--port","80",{"token":"[redacted]"}],"env":[]}]}}`},
		{"the address of an MCP server", client,
			`{"id":1,"method":"session/new","params":{"mcpServers":[{"type":"http","url":"https://me:hush@x/mcp?api_key=hush&v=1"},{"url":"https://x/mcp"}]}}`,
			`{"id":1,"method":"session/new","params":{"mcpServers":[{"type":"http","url":"https://me:[redacted]@x/mcp?api_key=[redacted]&v=1"},{"url":"https://x/mcp"}]}}`},
		{"a session that is resumed", client,
			`{"id":1,"method":"session/resume","params":{"mcpServers":[{"env":[{"name":"A","value":"hush"}]}]}}`,
			`{"id":1,"method":"session/resume","params":{"mcpServers":[{"env":[{"name":"A","value":"[redacted]"}]}]}}`},
		{"a session that is forked", client,
			`{"id":1,"method":"session/fork","params":{"mcpServers":[{"env":[{"name":"A","value":"hush"}]}]}}`,
			`{"id":1,"method":"session/fork","params":{"mcpServers":[{"env":[{"name":"A","value":"[redacted]"}]}]}}`},
		{"an escaped method and escaped names", client,
			`{"id":1,"method":"session\/new","params":{"mcpServers":[{"en\u0076":[{"name":"A","v\u0061lue":"hush"}]}]}}`,
			`{"id":1,"method":"session\/new","params":{"mcpServers":[{"en\u0076":[{"name":"A","v\u0061lue":"[redacted]"}]}]}}`},
		{"names in another case, and twice", client,
			`{"id":1,"method":"session/new","params":{"mcpservers":[{"ENV":[{"name":"A","VALUE":"hush"}],"env":[]}],"mcpServers":[{"headerſ":[{"name":"A","value":"hush"}]}]}}`,
			`{"id":1,"method":"session/new","params":{"mcpservers":[{"ENV":[{"name":"A","VALUE":"[redacted]"}],"env":[]}],"mcpServers":[{"headerſ":[{"name":"A","value":"[redacted]"}]}]}}`},
		{"two names of one variable", client,
			`{"id":1,"method":"session/new","params":{"mcpServers":[{"env":[{"name":"A","Name":"hush"},{"name":"hush","name":"hush","value":1}]}]}}`,
			`{"id":1,"method":"session/new","params":{"mcpServers":[{"env":[{"name":"[redacted]","Name":"[redacted]"},{"name":"[redacted]","name":"[redacted]","value":"[redacted]"}]}]}}`},
		{"values that are no strings", client,
			`{"id":1,"method":"session/new","params":{"mcpServers":[{"env":[{"name":"A","value":12345},{"name":"A","value":{"x":["hush"]}},{"name":"A","value":null},"A=hush",7,[{"value":"hush"}]]},{"env":"hush"},{"env":null}]}}`,
			`{"id":1,"method":"session/new","params":{"mcpServers":[{"env":[{"name":"A","value":"[redacted]"},{"name":"A","value":"[redacted]"},{"name":"A","value":null},"[redacted]","[redacted]","[redacted]"]},{"env":"[redacted]"},{"env":null}]}}`},
		{"variables by name", client,
			`{"id":1,"method":"session/new","params":{"mcpServers":{"a":{"env":{"A":"hush","B":{"value":"hush"}}}}}}`,
			`{"id":1,"method":"session/new","params":{"mcpServers":{"a":{"env":{"A":"[redacted]","B":"[redacted]"}}}}}`},
		{"a name that is no string", client,
			`{"id":1,"method":"session/new","params":{"mcpServers":[{"env":[{"name":["hush"],"value":"hush"}]}]}}`,
			`{"id":1,"method":"session/new","params":{"mcpServers":[{"env":[{"name":"[redacted]","value":"[redacted]"}]}]}}`},
		{"what extensions say, by names", client,
			`{"id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[],"_meta":{"x.y/o":{"env":{"A":"hush"},"apiKey":"hush","max_tokens":4096,"credentials":{"list":["hush",1]},"model":"m"}}}}`,
			`{"id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[],"_meta":{"x.y/o":{"env":{"A":"[redacted]"},"apiKey":"[redacted]","max_tokens":4096,"credentials":{"list":["[redacted]",1]},"model":"m"}}}}`},
		{"a session without secrets", client, `{"id":1,"method":"session/new","params":{ "cwd" : "/w", "mcpServers":[ ],"n":1.0e3}}`, ""},
		{"a notification that should be a request", client,
			`{"method":"session/new","params":{"mcpServers":[{"env":[{"name":"A","value":"hush"}]}]}}`,
			`{"method":"session/new","params":{"mcpServers":[{"env":[{"name":"A","value":"[redacted]"}]}]}}`},

		{"params that are repeated in an error", agent,
			`{"id":1,"error":{"code":-32602,"message":"no","data":{"params":{"cwd":"/w","mcpServers":[{"args":["--token","hush"],"env":[{"name":"A","value":"hush"}]}]}}}}`,
			`{"id":1,"error":{"code":-32602,"message":"no","data":{"params":{"cwd":"/w","mcpServers":[{"args":["--token","[redacted]"],"env":[{"name":"A","value":"[redacted]"}]}]}}}}`},
		{"a part of params that is repeated in an error", agent,
			`{"id":1,"error":{"code":-32602,"data":[{"loc":["mcpServers",0,"env",0],"msg":"no","input":{"name":"A","value":"hush"}},{"input":"hush"}]}}`,
			`{"id":1,"error":{"code":-32602,"data":[{"loc":["mcpServers",0,"env",0],"msg":"no","input":"[redacted]"},{"input":"[redacted]"}]}}`},
		{"another error", agent, `{"id":1,"error":{"code":-32000,"message":"no","data":{"details":"the token has run out","tokens":12,"acphost":{"kind":"gone"}}}}`, ""},
		{"an answer of the agent's", agent, `{"id":1,"result":{"error":{"data":{"env":{"A":"x"}}}}}`, ""},
		{"a login", client, `{"id":1,"method":"authenticate","params":{"methodId":"key","_meta":{"a":"hush"},"key":"hush","n":1,"none":null}}`,
			`{"id":1,"method":"authenticate","params":{"methodId":"key","_meta":"[redacted]","key":"[redacted]","n":"[redacted]","none":null}}`},
		{"a login by two methods", client, `{"id":1,"method":"authenticate","params":{"methodId":"hush","methodID":"key"}}`,
			`{"id":1,"method":"authenticate","params":{"methodId":"[redacted]","methodID":"[redacted]"}}`},
		{"a login that is no object", client, `{"id":1,"method":"authenticate","params":["hush"]}`, `{"id":1,"method":"authenticate","params":"[redacted]"}`},
		{"a login of version 2", client, `{"id":1,"method":"auth/login","params":{"methodId":"key","token":"hush"}}`,
			`{"id":1,"method":"auth/login","params":{"methodId":"key","token":"[redacted]"}}`},
		{"a provider", client, `{"id":1,"method":"providers/set","params":{"providerId":"main","baseUrl":"https://x","headers":{"X-Key":"hush"}}}`,
			`{"id":1,"method":"providers/set","params":{"providerId":"main","baseUrl":"https://x","headers":{"X-Key":"[redacted]"}}}`},

		{"variables of a command", handler,
			`{"id":1,"method":"terminal/create","params":{"sessionId":"s","command":"x","env":[{"name":"GITHUB_TOKEN","value":"hush"},{"name":"LANG","value":"C"},{"value":"hush","name":"X_API_KEY"}]}}`,
			`{"id":1,"method":"terminal/create","params":{"sessionId":"s","command":"x","env":[{"name":"GITHUB_TOKEN","value":"[redacted]"},{"name":"LANG","value":"C"},{"value":"[redacted]","name":"X_API_KEY"}]}}`},
		{"a variable that the configuration denies", agent, `{"id":1,"method":"terminal/create","params":{"env":[{"name":"MY_OWN","value":"hush"}]}}`,
			`{"id":1,"method":"terminal/create","params":{"env":[{"name":"MY_OWN","value":"[redacted]"}]}}`},
		{"a secret's name that is escaped", handler, `{"id":1,"method":"terminal/create","params":{"env":[{"name":"A_TO\u004bEN","value":"hush"}]}}`,
			`{"id":1,"method":"terminal/create","params":{"env":[{"name":"A_TO\u004bEN","value":"[redacted]"}]}}`},
		{"variables of a command that can be read in two ways", handler,
			`{"id":1,"method":"terminal/create","params":{"env":[{"name":"LANG","name":"A_TOKEN","value":"hush"},{"name":"LANG","Name":"A_TOKEN","value":"hush"},{"name":"LANG","value":"hush","value":"hush"},{"name":"LANG","VALUE":"hush"},{"value":"hush"},{"name":1,"value":"hush"}]}}`,
			`{"id":1,"method":"terminal/create","params":{"env":[{"name":"LANG","name":"A_TOKEN","value":"[redacted]"},{"name":"LANG","Name":"A_TOKEN","value":"[redacted]"},{"name":"LANG","value":"[redacted]","value":"[redacted]"},{"name":"LANG","VALUE":"[redacted]"},{"value":"[redacted]"},{"name":1,"value":"[redacted]"}]}}`},
		{"variables of a command in other forms", handler,
			`{"id":1,"method":"terminal/create","params":{"env":{"A_TOKEN":"hush","LANG":"C"},"Env":["A_TOKEN=hush"],"\u0065nv":"hush"}}`,
			`{"id":1,"method":"terminal/create","params":{"env":{"A_TOKEN":"[redacted]","LANG":"C"},"Env":["[redacted]"],"\u0065nv":"[redacted]"}}`},
		{"a terminal's output", handler, `{"id":1,"method":"terminal/output","params":{"env":{"A_TOKEN":"x"}}}`, ""},
		{"a variable that a person is shown", frame.OursToClient,
			`{"id":"q","method":"session/request_permission","params":{"toolCall":{"content":[{"text":"x\n# with LANG=C\n# with A_TOKEN=hu \"\\\\sh\n# in /w"}]}}}`,
			`{"id":"q","method":"session/request_permission","params":{"toolCall":{"content":[{"text":"x\n# with LANG=C\n# with A_TOKEN=[redacted]\n# in /w"}]}}}`},

		{"a batch", client, `[{"id":1,"method":"session/new","params":{"mcpServers":[{"env":[{"name":"A","value":"hush"}]}]}}, {"id":2,"method":"session/list"},{"id":3,"method":"x","method":"authenticate","params":"hush"}]`,
			`[{"id":1,"method":"session/new","params":{"mcpServers":[{"env":[{"name":"A","value":"[redacted]"}]}]}}, {"id":2,"method":"session/list"},"[redacted]"]`},
		{"two methods", client, `{"id":1,"method":"session/new","method":"x","params":"hush"}`, `"[redacted: 61 bytes that cannot be read for certain]"`},
		{"params in another case", client, `{"id":1,"method":"authenticate","Params":{"key":"hush"}}`, `"[redacted: 57 bytes that cannot be read for certain]"`},
		{"no JSON from the front", client, `"hush"}]}`, `"[redacted: 10 bytes that cannot be read for certain]"`},
		{"a torn message of the agent's", agent, `{"method":"terminal/create","params":{"env":[{"value":"hush`, `"[redacted: 60 bytes that cannot be read for certain]"`},
		{"a message of the agent's with two methods", agent, `{"method":"terminal/create","METHOD":"x","params":["hush"]}`, `"[redacted: 60 bytes that cannot be read for certain]"`},
		{"a batch of the agent's, which is refused", agent, `[{"method":"terminal/create","METHOD":"x","params":["hush"]}]`, `["[redacted]"]`},
		{"what an agent logs in JSON", agent, `{"level":"info", "msg":"it begins","token":"hush"}`, `{"level":"info", "msg":"it begins","token":"[redacted]"}`},
		{"what an agent logs", agent, `starting with API_TOKEN=hush, and 2 more`, `starting with API_TOKEN=[redacted], and 2 more`},

		{"a prompt", client, `{"id":1,"method":"session/prompt","params":{"prompt":[{"env":[{"name":"A","value":"x"}],"token":"x"}]}}`, ""},
		{"what extensions say of a turn, by names", client,
			`{"id":1,"method":"session/prompt","params":{"prompt":[{"apiKey":"x","_meta":{"apiKey":"x"}}],"\u005fmeta":{"x.y/o":{"apiKey":"hush"},"env":{"A":"hush"},"model":"m"}}}`,
			`{"id":1,"method":"session/prompt","params":{"prompt":[{"apiKey":"x","_meta":{"apiKey":"x"}}],"\u005fmeta":{"x.y/o":{"apiKey":"[redacted]"},"env":{"A":"[redacted]"},"model":"m"}}}`},
		{"an update", agent, `{"method":"session/update","params":{"update":{"env":[{"name":"A_TOKEN","value":"x"}]}}}`, ""},
		{"an answer that nobody asked for", client, `{"id":1,"result":{"content":{"a":"x"}}}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == "" {
				tt.want = tt.line
			}
			if got := NewFrames([]string{"MY_*"}).kept(passed(t, tt.direction, tt.line)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			// As the link shows some frames, without having looked at them.
			if f := passed(t, tt.direction, tt.line); f.Scanned {
				f.Scanned, f.Method, f.ID, f.SessionID = false, nil, nil, nil
				if got := NewFrames([]string{"MY_*"}).kept(f); got != tt.want {
					t.Errorf("not scanned:\ngot  %s\nwant %s", got, tt.want)
				}
			}
		})
	}
}

func TestName_MatchesVariablesHiddenFromTerminals(t *testing.T) {
	for _, name := range []string{"X_API_KEY", "_API_KEY", "X_TOKEN", "X_SECRET", "_SECRET", "a b_TOKEN"} { // see termd's env_deny
		if !Name(name) {
			t.Errorf("%q counts as no secret", name)
		}
	}
	m := matching([]string{"A.*_B", "C"})
	for name, want := range map[string]bool{"A.x_B": true, "A._B": true, "Ax_B": false, "A.x_Bc": false, "C": true, "CC": false, "A.\n_B": true} {
		if m.MatchString(name) != want {
			t.Errorf("%q matches: %v, want %v", name, !want, want)
		}
	}
	if !matching([]string{"A\xff"}).MatchString("AB") {
		t.Error("a pattern that is no text matches less than it may mean")
	}
}

// form is a question with one field.
func ask(id, field, schema string) string {
	return fmt.Sprintf(`{"id":%s,"method":"elicitation/create","params":{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{"plain":{"type":"string"},%q:%s}}}}`, id, field, schema)
}

func TestFrames_RedactsAnswersWithSecrets(t *testing.T) {
	for _, tt := range []struct{ name, field, schema, value string }{
		{"a format", "code", `{"type":"string","format":"password"}`, `"hush"`},
		{"an escaped format", "code", `{"type":"string","f\u006frmat":"p\u0061ssword"}`, `"hush"`},
		{"what is only written", "code", `{"type":"string","writeOnly":true}`, `"hush"`},
		{"a mark of an extension", "code", `{"type":"string","_meta":{"acme.com/form":{"sensitive":true}}}`, `"hush"`},
		{"a way to enter it", "code", `{"type":"string","x-widget":"password"}`, `"hush"`},
		{"a name", "githubToken", `{"type":"string"}`, `"hush"`},
		{"a title", "code", `{"type":"string","title":"Your API key"}`, `"hush"`},
		{"a number", "pin", `{"type":"integer"}`, `1234`},
		{"a list", "secrets", `{"type":"array","items":{"enum":["hush"]}}`, `["hush"]`},
		{"a schema with two readings", "code", `{"type":"string","type":"string"}`, `"hush"`},
		{"a schema that is none", "code", `7`, `"hush"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := NewFrames(nil)
			question := ask("1", tt.field, tt.schema)
			if got := s.kept(passed(t, frame.AgentToClient, question)); got != question {
				t.Errorf("the question is kept as %s", got)
			}
			answer := func(value, plain string) string {
				return fmt.Sprintf(`{"id": 1,"result":{"action":"accept","content":{"plain":%s, %q:%s}}}`, plain, tt.field, value)
			}
			plain := `"p"`
			if strings.Contains(tt.name, "two readings") { // nothing of it is certain
				plain = `"[redacted]"`
			}
			if got, want := s.kept(passed(t, frame.ClientToAgent, answer(tt.value, `"p"`))), answer(`"[redacted]"`, plain); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if s.questionsOpen.Load() {
				t.Error("the question is open though it was answered")
			}
		})
	}
}

func TestFrames_RedactsUncertainAnswers(t *testing.T) {
	const client, ours = frame.ClientToAgent, frame.OursToAgent
	secretly := ask(`"a"`, "code", `{"format":"password"}`)
	const kept = `{"id":"a","result":{"action":"accept","content":{"code":"[redacted]"}}}`
	answer := strings.ReplaceAll(kept, Redacted, "hush")
	for _, tt := range []struct {
		name      string
		before    []string // of the agent's
		direction frame.Direction
		line      string
		want      string
	}{
		{"an id that is spelled otherwise", []string{secretly}, client, strings.ReplaceAll(answer, `"a"`, `"\u0061"`), strings.ReplaceAll(kept, `"a"`, `"\u0061"`)},
		{"an answer by another way", []string{secretly}, ours, answer, kept},
		{"a field that was not asked for", []string{ask(`"a"`, "x", `{}`)}, client, answer, kept},
		{"a plain question with the id of a secret one", []string{secretly, ask(`"a"`, "code", `{}`)}, client, answer, kept},
		{"a secret question with the id of a plain one", []string{ask(`"a"`, "code", `{}`), secretly}, client, answer, kept},
		{"a question without a schema", []string{`{"id":"a","method":"elicitation/create","params":{"mode":"form"}}`}, client, answer, kept},
		{"two schemas", []string{`{"id":"a","method":"elicitation/create","params":{"requestedSchema":{"properties":{"code":{}}},"RequestedSchema":{"properties":{"code":{"format":"password"}}}}}`}, client, answer, kept},
		{"a large question", []string{ask(`"a"`, "code", `{"description":"`+strings.Repeat("x", maxForm)+`"}`)}, client, answer, kept},
		{"content in another case", []string{secretly}, client, strings.Replace(answer, "content", "Content", 1), strings.Replace(kept, "content", "Content", 1)},
		{"content that is no object", []string{secretly}, client, `{"id":"a","result":{"action":"accept","content":"hush"}}`, `{"id":"a","result":{"action":"accept","content":"[redacted]"}}`},
		{"a result that is no object", []string{secretly}, client, `{"id":"a","result":"hush"}`, `{"id":"a","result":"[redacted]"}`},
		{"what is beside the content", []string{secretly}, client, `{"id":"a","result":{"action":"accept","_meta":{"x":"hush","n":1}}}`, `{"id":"a","result":{"action":"accept","_meta":{"x":"[redacted]","n":1}}}`},
		{"another question's answer", []string{secretly}, client, `{"id":"b","result":{"content":{"code":"x"}}}`, `{"id":"b","result":{"content":{"code":"x"}}}`},
		{"a plain question's answer", []string{ask(`"a"`, "code", `{}`)}, client, answer, answer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := NewFrames(nil)
			for _, line := range tt.before {
				s.kept(passed(t, frame.AgentToClient, line))
			}
			f := passed(t, tt.direction, tt.line)
			if tt.direction == ours { // which the link has not looked at
				f = frame.Frame{Direction: ours, Line: f.Line}
			}
			if got := s.kept(f); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	t.Run("a request that was refused for its id", func(t *testing.T) {
		s := NewFrames(nil)
		s.kept(passed(t, frame.AgentToClient, secretly))
		s.kept(frame.Frame{Direction: ours, Line: []byte(`{"id":"a","error":{"code":-32600,"message":"the id \"a\" is in flight already"}}`)})
		if got := s.kept(passed(t, client, answer)); got != kept {
			t.Errorf("got %s", got)
		}
	})
	t.Run("more questions than are remembered", func(t *testing.T) {
		s := NewFrames(nil)
		for i := range maxForms + 1 {
			s.kept(passed(t, frame.AgentToClient, ask(fmt.Sprint(i), "code", `{}`)))
		}
		line := fmt.Sprintf(`{"id":%d,"result":{"content":{"code":"hush"}}}`, maxForms)
		if got := s.kept(passed(t, client, line)); strings.Contains(got, "hush") {
			t.Errorf("got %s", got)
		}
		s.kept(frame.Frame{Direction: client, Line: []byte(`{"id":0,"method":"initialize","params":{}}`)})
		if got := s.kept(passed(t, client, line)); got != line {
			t.Errorf("of another process it is %s", got)
		}
	})
	t.Run("an answer of a handler", func(t *testing.T) {
		s := NewFrames(nil)
		f := passed(t, frame.AgentToHandler, secretly)
		f.Handler = "forms"
		s.kept(f)
		if got := s.kept(frame.Frame{Direction: frame.HandlerToAgent, Handler: "forms", Line: []byte(answer[:30]), Rest: [][]byte{[]byte(answer[30:])}}); got != kept {
			t.Errorf("got %s", got)
		}
	})
}

// spelling writes JSON in odd ways that mean the same to somebody.
type spelling struct{ *rand.Rand }

func (s spelling) text(v string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range v {
		switch s.IntN(4) {
		case 0:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func (s spelling) key(v string) string {
	if s.IntN(3) == 0 {
		v = strings.ToUpper(v)
	}
	return s.text(v) + strings.Repeat(" ", s.IntN(2)) + ":" + strings.Repeat("\t", s.IntN(2))
}

// noise are members that mean nothing.
func (s spelling) noise() string {
	return []string{"", `"x":{"a":[1,{"b":"}]\""}]},`, `"y":"\\",`, "\n", `"env":[],`, `"name":{},`}[s.IntN(6)]
}

func (s spelling) value() string {
	return []string{`"hush"`, `"hu\"sh hush"`, `{"a":"hush"}`, `["hush"]`, `{"hush":1}`}[s.IntN(5)]
}

func TestFrames_RedactsVariablesInAnySpelling(t *testing.T) {
	for seed := range uint64(3000) {
		s := spelling{rand.New(rand.NewPCG(seed, 1))}
		entry := fmt.Sprintf(`{%s%s%s,%s%s}`, s.noise(), s.key("value"), s.value(), s.key("name"), s.text("A"))
		line := fmt.Sprintf(`{"id":1,"method":%s,"params":{%s%s[{%s%s[%s]}]}}`, s.text("session/new"), s.noise(), s.key("mcpServers"), s.noise(), s.key([]string{"env", "headers"}[s.IntN(2)]), entry)
		f := passed(t, frame.ClientToAgent, line)
		got := NewFrames(nil).kept(f)
		if strings.Contains(got, "hush") || !json.Valid([]byte(got)) {
			t.Fatalf("%s\nis kept as\n%s", line, got)
		}
	}
}

func TestFrames_HostileFrameIsFast(t *testing.T) {
	const depth = 9000
	deep := strings.Repeat(`{"token":`, depth) + `"` + strings.Repeat("x", 2<<20) + `"` + strings.Repeat("}", depth)
	f := passed(t, frame.ClientToAgent, `{"id":1,"method":"session/new","params":{"_meta":`+deep+`}}`)
	if got := NewFrames(nil).kept(f); len(got) > 1<<20 {
		t.Errorf("%d bytes are kept", len(got))
	}
	for name, line := range map[string]string{
		"many variables": `{"id":1,"method":"terminal/create","params":{"env":[` + strings.Repeat(`"A_TOKEN=hush",`, 1<<19) + `1],"sessionId":"s"}}`,
		"many names":     `{"id":1,"method":"terminal/create","params":{"sessionId":"s","env":{` + strings.Repeat(`"":1,`, 1<<19) + `"A_TOKEN":"hush"}}}`,
		"many members":   `{"id":1,"method":"terminal/create","params":{` + strings.Repeat(`"":1,`, 1<<19) + `"sessionId":"s","env":{"A_TOKEN":"hush"}}}`,
	} {
		if got, want := NewFrames(nil).kept(passed(t, frame.AgentToHandler, line)), `{"id":1,"method":"terminal/create","params":{"redacted":"[redacted]","sessionId":"s"}}`; got != want {
			t.Errorf("of %s is kept %.200s", name, got)
		}
	}
	words := `{"id":1,"method":"session/new","params":{"mcpServers":[{"args":[` + strings.Repeat(`"`+strings.Repeat("a-token ", 5000)+`",`, 200) + `"--token","hush"]}]}}`
	if got, want := NewFrames(nil).kept(passed(t, frame.ClientToAgent, words)), `{"id":1,"method":"session/new","params":{"redacted":"[redacted]"}}`; got != want {
		t.Errorf("of many words is kept %.200s", got)
	}
	word := `{"id":1,"method":"session/new","params":{"mcpServers":[{"args":["` + strings.Repeat("a-token ", 1<<20) + `hush"]}]}}`
	if got, want := NewFrames(nil).kept(passed(t, frame.ClientToAgent, word)), `{"id":1,"method":"session/new","params":{"mcpServers":[{"args":["[redacted]"]}]}}`; got != want {
		t.Errorf("of a long word is kept %.200s", got)
	}
	answers := NewFrames(nil)
	answers.kept(passed(t, frame.AgentToClient, ask("1", "code", `{"format":"password"}`)))
	answer := `{"id":1,"result":{"content":{` + strings.Repeat(`"code":1,`, 1<<20) + `"code":"hush"}}}`
	if got := answers.kept(passed(t, frame.ClientToAgent, answer)); got != `{"id":1,"result":"[redacted]"}` {
		t.Errorf("of a long answer is kept %.200s", got)
	}
	marks := `{"a":` + strings.Repeat(`{"a":`, 2000) + `1` + strings.Repeat("}", 2000) + "}"
	s := NewFrames(nil)
	for range 20 {
		s.kept(passed(t, frame.AgentToClient, ask("1", "code", marks)))
	}
}

func BenchmarkMayHold(b *testing.B) {
	s := NewFrames(nil)
	f := passed(b, frame.AgentToClient, `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk"}}}`)
	b.ReportAllocs()
	for b.Loop() {
		if s.MayHold(&f) {
			b.Fatal("it may")
		}
	}
}

func FuzzFrames(f *testing.F) {
	for _, line := range []string{
		`{"id":1,"method":"session/new","params":{"mcpServers":[{"env":[{"name":"A","value":"x"}]}]}}`,
		`{"id":1,"method":"authenticate","params":{"methodId":"a","x":1}}`,
		`[{"id":1,"method":"session/new","params":{"headers":{"a":1}}}]`,
		`{"id":1,"method":"terminal/create","params":{"env":[{"name":"A_TOKEN","value":"x"}]}}`,
		`{"id":1,"result":{"content":{"code":"x"}}}`, ask("1", "code", `{"format":"password"}`),
		`{"a":"\n# with A_TOKEN=x\\"}`,
	} {
		for d := frame.AgentToClient; d <= frame.ClientToOurs; d++ {
			f.Add(byte(d), line, true)
			f.Add(byte(d), line, false)
		}
	}
	f.Fuzz(func(t *testing.T, d byte, line string, scanned bool) {
		s := NewFrames(nil)
		s.kept(passed(t, frame.AgentToClient, ask("1", "code", `{"format":"password"}`)))
		fr := passed(t, frame.Direction(d), line)
		if !scanned {
			fr = frame.Frame{Direction: fr.Direction, Handler: fr.Handler, Line: fr.Line}
		}
		before := string(fr.Line)
		got := s.kept(fr)
		if json.Valid([]byte(line)) && !json.Valid([]byte(got)) {
			t.Errorf("%q became %q, which is no JSON", line, got)
		}
		if string(fr.Line) != before {
			t.Error("the line that passes was changed")
		}
	})
}
