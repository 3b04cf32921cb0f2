package transcode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

var (
	fsService       = fsv1.File_acphost_fs_v1_fs_proto.Services().Get(0)
	terminalService = terminalv1.File_acphost_terminal_v1_terminal_proto.Services().Get(0)
)

func callContext() *acpv1.CallContext {
	return &acpv1.CallContext{
		SessionId: "s", Scope: strings.Repeat("0f", 16), Roots: []*acpv1.Root{{Path: "/work"}}, Agent: "claude", ProtocolVersion: 1,
	}
}

func encode(t testing.TB, m *Method, params string, into proto.Message) {
	t.Helper()
	f, jerr := m.EncodeRequest([]byte(params), callContext())
	if jerr != nil {
		t.Fatalf("EncodeRequest(%.200s) = %v", params, jerr)
	}
	bufs := f.buffers()
	defer bufs.Free()
	if err := proto.Unmarshal(bufs.Materialize(), into); err != nil {
		t.Fatal(err)
	}
}

func TestEncode_RequestsOfOwnHandlers(t *testing.T) {
	read := compile(t, fsService, "ReadTextFile")
	long := strings.Repeat("long ", 2000)
	for _, tt := range []struct {
		name   string
		params string
		want   *fsv1.ReadTextFileRequest
	}{
		{"plain", `{"sessionId":"s","path":"/a","line":3}`, &fsv1.ReadTextFileRequest{SessionId: "s", Path: "/a", Line: proto.Uint32(3)}},
		{"null is absent", `{"sessionId":"s","path":"/a","line":null,"limit":0,"_meta":null}`,
			&fsv1.ReadTextFileRequest{SessionId: "s", Path: "/a", Limit: proto.Uint32(0)}},
		{"integers in odd spellings", `{"line":1.0,"limit":1e3}`, &fsv1.ReadTextFileRequest{Line: proto.Uint32(1), Limit: proto.Uint32(1000)}},
		{"escapes", `{"p\u0061th":"\/\u00e4\ud83d\ude00\n\"\\"}`, &fsv1.ReadTextFileRequest{Path: "/ä😀\n\"\\"}},
		{"a long string", `{"path":"` + long + `","sessionId":"s"}`, &fsv1.ReadTextFileRequest{Path: long, SessionId: "s"}},
		{"a long string with escapes", `{"path":"\t` + long + `","sessionId":"s"}`, &fsv1.ReadTextFileRequest{Path: "\t" + long, SessionId: "s"}},
		{"unknown members", `{"x":{"path":[1,{}]},"path":"/a","x":1}`, &fsv1.ReadTextFileRequest{Path: "/a"}},
		{"verbatim", `{"_meta": {"b":1.50,"a":[ 1 ,"\u0061"]} }`, &fsv1.ReadTextFileRequest{Meta: `{"b":1.50,"a":[ 1 ,"\u0061"]}`}},
		{"white space", " { \"path\" :\t\"/a\" , \"line\" : 2 } \n", &fsv1.ReadTextFileRequest{Path: "/a", Line: proto.Uint32(2)}},
		{"a forged context", `{"context":{"scope":"x","roots":[{"path":"/"}]},"CallContext":1,"path":"/a"}`, &fsv1.ReadTextFileRequest{Path: "/a"}},
		{"nothing", ``, &fsv1.ReadTextFileRequest{}},
		{"null", `null`, &fsv1.ReadTextFileRequest{}},
		{"an empty object", `{}`, &fsv1.ReadTextFileRequest{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got fsv1.ReadTextFileRequest
			encode(t, read, tt.params, &got)
			tt.want.Context = callContext()
			if !proto.Equal(&got, tt.want) {
				t.Errorf("got  %v\nwant %v", &got, tt.want)
			}
		})
	}
	t.Run("repeated messages", func(t *testing.T) {
		var got terminalv1.CreateRequest
		encode(t, compile(t, terminalService, "Create"),
			`{"sessionId":"s","command":"ls","args":["-l",""],"env":[{"name":"A","value":"1"},{"value":"`+long+`"}],"outputByteLimit":18446744073709551615}`, &got)
		want := &terminalv1.CreateRequest{
			Context: callContext(), SessionId: "s", Command: "ls", Args: []string{"-l", ""},
			Env: []*terminalv1.EnvVariable{{Name: "A", Value: "1"}, {Value: long}}, OutputByteLimit: proto.Uint64(1<<64 - 1),
		}
		if !proto.Equal(&got, want) {
			t.Errorf("got  %v\nwant %v", &got, want)
		}
	})
}

