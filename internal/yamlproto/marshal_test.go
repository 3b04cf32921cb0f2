package yamlproto_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/acphost/acphost/internal/yamlproto"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

func TestMarshal_KeepsFieldOrder(t *testing.T) {
	got, err := yamlproto.Marshal(&permissionv1.Policy{Version: 1,
		Unattended: "deny",
		Rules: []*permissionv1.Rule{
			{Id: "git", Effect: "allow", Command: []string{"git status", "git log"}},
			{Id: "rm", Effect: "ask", NotGrantable: true, On: []string{"*"}, Reason: "two\nlines: # \"x\""},
		}})
	want := `version: 1
rules:
  - id: git
    effect: allow
    command:
      - "git status"
      - "git log"
  - id: rm
    effect: ask
    on:
      - "*"
    reason: "two\nlines: # \"x\""
    not_grantable: true
unattended: deny
`
	if err != nil || string(got) != want {
		t.Errorf("got:\n%s%v\nwant:\n%s", got, err, want)
	}
}

func TestMarshal_EmptyMessage(t *testing.T) {
	got, err := yamlproto.Marshal(new(permissionv1.Policy))
	if err != nil || string(got) != "{}\n" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestMarshal_RejectsInvalidText(t *testing.T) {
	tests := map[string]proto.Message{
		"text that is not UTF-8": &permissionv1.Rule{Id: "\xff"},
		"an enum without a name": &permissionv1.DecideResponse{Verdict: 99},
		"an Any":                 new(anypb.Any),
	}
	for name, m := range tests {
		if got, err := yamlproto.Marshal(m); err == nil {
			t.Errorf("%s: written as %q", name, got)
		}
	}
}

// FuzzMarshal_RoundTrips parses arbitrary text. Nothing may panic, every error has a position, and Marshal and
// Unmarshal restore the message.
func FuzzMarshal_RoundTrips(f *testing.F) {
	md := all(f)
	for _, seed := range []string{
		"", "{}", "maybe: 1\n", "child: &c {string_field: \"x\\u2028\\0\"}\nchildren: [*c]",
		"settings: {a: [1, 1.5, 1e300, -0.0, null, true, \"\\t\"], \"\": {}}\nvalue: null",
		"labels: {\"~\": \"null\", \"a\\nb\": \" x \", \"\\U0001F600\": \"\\uFEFF\"}",
		"verdict: off\nwait: 1.5s\nat: 2026-01-31T12:00:00Z\nwrapped: 0\nmask: stringField",
		"by_number: {-4: {maybe: 0}}\nflags: {true: allow}\nfloat_field: 3.4e38\ndouble_field: .nan",
		"a: &a [*a]", "? [x]\n: y", "<<: {}", "---\n---\n", "\t", "%YAML 1.2\n---\n{}", "&a : *a", "!!binary x", "? !!int a",
		"child: *x", "- - - -", "\"\\x", "string_field: |+\n  a\n\n", "string_field: 2026-01-31", "bytes_field: !!str AQI=",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m := newAll(md)
		if err := yamlproto.Unmarshal("f", data, m); err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Fatalf("an error without its place: %v", err)
			}
			return
		}
		text, err := yamlproto.Marshal(m)
		if err != nil {
			t.Fatalf("Marshal of %v: %v", m, err)
		}
		back := newAll(md)
		if err := yamlproto.Unmarshal("f", text, back); err != nil {
			t.Fatalf("%v\nwas written as\n%s", err, text)
		}
		if !proto.Equal(m, back) {
			a, _ := protojson.Marshal(m)
			b, _ := protojson.Marshal(back)
			t.Fatalf("read %s\nback %s\nfrom\n%s", a, b, text)
		}
	})
}
