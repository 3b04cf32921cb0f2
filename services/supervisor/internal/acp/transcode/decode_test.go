package transcode

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
)

// received makes a frame of wire bytes as gRPC would deliver them, in pieces of the sizes.
func received(raw []byte, sizes ...int) *Frame {
	var bufs mem.BufferSlice
	for i := 0; len(raw) > 0; i++ {
		n := len(raw)
		if len(sizes) > 0 {
			n = min(n, sizes[i%len(sizes)])
		}
		bufs = append(bufs, mem.SliceBuffer(raw[:n:n]))
		raw = raw[n:]
	}
	return &Frame{received: bufs}
}

// decodeResponse returns the result of DecodeReply for a response, without the rest of the line.
func decodeResponse(m *Method, f *Frame) (pieces [][]byte, result *acpv1.CallResult, err error) {
	pieces, result, err = m.DecodeReply([]byte("1"), f)
	body := bytes.TrimSuffix(bytes.Join(pieces, nil), []byte("}\n"))
	return [][]byte{bytes.TrimPrefix(body, []byte(`{"jsonrpc":"2.0","id":1,"result":`))}, result, err
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestDecode_ResponsesOfOwnHandlers(t *testing.T) {
	long := strings.Repeat("0123456789", 3000)
	for _, tt := range []struct {
		name string
		m    *Method
		in   proto.Message
		want string
	}{
		{"required scalars are written", compile(t, fsService, "ReadTextFile"), &fsv1.ReadTextFileResponse{}, `{"content":""}`},
		{"verbatim", compile(t, fsService, "ReadTextFile"), &fsv1.ReadTextFileResponse{Content: "a", Meta: " {\n\"b\": 1.50}\n"}, `{"content":"a","_meta":{ "b": 1.50}}`},
		{"escapes", compile(t, fsService, "ReadTextFile"), &fsv1.ReadTextFileResponse{Content: "a\"\\\n\r\t\b\x00\x1f\x7fä😀</script>"},
			`{"content":"a\"\\\n\r\t\u0008\u0000\u001f` + "\x7f" + `ä😀</script>"}`},
		{"long text", compile(t, fsService, "ReadTextFile"), &fsv1.ReadTextFileResponse{Content: long + "\n" + long}, `{"content":"` + long + `\n` + long + `"}`},
		{"nothing", compile(t, fsService, "WriteTextFile"), &fsv1.WriteTextFileResponse{}, `{}`},
		{"empty arrays", compile(t, fsService, "ListDirectory"), &fsv1.ListDirectoryResponse{}, `{"entries":[],"truncated":false}`},
		{"arrays", compile(t, fsService, "ListDirectory"), &fsv1.ListDirectoryResponse{
			Entries: []*fsv1.DirectoryEntry{{Name: "a", Type: "file", Size: 1<<64 - 1}, {}}, Truncated: true},
			`{"entries":[{"name":"a","type":"file","size":18446744073709551615},{"name":"","type":"","size":0}],"truncated":true}`},
		{"optional zero", compile(t, terminalService, "Output"), &terminalv1.OutputResponse{Output: "x", ExitStatus: &terminalv1.ExitStatus{ExitCode: proto.Uint32(0)}},
			`{"output":"x","truncated":false,"exitStatus":{"exitCode":0}}`},
		{"absent", compile(t, terminalService, "Output"), &terminalv1.OutputResponse{ExitStatus: &terminalv1.ExitStatus{}},
			`{"output":"","truncated":false,"exitStatus":{}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			raw := marshal(t, tt.in)
			for _, sizes := range [][]int{nil, {1}, {3, 1, 7}, {4096}} {
				f := received(raw, sizes...)
				pieces, result, err := decodeResponse(tt.m, f)
				if err != nil || result != nil {
					t.Fatal(result, err)
				}
				if got := string(bytes.Join(pieces, nil)); got != tt.want {
					t.Errorf("pieces %v: got  %.300s\nwant %.300s", sizes, got, tt.want)
				}
				pieces, _, err = tt.m.DecodeReply([]byte(`"7"`), f)
				if got, want := string(bytes.Join(pieces, nil)), `{"jsonrpc":"2.0","id":"7","result":`+tt.want+"}\n"; got != want || err != nil {
					t.Errorf("got  %.300s (%v)\nwant %.300s", got, err, want)
				}
				f.Free()
				f.Free()
			}
		})
	}
}

func TestDecode_ReturnsCallResult(t *testing.T) {
	m := compile(t, fsService, "ReadTextFile")
	want := &acpv1.CallResult{Digest: "sha256:00", Notes: []string{"a"}}
	raw := marshal(t, &fsv1.ReadTextFileResponse{Content: "c", Result: want})
	for _, size := range []int{1, 1000} {
		pieces, got, err := decodeResponse(m, received(raw, size))
		if err != nil || !proto.Equal(got, want) {
			t.Errorf("got %v, %v", got, err)
		}
		if s := string(bytes.Join(pieces, nil)); s != `{"content":"c"}` {
			t.Errorf("the agent gets %s", s)
		}
	}
	if _, got, err := decodeResponse(m, received(protowire.AppendBytes(protowire.AppendTag(nil, 16, protowire.BytesType), nil))); got == nil || err != nil {
		t.Errorf("an empty result: got %v, %v", got, err)
	}
}

func TestDecode_MatchesProtobuf(t *testing.T) {
	m := compile(t, foreign(t, everything, protoregistry.GlobalTypes), "All")
	b := func(f func([]byte) []byte) []byte { return f(nil) }
	text := func(b []byte, n protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
	}
	num := func(b []byte, n protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
	}
	for _, tt := range []struct {
		name, want string
		raw        []byte
	}{
		{"the last value counts", `"text":"b"`, b(func(b []byte) []byte { return text(text(b, 14, "a"), 14, "b") })},
		{"parts of a message are one", `"all":{"i32":2,"i64":3`, b(func(b []byte) []byte {
			return text(text(b, 17, string(num(num(nil, 1, 1), 2, 3))), 17, string(num(nil, 1, 2)))
		})},
		{"the last of a oneof counts", `"two":5`, b(func(b []byte) []byte { return num(text(b, 26, "a"), 27, 5) })},
		{"packed or not, or both", `"ri32":[1,2,3]`, b(func(b []byte) []byte { return num(text(num(b, 18, 1), 18, "\x02"), 18, 3) })},
		{"a repeated field with others between", `"rtext":["a","b"]`, b(func(b []byte) []byte { return text(num(text(b, 19, "a"), 1, 1), 19, "b") })},
		{"an enum value that is not known", `"colour":77`, num(nil, 16, 77)},
		{"the wrong wire type is unknown", `"text":""`, num(nil, 14, 1)},
		{"unknown fields and groups", `"i32":1`, b(func(b []byte) []byte {
			b = protowire.AppendTag(b, 900, protowire.StartGroupType)
			b = text(protowire.AppendTag(b, 5, protowire.StartGroupType), 1, "x")
			b = protowire.AppendTag(protowire.AppendTag(b, 5, protowire.EndGroupType), 900, protowire.EndGroupType)
			return num(text(b, 901, "x"), 1, 1)
		})},
		{"the last value of a key", `"mint":{"-1":"b"}`, b(func(b []byte) []byte {
			return text(text(b, 24, string(text(num(nil, 1, 1), 2, "a"))), 24, string(text(num(nil, 1, 1), 2, "b")))
		})},
		{"an entry without key and value", `"mtext":{"":{"i32":0`, text(nil, 23, "")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, size := range []int{1, 1000} {
				pieces, _, err := decodeResponse(m, received(tt.raw, size))
				got := string(bytes.Join(pieces, nil))
				if err != nil || !strings.Contains(got, tt.want) || !json.Valid([]byte(got)) {
					t.Errorf("got %s (%v), want %s in it", got, err, tt.want)
				}
				if tt.name == "the last of a oneof counts" && strings.Contains(got, `"one"`) {
					t.Errorf("both of a oneof are written: %s", got)
				}
			}
		})
	}
}

func TestDecode_RejectsInvalidResponses(t *testing.T) {
	all := compile(t, foreign(t, everything, protoregistry.GlobalTypes), "All")
	read := compile(t, fsService, "ReadTextFile")
	text := func(n protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), s)
	}
	deep := []byte{}
	for range 300 {
		deep = text(17, string(deep))
	}
	for _, tt := range []struct {
		name string
		m    *Method
		raw  []byte
	}{
		{"cut off", read, text(1, "abc")[:3]},
		{"a tag of field 0", read, []byte{0}},
		{"a tag that never ends", read, bytes.Repeat([]byte{0xff}, 20)},
		{"an end of no group", read, protowire.AppendTag(nil, 3, protowire.EndGroupType)},
		{"a group that never ends", read, protowire.AppendTag(nil, 3, protowire.StartGroupType)},
		{"no UTF-8", read, text(1, "a\xff")},
		{"no UTF-8 in a long text", read, text(1, strings.Repeat("x", 100000)+"\xc3")},
		{"a character that is cut by a line feed", read, text(1, strings.Repeat("x", 100000)+"\xc3\n"+strings.Repeat("x", 100000))},
		{"no JSON in a verbatim field", read, text(15, "{]")},
		{"two values in a verbatim field", read, text(15, "1 2")},
		{"white space alone in a verbatim field", read, text(15, " ")},
		{"no UTF-8 in a verbatim field", read, text(15, "\"\xff\"")},
		{"packed values cut off", all, text(18, "\x80")},
		{"a nested message cut off", all, text(17, "\x08")},
		{"a result that is no message", read, text(16, "\x0a")},
		{"nested too deep", all, deep},
		{"a number in a Value that JSON has none for", all, text(31, "\x11\x00\x00\x00\x00\x00\x00\xf0\x7f")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, size := range []int{1, 5, 1 << 20} {
				if pieces, _, err := decodeResponse(tt.m, received(tt.raw, size)); err == nil {
					t.Errorf("pieces of %d: it became %.200s", size, bytes.Join(pieces, nil))
				}
			}
		})
	}
}

func TestDecode_ReferencesLongText(t *testing.T) {
	m := compile(t, fsService, "ReadTextFile")
	raw := marshal(t, &fsv1.ReadTextFileResponse{Content: strings.Repeat("x", 1<<20)})
	pieces, _, err := m.DecodeReply([]byte("1"), received(raw, 16384))
	if err != nil {
		t.Fatal(err)
	}
	referred := 0
	for _, p := range pieces {
		if len(p) > refSize {
			referred += len(p)
		}
	}
	if referred < 1<<20-16384 {
		t.Errorf("only %d bytes are referred to", referred)
	}
}

// Escapes and characters at every place of an eight byte word and of a piece.
func TestDecode_QuotesAtAnyOffset(t *testing.T) {
	m := compile(t, fsService, "ReadTextFile")
	rnd := rand.New(rand.NewPCG(1, 2))
	parts := []string{"\n", "\"", "\\", "\x01", "a", "ä", "€", "😀", strings.Repeat("x", 7), strings.Repeat("y", 9), strings.Repeat("z", 3000)}
	for range 3000 {
		var text strings.Builder
		for range rnd.IntN(20) {
			text.WriteString(parts[rnd.IntN(len(parts))])
		}
		raw := marshal(t, &fsv1.ReadTextFileResponse{Content: text.String()})
		pieces, _, err := decodeResponse(m, received(raw, 1+rnd.IntN(5), 1+rnd.IntN(200), 1+rnd.IntN(9000)))
		if err != nil {
			t.Fatalf("%q: %v", text.String(), err)
		}
		var back struct{ Content string }
		if err := json.Unmarshal(bytes.Join(pieces, nil), &back); err != nil || back.Content != text.String() {
			t.Fatalf("%q became %q (%v)", text.String(), bytes.Join(pieces, nil), err)
		}
	}
}

// FuzzResponse compares with dynamicpb and protojson: what they can parse becomes JSON that they read back as the same
// message, and so does EncodeRequest; what they cannot parse is an error.
func FuzzResponse(f *testing.F) {
	s := foreign(f, everything, protoregistry.GlobalTypes)
	m := compile(f, s, "All")
	for _, seed := range []string{
		`{"i32":-1,"i64":"-9007199254740993","u32":4294967295,"u64":"18446744073709551615","s32":-2147483648,"s64":"5","f32":1,"f64":"2","sf32":-3,"sf64":"-4"}`,
		`{"float":1.5e-9,"double":-1e300,"bool":true,"text":"a\"\n😀","bytes":"AP8=","colour":"COLOUR_BLUE","all":{"all":{"text":"x"}}}`,
		`{"ri32":[1,-2],"rtext":["","a"],"rall":[{},{"i32":1}],"rdouble":[0.1],"rcolour":["COLOUR_RED",9],"mtext":{"a":{},"":{"text":"b"}},"mint":{"-5":"x"},"mbool":{"true":"1"}}`,
		`{"three":{"maybe":0},"struct":{"a":[1,null,{"b":"c"}]},"value":null,"list":[true,"x"],"time":"2026-01-02T03:04:05.006Z","duration":"-1.5s","wrapped":"7","wtext":""}`,
		`{"one":"x","maybe":5}`,
	} {
		msg := dynamicpb.NewMessage(m.Output)
		if err := protojson.Unmarshal([]byte(seed), msg); err != nil {
			f.Fatal(err)
		}
		f.Add(marshal(f, msg), 7)
	}
	f.Fuzz(func(t *testing.T, raw []byte, size int) {
		if size < 1 {
			return
		}
		want := dynamicpb.NewMessage(m.Output)
		broken, wantErr := oracle(raw, want)
		if broken {
			return
		}
		pieces, _, err := decodeResponse(m, received(raw, size))
		got := bytes.Join(pieces, nil)
		if wantErr != nil {
			if err == nil && !json.Valid(got) {
				t.Fatalf("invalid JSON: %s", got)
			}
			return
		}
		if text, jsonErr := protojson.Marshal(want); jsonErr != nil {
			// A Timestamp out of range and a NaN in a Value have no JSON form. Both decoders must return an error. A
			// Value without a kind is the exception: it is treated as null.
			if err == nil && !strings.Contains(jsonErr.Error(), "none of the oneof fields is set") {
				t.Fatalf("protojson refuses (%v), but got %s", jsonErr, got)
			}
			return
		} else if err != nil {
			t.Fatalf("%v, but protojson returns %s", err, text)
		}
		back := dynamicpb.NewMessage(m.Output)
		if err := protojson.Unmarshal(got, back); err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		if !bytes.Equal(canonical(t, want), canonical(t, back)) {
			t.Fatalf("got  %s\nwant %s", canonical(t, back), canonical(t, want))
		}
		frame, jerr := m.EncodeRequest(got, nil)
		if jerr != nil {
			t.Fatalf("%v: %s", jerr, got)
		}
		if again := decodeRequest(t, m, frame); !bytes.Equal(canonical(t, want), canonical(t, again)) {
			t.Fatalf("encoded again: got  %s\nwant %s", canonical(t, again), canonical(t, want))
		}
	})
}

// oracle parses with dynamicpb, which panics on a map entry that has its key twice, once with a wrong wire type
// (protobuf-go 1.36).
func oracle(raw []byte, m proto.Message) (broken bool, err error) {
	defer func() { broken = recover() != nil }()
	return false, proto.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: 60}.Unmarshal(raw, m)
}

// canonical spells a message so that equal ones are spelled alike.
func canonical(t testing.TB, m proto.Message) []byte {
	t.Helper()
	text, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	text, err = json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// FuzzRequest compares with protojson: what both take means the same, and what is taken can always be parsed.
func FuzzRequest(f *testing.F) {
	s := foreign(f, everything, protoregistry.GlobalTypes)
	m := compile(f, s, "All")
	for _, seed := range []string{
		`{"i32":-1,"i64":-9007199254740993,"u32":4294967295.0,"u64":18446744073709551615,"s32":-2147483648,"s64":5e0,"f32":1,"f64":2,"sf32":-3,"sf64":-4}`,
		`{"float":1.5e-9,"double":-1e300,"bool":true,"text":"a\"\n\ud83d\ude00","bytes":"AP8=","colour":"COLOUR_BLUE","all":{"all":{"text":"x"}},"x":[{}]}`,
		`{"ri32":[1,-2],"rtext":["","a"],"rall":[{},{"i32":1}],"rdouble":[0.1,"NaN"],"rcolour":["COLOUR_RED",9],"mtext":{"a":{},"":{"text":"b"}},"mint":{"-5":"x"},"mbool":{"true":1}}`,
		`{"three":{"maybe":0},"struct":{"a":[1,null,{"b":"c"}]},"value":null,"list":[true,"x"],"time":"2026-01-02T03:04:05.006Z","duration":"-1.5s","wrapped":7,"wtext":null}`,
		` { "one" : "x" , "two" : null } `, `{"I32":1}`, `{"text":"\ud800"}`, `null`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, params []byte) {
		frame, jerr := m.EncodeRequest(params, nil)
		if jerr != nil {
			return
		}
		got := decodeRequest(t, m, frame)
		if len(bytes.TrimSpace(params)) == 0 || !json.Valid(params) {
			return // the caller has checked that it is JSON
		}
		want := dynamicpb.NewMessage(m.Input)
		if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(params, want) != nil {
			return
		}
		if !bytes.Equal(canonical(t, want), canonical(t, got)) {
			t.Fatalf("%s\ngot  %s\nwant %s", params, canonical(t, got), canonical(t, want))
		}
	})
}