func TestEncode_ErrorsNameMember(t *testing.T) {
	s := foreign(t, everything, protoregistry.GlobalTypes)
	all, create := compile(t, s, "All"), compile(t, terminalService, "Create")
	read := compile(t, fsService, "ReadTextFile")
	echo := compile(t, s, "Echo")
	for _, tt := range []struct {
		name   string
		m      *Method
		params string
		code   int
		want   string
	}{
		{"a string for an integer", read, `{"line":"x"}`, -32602, `line: expected an integer from 0 to 4294967295, got "x"`},
		{"a negative line", read, `{"line":-1}`, -32602, `line: expected an integer from 0 to 4294967295, got -1`},
		{"a line too large", read, `{"line":4294967296}`, -32602, `line: expected an integer from 0 to 4294967295, got 4294967296`},
		{"a fraction", read, `{"line":1.5}`, -32602, `line: expected an integer from 0 to 4294967295, got 1.5`},
		{"a huge power", read, `{"line":1e99999999999999999999}`, -32602, `line: expected an integer from 0 to 4294967295, got 1e99999999999999999999`},
		{"a tiny power", read, `{"line":1e-99999999999999999999}`, -32602, `line: expected an integer from 0 to 4294967295, got 1e-99999999999999999999`},
		{"a number for a string", read, `{"path":5}`, -32602, `path: expected a string, got 5`},
		{"an object for a string", read, `{"path":{"a":1}}`, -32602, `path: expected a string, got an object`},
		{"a lone surrogate", read, `{"path":"a\ud800b"}`, -32602, `path: a surrogate escape without its other half`},
		{"a lone surrogate in a long string", read, `{"path":"` + strings.Repeat("a", 9000) + `\udc00"}`, -32602, `path: a surrogate escape without its other half`},
		{"bytes that are no UTF-8", read, "{\"path\":\"\xff\"}", -32602, `path: not valid UTF-8`},
		{"no UTF-8 in a verbatim member", read, "{\"_meta\":{\"a\":\"\xff\"}}", -32602, `_meta: not valid UTF-8`},
		{"inside of an array", create, `{"env":[{"name":"A"},{"name":7}]}`, -32602, `env[1].name: expected a string, got 7`},
		{"an element of null", create, `{"args":["a",null]}`, -32602, `args[1]: expected a string, got null`},
		{"an object for an array", create, `{"args":{}}`, -32602, `args: expected an array, got an object`},
		{"a string for an object", create, `{"env":["A=1"]}`, -32602, `env[0]: expected an object, got "A=1"`},
		{"an array as params", read, `["/a"]`, -32602, `the params must be an object, got an array`},
		{"a member twice", read, `{"path":"/a","path":"/b"}`, -32600, `path: ambiguous params: the name occurs twice`},
		{"a member twice, once null", read, `{"path":null,"path":"/b"}`, -32600, `path: ambiguous params: the name occurs twice`},
		{"a member twice, escaped", read, `{"path":"/a","p\u0061th":"/b"}`, -32600, `path: ambiguous params: the name occurs twice`},
		{"a member in another case", read, `{"Path":"/a"}`, -32600, `ambiguous params: the name "Path" differs from "path" only in case`},
		{"a member with a long s", read, "{\"\u017fessionId\":\"s\"}", -32600, "ambiguous params: the name \"ſessionId\" differs from \"sessionId\" only in case"},
		{"a nested member twice", create, `{"env":[{"name":"A","name":"B"}]}`, -32600, `env[0].name: ambiguous params: the name occurs twice`},
		{"a nested member in another case", create, `{"env":[{"NAME":"A"}]}`, -32600, `env[0]: ambiguous params: the name "NAME" differs from "name" only in case`},
		{"two of a oneof", all, `{"one":"a","two":1}`, -32602, `two: cannot be given together with "one"`},
		{"an unknown enum value", all, `{"colour":"RED"}`, -32602, `colour: unknown value "RED"`},
		{"true for a number", all, `{"double":true}`, -32602, `double: expected a number, got true`},
		{"a float out of range", all, `{"float":1e39}`, -32602, `float: out of range: 1e39`},
		{"no base64", all, `{"bytes":"a b"}`, -32602, `bytes: expected a string in base64, got "a b"`},
		{"a bad key", all, `{"mint":{"x":"y"}}`, -32602, `mint: expected an integer from -9223372036854775808 to 9223372036854775807 as a key, got "x"`},
		{"a key twice", all, `{"mint":{"1":"y","1.0":"z"}}`, -32600, `mint: ambiguous params: the key "1.0" occurs twice`},
		{"inside of a map", all, `{"mtext":{"k":{"i32":""}}}`, -32602, `mtext.k.i32: expected an integer from -2147483648 to 2147483647, got ""`},
		{"a name twice in a struct", all, `{"struct":{"a":{"b":1,"b":2}}}`, -32600, `struct.a: ambiguous params: the name "b" occurs twice`},
		{"a bad time", all, `{"time":"yesterday"}`, -32602, `time: expected a string with a Timestamp, got "yesterday"`},
		{"nested too deep", all, strings.Repeat(`{"all":`, 300) + `{}` + strings.Repeat(`}`, 300), -32602, `nested too deep`},
		{"cut off", read, `{"path":"/a"`, -32602, `invalid JSON at byte 13 of the params`},
		{"trailing data", read, `{"path":"/a"}x`, -32602, `the params are not valid JSON`},
		{"a verbatim member that is cut off", echo, `{"raws":[{]}`, -32602, `raws[0]: invalid JSON at byte 11 of the params`},
		{"a long wrong value", read, `{"line":"` + strings.Repeat("ä", 99) + `"}`, -32602,
			`line: expected an integer from 0 to 4294967295, got "` + strings.Repeat("ä", 19) + `…`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := tt.m.EncodeRequest([]byte(tt.params), callContext())
			if err == nil {
				t.Fatalf("it was taken: %v", decodeRequest(t, tt.m, f))
			}
			if err.Code != tt.code || !strings.HasSuffix(err.Message, tt.want) || (tt.name != "nested too deep" && err.Message != tt.want) {
				t.Errorf("got  %d %s\nwant %d %s", err.Code, err.Message, tt.code, tt.want)
			}
		})
	}
}

