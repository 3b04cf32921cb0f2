package jsonrpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"
)

// update300 is a session/update as agents send them by the thousand.
var update300 = []byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"sess_0123456789abcdef",` +
	`"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` +
	strings.Repeat("The quick brown fox. ", 6) + `"}}}}` + "\n")

func TestScan_Members(t *testing.T) {
	const absent = "\x00"
	tests := []struct {
		name    string
		line    string
		kind    Kind
		code    int
		id      string
		method  string
		session string
		update  string
	}{
		{"a request", `{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/x"}}`,
			KindRequest, 0, "1", "fs/read_text_file", "s", absent},
		{"an id at the end", `{"method":"m","params":[1,{"sessionId":"no"}],"id":"a\"b"}`,
			KindRequest, 0, `"a\"b"`, "m", absent, absent},
		{"an id of null", `{"id":null,"method":"m"}`, KindRequest, 0, "null", "m", absent, absent},
		{"a number in an odd spelling", `{"id":-1.50e+3,"method":"m"}`, KindRequest, 0, "-1.50e+3", "m", absent, absent},
		{"a notification with white space everywhere", "\t { \"method\" : \"n\" , \"params\" : { \"sessionId\" : \"s\" } } \r\n",
			KindNotification, 0, absent, "n", "s", absent},
		{"a session update", string(update300), KindNotification, 0, absent, "session/update", "sess_0123456789abcdef", "agent_message_chunk"},
		{"a result", `{"jsonrpc":"2.0","id":7,"result":{}}`, KindResponse, 0, "7", absent, absent, absent},
		{"an error without an id", `{"error":{"code":-32700,"message":""}}`, KindResponse, 0, absent, absent, absent, absent},
		{"an answer whose result was undefined", `{"jsonrpc":"2.0","id":7}`, KindResponse, 0, "7", absent, absent, absent},
		{"a batch", ` [{"id":1,"method":"m"}]`, KindBatch, 0, absent, absent, absent, absent},
		{"an escaped name and method", `{"m\u0065thod":"fs\/read_text_f\u0069le","\u0069d":3}`,
			KindRequest, 0, "3", "fs/read_text_file", absent, absent},
		{"escaped names in params", `{"method":"m","params":{"session\u0049d":"\u0073\ud83d\ude00","\u0075pdate":{"session\u0055pdate":"pl\u0061n"}}}`,
			KindNotification, 0, absent, "m", "s😀", "plan"},
		{"a lone surrogate", `{"method":"m","id":1,"params":{"x":"\ud800"}}`, KindRequest, 0, "1", "m", absent, absent},
		{"bytes that are not UTF-8 in a value", "{\"method\":\"m\",\"params\":\"\xff\"}", KindNotification, 0, absent, "m", absent, absent},
		{"a raw line separator", "{\"method\":\"m\",\"params\":\"\u2028\"}", KindNotification, 0, absent, "m", absent, absent},
		{"a session id that is no string", `{"method":"m","params":{"sessionId":5}}`, KindNotification, 0, absent, "m", absent, absent},
		{"a session id somewhere else", `{"method":"m","params":{"x":{"sessionId":"s"},"update":[{"sessionUpdate":"u"}]},"sessionId":"t"}`,
			KindNotification, 0, absent, "m", absent, absent},
		{"only another spelling of sessionId", `{"method":"m","params":{"sessionID":"s"}}`, KindNotification, 0, absent, "m", absent, absent},
		{"a result with an error of null", `{"id":1,"result":1,"error":null}`, KindResponse, 0, "1", absent, absent, absent},

		{"nothing", ``, KindInvalid, CodeParse, absent, absent, absent, absent},
		{"a blank line", "\n", KindInvalid, CodeParse, absent, absent, absent, absent},
		{"a byte order mark", "\ufeff{}", KindInvalid, CodeParse, absent, absent, absent, absent},
		{"a line that ends early", `{"id":9,"method":"m"`, KindInvalid, CodeParse, "9", absent, absent, absent},
		{"a comma too many", `{"id":9,"method":"m",}`, KindInvalid, CodeParse, "9", "m", absent, absent},
		{"something after the end", `{"id":9,"method":"m"} x`, KindInvalid, CodeParse, "9", "m", absent, absent},
		{"a control character", "{\"id\":9,\"method\":\"\x01\"}", KindInvalid, CodeParse, "9", absent, absent, absent},
		{"a number that starts with 0", `{"id":01}`, KindInvalid, CodeParse, absent, absent, absent, absent},
		{"a broken escape", `{"id":1,"x":"\u12g4"}`, KindInvalid, CodeParse, "1", absent, absent, absent},
		{"a broken batch", `[{]`, KindInvalid, CodeParse, absent, absent, absent, absent},
		{"a colon in place of a comma in params", `{"id":1,"params":{"a":1:"b"}}`, KindInvalid, CodeParse, "1", absent, absent, absent},

		{"a scalar", `5`, KindInvalid, CodeInvalidRequest, absent, absent, absent, absent},
		{"an empty object", `{}`, KindInvalid, CodeInvalidRequest, absent, absent, absent, absent},
		{"an id that is an object", `{"id":{},"method":"m"}`, KindRequest, CodeInvalidRequest, absent, "m", absent, absent},
		{"an id that is true", `{"id":true,"method":"m"}`, KindRequest, CodeInvalidRequest, absent, "m", absent, absent},
		{"a method that is a number", `{"id":1,"method":5}`, KindRequest, CodeInvalidRequest, "1", absent, absent, absent},
		{"two methods", `{"method":"a","id":1,"method":"b"}`, KindRequest, CodeInvalidRequest, "1", "a", absent, absent},
		{"two methods, one escaped", `{"method":"a","id":1,"\u006dethod":"b"}`, KindRequest, CodeInvalidRequest, "1", "a", absent, absent},
		{"two ids", `{"method":"a","id":1,"id":2}`, KindRequest, CodeInvalidRequest, absent, "a", absent, absent},
		{"a method in another case", `{"method":"a","id":1,"Method":"b"}`, KindRequest, CodeInvalidRequest, "1", "a", absent, absent},
		{"params with a long s", "{\"method\":\"a\",\"id\":1,\"param\u017f\":{}}", KindRequest, CodeInvalidRequest, "1", "a", absent, absent},
		{"params with an escaped long s", `{"method":"a","id":1,"param\u017F":{}}`, KindRequest, CodeInvalidRequest, "1", "a", absent, absent},
		{"a request that is also a response", `{"method":"a","id":1,"result":{}}`, KindRequest, CodeInvalidRequest, "1", "a", absent, absent},
		{"two session ids", `{"method":"a","id":1,"params":{"sessionId":"a","sessionId":"b"}}`,
			KindRequest, CodeInvalidRequest, "1", "a", "b", absent},
		{"two session ids that differ in case", `{"method":"a","id":1,"params":{"sessionId":"a","\u017FessionID":"b"}}`,
			KindRequest, CodeInvalidRequest, "1", "a", "a", absent},
		{"two updates", `{"method":"a","params":{"update":{"sessionUpdate":"a"},"Update":{}}}`,
			KindNotification, CodeInvalidRequest, absent, "a", absent, "a"},
		{"two kinds of update", `{"method":"a","params":{"update":{"sessionUpdate":"a","sessionupdate":"b"}}}`,
			KindNotification, CodeInvalidRequest, absent, "a", absent, "a"},
	}
	var s Scanner
	show := func(b []byte) string {
		if b == nil {
			return absent
		}
		return string(b)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var m Message
			err := s.Scan([]byte(tt.line), &m)
			code := 0
			if err != nil {
				code = err.Code
			}
			got := fmt.Sprintf("%v %d id=%q method=%q session=%q update=%q", m.Kind, code, show(m.ID), show(m.Method), show(m.SessionID), show(m.Update))
			want := fmt.Sprintf("%v %d id=%q method=%q session=%q update=%q", tt.kind, tt.code, tt.id, tt.method, tt.session, tt.update)
			if got != want {
				t.Errorf("Scan(%s) = %v\n got %s\nwant %s", tt.line, err, got, want)
			}
		})
	}
}

