package lex

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestWalk_VisitsMembersInOrder(t *testing.T) {
	line := []byte(`{ "a" : 1 ,"\u0062":[ 2 , {"c":3} ],"a":null} `)
	var n Nesting
	var got []string
	end := Object(line, 0, func(name []byte, at int) int {
		got = append(got, string(name))
		if line[at] != '[' {
			return n.ValueEnd(line, at, 1)
		}
		return Array(line, at, func(at int) int {
			end := n.ValueEnd(line, at, 2)
			got = append(got, string(line[at:end]))
			return end
		})
	})
	if want := `[a b 2 {"c":3} a]`; fmt.Sprint(got) != want || end != len(line)-1 {
		t.Errorf("got %v, %d, want %s, %d", got, end, want, len(line)-1)
	}
}

func TestWalk_EndsAtStopOrError(t *testing.T) {
	for text, want := range map[string]int{
		`{}`: 2, `{"a":1}`: 7, `{"a":1,}`: ^7, `{"a" 1}`: ^5, `{"a":1`: ^6, `{"a":1]`: ^6, `[]`: ^0, ``: ^0, `{"a":x}`: ^5, `{"stop":1,x`: Stop,
	} {
		b := []byte(text)
		var n Nesting
		if got := Object(b, 0, func(name []byte, at int) int {
			if string(name) == "stop" {
				return Stop
			}
			return n.ValueEnd(b, at, 1)
		}); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}

func TestFind_StopsAtFirstMember(t *testing.T) {
	for text, want := range map[string]int{
		`{"x":{"a":0},"a":1,"a":2}`: 17, `{"\u0061":1, no`: 10, `{"b":1}`: -1, `{}`: -1, `[]`: -1, `{"b":[,"a":1}`: -1,
	} {
		if got := Find([]byte(text), 0, "a"); got != want && (want >= 0 || got >= 0) {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}

func TestText_ReplacesInvalidUTF8(t *testing.T) {
	for literal, want := range map[string]string{
		`"plain"`: "plain", `"\u00e4\n"`: "ä\n", `"\ud83d\ude00"`: "😀", `"\ufffd"`: "\uFFFD", `""`: "",
		`"cut \ud83d"`: "", `"\ude00\ud83d"`: "", "\"\xff\"": "", "\"\\n\xff\"": "",
	} {
		text, exact := Text([]byte(literal))
		if exact != (want != "" || literal == `""`) || exact && text != want {
			t.Errorf("%s: got %q, %v", literal, text, exact)
		}
		if !exact && !strings.Contains(text, "\uFFFD") {
			t.Errorf("%s: got %q, without a replacement", literal, text)
		}
	}
}

// manyMembers are more members than are compared one by one, and the last one again.
func manyMembers() string {
	var b strings.Builder
	for i := range 3 * manyNames {
		fmt.Fprintf(&b, `"n%d":{"n0":%d},`, i, i)
	}
	return b.String() + fmt.Sprintf(`"n%d":0`, 3*manyNames-1)
}

func FuzzDuplicates(f *testing.F) {
	for _, seed := range []string{
		`{"a":1,"b":{"a":1}}`, `{"a":1,"\u0061":2}`, `[{"a":[{"b":1,"b":2}]}]`, `{"":1,"":2}`, `{"\ud800":1,"\ud801":2}`,
		"{\"\xff\":1,\"\xfe\":2}", `{"a":{"x":1},"b":{"x":1}}`, `{` + manyMembers() + `}`, `[{"a":1},{"a":1}]`,
	} {
		f.Add([]byte(seed))
	}
	var n Nesting
	f.Fuzz(func(t *testing.T, b []byte) {
		start := SkipSpace(b, 0)
		var d Duplicates
		end, want := d.ValueEnd(b, start, 0), n.ValueEnd(b, start, 0)
		if end != want {
			t.Fatalf("the value ends at %d, want %d", end, want)
		}
		if end < 0 {
			return
		}
		v := jsontext.Value(b[start:end])
		unique := v.IsValid(jsontext.AllowInvalidUTF8(true))
		// A run of bytes that are not UTF-8 counts as one here, so that more names are equal.
		if replaced := strings.Contains(d.Name, "\uFFFD"); d.Found == unique && !replaced {
			t.Fatalf("%s: found a duplicate: %v (%q); jsontext takes it: %v", b, d.Found, d.Name, unique)
		}
	})
}