func TestEncode_IgnoresContextOfAgent(t *testing.T) {
	echo := compile(t, foreign(t, everything, protoregistry.GlobalTypes), "Echo")
	params := `{"context":{"scope":"forged"},"text":"a","echo":{"context":{"scope":"forged"},"result":{"digest":"x"}},"result":{"digest":"x"}}`
	f, jerr := echo.EncodeRequest([]byte(params), nil)
	if jerr != nil {
		t.Fatal(jerr)
	}
	if jerr := f.AddContext(callContext()); jerr != nil {
		t.Fatal(jerr)
	}
	msg := decodeRequest(t, echo, f)
	text := fmt.Sprint(msg)
	if strings.Contains(text, "forged") || strings.Contains(text, "digest") || strings.Count(text, "scope:") != 1 {
		t.Errorf("got %s", text)
	}
}

func TestEncode_ReferencesLargeStrings(t *testing.T) {
	write := compile(t, fsService, "WriteTextFile")
	content := bytes.Repeat([]byte("x"), 1<<20)
	params := append(append([]byte(`{"sessionId":"s","path":"/a","content":"`), content...), `"}`...)
	f, jerr := write.EncodeRequest(params, callContext())
	if jerr != nil {
		t.Fatal(jerr)
	}
	at := bytes.Index(params, content[:10])
	for _, b := range f.buffers() {
		if data := b.ReadOnlyData(); len(data) == len(content) {
			if &data[0] != &params[at] {
				t.Error("the content was copied")
			}
			return
		}
	}
	t.Error("no buffer holds the content alone")
}

func TestNames_OfRequest(t *testing.T) {
	names := fmt.Sprint(compile(t, fsService, "ReadTextFile").Names())
	if names != "[sessionId path line limit _meta]" {
		t.Errorf("got %s", names)
	}
}

// Agents read these errors: none may look like a missing file, whatever the agent sent.
func TestEncode_ErrorsAreJSON(t *testing.T) {
	read := compile(t, fsService, "ReadTextFile")
	_, jerr := read.EncodeRequest([]byte(`{"line":"\u0000\""}`), nil)
	if jerr == nil {
		t.Fatal("it was taken")
	}
	if line := jsonrpc.AppendError(nil, []byte("1"), jerr); !json.Valid(line) {
		t.Errorf("got %s", line)
	}
}