// The result for a line must not depend on the line before, however similar the two are.
func TestScan_SimilarLines(t *testing.T) {
	const before = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"u","content":{"type":"text","text":"`
	const behind = `"},"messageId":"m"}}}` + "\n"
	texts := []string{
		"", "a", `a\"`, `a\\`, `a\`, `\`, `\"`, `"`, `","text":"`, `"},"more":{"a":"b`, `"},"sessionUpdate":"v","x":{"a":"b`, `"},"Update":1,"x":{"a":"b`,
		`"}}},"id":1,"x":{"y":{"z":{"a":"b`, `"}}},"method":"m","x":{"y":{"z":{"a":"b`, `"}}}` + "\n" + `{"a":{"b":{"c":{"d":"e`, "\x1f", "\n", "ä\xff", `\ud800`, `\x`,
		strings.Repeat("long ", 100), strings.Repeat("x", 100) + "\x00", strings.Repeat("x", 100) + `\`,
	}
	var lines []string
	for _, text := range texts {
		lines = append(lines, before+text+behind)
	}
	lines = append(lines,
		before+"text"+strings.Replace(behind, "m", "n", 1), before+"text"+behind+" ", before+"text"+strings.TrimSpace(behind),
		strings.Replace(before, "s", "t", 1)+"text"+behind, before, behind, before+behind[1:], before[:len(before)-1]+behind,
		`{"params":{"update":{"content":{"text":"x"},"sessionUpdate":"u"},"sessionId":"s"},"id":5,"method":"m"}`,
		`{"params":{"update":{"content":{"text":"longer"},"sessionUpdate":"u"},"sessionId":"s"},"id":5,"method":"m"}`,
		`{"params":{"update":{"content":{"text":"x"},"sessionUpdate":"u"},"sessionId":"s"},"id":6,"result":0}`,
		`{"params":{"update":{"content":{"text":"xy"},"sessionUpdate":"u"},"sessionId":"s"},"id":6,"result":0}`,
		`{"params":{"update":{"content":{"text":"x"},"sessionUpdate":"u"},"sessionId":"s"},"error":null}`,
		`{"params":{"update":{"content":{"text":"xy"},"sessionUpdate":"u"},"sessionId":"s"},"error":null}`,
		`{"method":"\u006d","params":{"update":{"content":{"text":"x"}}}}`, `{"method":"\u006d","params":{"update":{"content":{"text":"xy"}}}}`,
		`{"method":"m","params":{"update":{"content":{"text":1}}}}`, `{"method":"m","params":{"update":{"content":{}}}}`,
	)
	for _, first := range lines {
		for _, second := range lines {
			var s Scanner
			var got, want Message
			_ = s.Scan([]byte(first), &got)
			gotErr, wantErr := s.Scan([]byte(second), &got), new(Scanner).Scan([]byte(second), &want)
			if !reflect.DeepEqual(gotErr, wantErr) || !reflect.DeepEqual(got, want) {
				t.Errorf("%s\nafter %s\ngot  %+v (%v)\nwant %+v (%v)", second, first, got, gotErr, want, wantErr)
			}
		}
	}
}

func TestScan_MatchesUpdatesThatDifferInText(t *testing.T) {
	for _, layout := range []string{
		string(update300),
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"text":"xxx","type":"text"},"messageId":"m"}}}`,
		`{"method":"session/update","params":{"update":{"content":{"text":"xxx","type":"text"},"sessionUpdate":"agent_thought_chunk"},"sessionId":"s"},"jsonrpc":"2.0"}`,
	} {
		var s Scanner
		var m Message
		if err := s.Scan([]byte(layout), &m); err != nil {
			t.Fatal(err)
		}
		other := strings.Replace(layout, "xxx", `what it says, \"quoted\", ä`, 1)
		if !s.last.match([]byte(other), &m) {
			t.Errorf("%s is not matched after %s", other, layout)
		}
	}
}

func TestScan_LimitsDepth(t *testing.T) {
	var s Scanner
	var m Message
	for _, tt := range []struct {
		name  string
		depth int // inside of the envelope
		ok    bool
	}{
		{"as deep as allowed", lex.MaxDepth - 1, true},
		{"one deeper", lex.MaxDepth, false},
		{"a million deep", 1_000_000, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			line := `{"method":"m","x":` + strings.Repeat(`[{"a":`, tt.depth/2) + strings.Repeat("[", tt.depth%2) +
				strings.Repeat("]", tt.depth%2) + strings.Repeat(`}]`, tt.depth/2) + `}`
			if tt.depth%2 == 0 {
				line = strings.Replace(line, `{"a":}`, `{}`, 1)
			}
			err := s.Scan([]byte(line), &m)
			if (err == nil) != tt.ok {
				t.Errorf("depth %d: got %v", tt.depth, err)
			}
			if err != nil && (err.Code != CodeParse || !strings.Contains(err.Message, "deeper")) {
				t.Errorf("depth %d: got %v, want a parse error that speaks of depth", tt.depth, err)
			}
		})
	}
}

func TestScan_AllocatesNothing(t *testing.T) {
	var s Scanner
	var m Message
	request := []byte(`{"jsonrpc":"2.0","id":"3f2a","method":"fs/read_text_file","params":{"sessionId":"s","path":"/a/b \" c","line":1}}`)
	if n := testing.AllocsPerRun(100, func() {
		if s.Scan(update300, &m) != nil || s.Scan(request, &m) != nil {
			t.Fatal("a valid line was refused")
		}
	}); n != 0 {
		t.Errorf("scanning allocates %v times, want 0", n)
	}
}

func TestDuplicateNames_DetectsDuplicates(t *testing.T) {
	for _, tt := range []struct {
		name, params string
		ok           bool
	}{
		{"nothing known", `{"a":1,"b":2}`, true},
		{"known names once", `{"path":"/x","sessionId":"s","line":{"path":1,"Path":2}}`, true},
		{"no object", `[1]`, true},
		{"a name twice", `{"path":1,"path":2}`, false},
		{"a name twice, escaped", `{"path":1,"p\u0061th":2}`, false},
		{"an unknown name twice", `{"x":1,"x":2}`, false},
		{"another case", `{"Path":1}`, false},
		{"a Kelvin sign", "{\"\u212aey\":1}", false},
		{"unknown names that differ in case", `{"x":1,"X":2}`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := DuplicateNames([]byte(tt.params), "path", "sessionId", "key"); (err == nil) != tt.ok {
				t.Errorf("DuplicateNames(%s) = %v", tt.params, err)
			}
		})
	}
}

// FuzzScan compares the scanner with two independent parsers: encoding/json for what is JSON, jsontext for what the
// members are.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		string(update300), `{"id":1,"method":"m","params":{"sessionId":"a"}}`, `[1,2.5e-3,"\ud800",null,true,false]`,
		`{"m\u0065thod":"a\/b","ID":1}`, "{\"a\":\"\xff\u2028\"}", `{"id":1,"result":{"a":[{}, [], ""]}}`, ` {"id" : "x" , "error" : null } `,
		`{"method":"x","params":{"update":{"sessionUpdate":"u"},"sessionId":"\u0061"}}`, `{"id":1,"id":2}`, `-0.0e+1`, `{"a":01}`,
		`{"method":"x","params":{"a":1},"params":{"update":{"c":{}}}}`, `{"id":1,"Params":{"update":{"c":{"d":1}}},"method":"x"}`,
		`{"params":{"update":{"c":{},"sessionUpdate":"a"},"update":{"c":{}}},"method":"x"}`, "\"\x1f\"",
	} {
		f.Add([]byte(seed))
	}
	var s Scanner
	f.Fuzz(func(t *testing.T, line []byte) {
		var m Message
		err := s.Scan(line, &m)
		// The result must not depend on earlier lines, even if the line begins like the last one.
		var fresh Scanner
		for _, again := range []*Scanner{&fresh, &s, &fresh} {
			var other Message
			otherErr := again.Scan(line, &other)
			if !reflect.DeepEqual(m, other) || !reflect.DeepEqual(err, otherErr) {
				t.Fatalf("scanned again: %+v (%v), then %+v (%v)", m, err, other, otherErr)
			}
		}
		valid := json.Valid(line)
		if parse := err != nil && err.Code == CodeParse; parse == valid {
			t.Fatalf("json.Valid = %v, Scan = %v", valid, err)
		}
		if !valid {
			return
		}
		if first := bytes.TrimLeft(line, " \t\r\n")[0]; (first == '[') != (m.Kind == KindBatch) || (first != '{' && first != '[') != (err != nil && m.Kind == KindInvalid && first != '{') {
			t.Fatalf("kind %v for a text that starts with %q", m.Kind, first)
		}
		if m.Kind == KindBatch || err != nil {
			return
		}
		want := reference(t, line)
		for _, c := range []struct {
			name      string
			got, want []byte
		}{
			{"id", m.ID, want["id"]}, {"params", m.Params, want["params"]}, {"result", m.Result, want["result"]},
			{"method", m.Method, want["method"]}, {"session", m.SessionID, want["session"]}, {"update", m.Update, want["update"]},
		} {
			if (c.got == nil) != (c.want == nil) || !bytes.Equal(c.got, c.want) {
				t.Fatalf("%s: got %q, want %q", c.name, c.got, c.want)
			}
		}
	})
}

// FuzzScanSimilarLines replaces a part of a line, and compares a scanner that has scanned the line with one that has
// not.
func FuzzScanSimilarLines(f *testing.F) {
	from := bytes.Index(update300, []byte("xxx"))
	for _, seed := range []string{"", "a", `"`, `\`, `\"`, `"}`, `","text":"`, "\n", "\xff", `"},"sessionUpdate":"v","x":{"a":"b`} {
		f.Add(update300, from, 3, []byte(seed))
	}
	f.Add([]byte(`{"params":{"update":{"content":{"text":"x"},"sessionUpdate":"u"},"sessionId":"s"},"id":5,"method":"m"}`), 32, 1, []byte("xy"))
	f.Fuzz(func(t *testing.T, line []byte, from, n int, text []byte) {
		if from < 0 || from > len(line) || n < 0 || n > len(line)-from {
			t.Skip("no part of the line")
		}
		var s Scanner
		var m, want Message
		_ = s.Scan(line, &m)
		other := slices.Concat(line[:from], text, line[from+n:])
		err, wantErr := s.Scan(other, &m), new(Scanner).Scan(other, &want)
		if !reflect.DeepEqual(err, wantErr) || !reflect.DeepEqual(m, want) {
			t.Fatalf("%s\nafter %s\ngot  %+v (%v)\nwant %+v (%v)", other, line, m, err, want, wantErr)
		}
	})
}

// reference extracts what Scan does with a general parser. Strings that are not UTF-8 are taken as Scan spells them.
func reference(t *testing.T, line []byte) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	text := func(raw []byte) []byte {
		if len(raw) == 0 || raw[0] != '"' {
			return nil
		}
		plain, err := jsontext.AppendUnquote(nil, raw)
		if err != nil { // surrogates or bytes that make no UTF-8: nothing to compare with
			return unquote(raw)
		}
		return append([]byte{}, plain...)
	}
	envelope := members(t, line)
	for _, n := range []string{"id", "params", "result"} {
		found[n] = envelope[n]
	}
	found["method"] = text(envelope["method"])
	if params := members(t, envelope["params"]); params != nil {
		found["session"] = text(params["sessionId"])
		if update := members(t, params["update"]); update != nil {
			found["update"] = text(update["sessionUpdate"])
		}
	}
	return found
}

func members(t *testing.T, object []byte) map[string][]byte {
	t.Helper()
	d := jsontext.NewDecoder(bytes.NewReader(object), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if d.PeekKind() != '{' {
		return nil
	}
	all := map[string][]byte{}
	if _, err := d.ReadToken(); err != nil {
		t.Fatal(err)
	}
	for d.PeekKind() == '"' {
		k, err := d.ReadToken()
		if err != nil {
			t.Fatal(err)
		}
		key := k.String()
		v, err := d.ReadValue()
		if err != nil {
			t.Fatal(err)
		}
		all[key] = append([]byte{}, v...)
	}
	return all
}

func BenchmarkScan(b *testing.B) {
	var s Scanner
	var m Message
	b.SetBytes(int64(len(update300)))
	b.ReportAllocs()
	for b.Loop() {
		if s.Scan(update300, &m) != nil {
			b.Fatal("refused")
		}
	}
}

func BenchmarkScanLong(b *testing.B) {
	code := strings.Repeat(`\tif err := run(ctx, \"x\"); err != nil {\n`, 24000)
	line := []byte(`{"jsonrpc":"2.0","id":1,"method":"fs/write_text_file","params":{"sessionId":"s","content":"` + code + `"}}` + "\n")
	var s Scanner
	var m Message
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		if s.Scan(line, &m) != nil {
			b.Fatal("refused")
		}
	}
}
