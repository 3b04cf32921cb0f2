package lex

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestStringEnd_FindsQuoteAtAnyOffset(t *testing.T) {
	for _, special := range []string{"", `\n`, `\"`, `\\`, `\u00e4`, "ä", `\ud83d\ude00`} {
		for before := range 20 {
			for after := range 20 {
				body := strings.Repeat("a", before) + special + strings.Repeat("b", after)
				b := []byte(`"` + body + `"` + strings.Repeat(" ", after))
				end, escaped, ascii := StringEnd(b, 1)
				if end != len(body)+2 || escaped != strings.HasPrefix(special, `\`) || ascii == (special == "ä") {
					t.Fatalf("%s: got %d, %v, %v", b, end, escaped, ascii)
				}
				var want string
				if err := json.Unmarshal([]byte(`"`+body+`"`), &want); err != nil {
					t.Fatal(err)
				}
				if got, paired := AppendUnescaped(nil, []byte(body)); string(got) != want || !paired {
					t.Fatalf("%s: got %q, %v, want %q", body, got, paired, want)
				}
			}
		}
	}
}

func TestStringEnd_LongStrings(t *testing.T) {
	for length := range 200 {
		b := []byte(`"` + strings.Repeat("a", length) + `" "` + strings.Repeat(" ", 64))
		if end, escaped, _ := StringEnd(b, 1); end != length+2 || escaped {
			t.Fatalf("%d characters: it ends at %d, escaped %v", length, end, escaped)
		}
		for at := range length {
			for _, c := range []byte{0, '\n', 0x1f, '\\', '"', 'b', 0x7f, 0x80, 0xff} {
				if c == '\\' && at == length-1 {
					continue // it escapes the quote
				}
				b[1+at] = c
				end, _, ascii := StringEnd(b, 1)
				want := length + 2
				switch {
				case c < ' ' || c == '\\':
					want = ^(1 + at)
				case c == '"':
					want = at + 2
				}
				if end != want || end > 0 && ascii == (c >= 0x80) {
					t.Fatalf("%d characters, %q at %d: got %d, ASCII %v, want %d", length, c, at, end, ascii, want)
				}
			}
			b[1+at] = 'a'
		}
	}
}

func TestVisible_EndsAtInvisibleCharacter(t *testing.T) {
	for length := range 40 {
		for at := range length {
			for c := range 256 {
				b := bytes.Repeat([]byte("~"), length)
				b[at] = byte(c)
				want := length
				if c < ' ' || c >= 0x7f || c == '\\' {
					want = at
				}
				if got := VisibleEnd(b, 0); got != want {
					t.Fatalf("%q: got %d, want %d", b, got, want)
				}
			}
		}
	}
}

func TestStringEnd_ReportsErrorOffset(t *testing.T) {
	for text, want := range map[string]int{
		`abc`: 3, "ab\ncdefghijkl\"": 2, `abcdefghijkl\x"`: 12, `\u12g4"`: 0, `\`: 0, `\u12`: 0, "abcdefgh\x00\"": 8, ``: 0,
	} {
		if end, _, _ := StringEnd([]byte(text), 0); end != ^want {
			t.Errorf("%q: got %d, want %d", text, end, ^want)
		}
	}
}

func TestAppendUnescaped_KeepsUnpairedSurrogates(t *testing.T) {
	texts := map[string]bool{}
	for _, body := range []string{`\ud800`, `\udbff`, `\udc00`, `\udfff`, `\ud800\ud800`, `\udc00\ud800`, `\ud800x`, `\ud800\n`, `\ud800\u0041`} {
		text, paired := AppendUnescaped([]byte("before"), []byte(body))
		if paired || utf8.Valid(text) || !bytes.HasPrefix(text, []byte("before")) {
			t.Errorf("%s: got %q, paired %v", body, text, paired)
		}
		if texts[string(text)] {
			t.Errorf("%s became the same as another", body)
		}
		texts[string(text)] = true
	}
}

func TestAppendFolded_EqualNamesFoldAlike(t *testing.T) {
	fold := func(s string) string { return string(AppendFolded(nil, []byte(s))) }
	for a, b := range map[string]string{"path": "PATH", "sessionId": "\u017fE\u017fSIONID", "key": "\u212aey", "ß": "\u1e9e", "σ": "ς", "\xff": "\xff"} {
		if fold(a) != fold(b) || a != "\xff" && !strings.EqualFold(a, b) {
			t.Errorf("%q becomes %q, %q becomes %q", a, fold(a), b, fold(b))
		}
	}
	for a, b := range map[string]string{"path": "paths", "a": "ä", "i": "ı", "": "a", "\xff": "\xfe"} {
		if fold(a) == fold(b) {
			t.Errorf("%q and %q become %q", a, b, fold(a))
		}
	}
}

func FuzzValue(f *testing.F) {
	for _, seed := range []string{`{"a":[1,-2.5e+3,true,false,null,"\u00e4"]}`, `[[],{}]`, `"`, `-`, `1.`, `{"a" : 1 , "b" : [ ] }`, `[1,]`, `{"a":1,}`} {
		f.Add([]byte(seed))
	}
	var n Nesting
	f.Fuzz(func(t *testing.T, b []byte) {
		end := n.ValueEnd(b, SkipSpace(b, 0), 0)
		if end >= 0 {
			end = TextEnd(b, end)
		}
		if valid := json.Valid(b); valid != (end >= 0) {
			t.Fatalf("json.Valid = %v, end = %d", valid, end)
		}
		if end < 0 && end != TooDeep && (^end < 0 || ^end > len(b)) {
			t.Fatalf("the mistake is at %d of %d", ^end, len(b))
		}
	})
}

func TestDecimal_NormalisesNumbers(t *testing.T) {
	for _, tt := range []struct {
		number, digits string
		power          int
		ok             bool
	}{
		{"0", "", 0, true}, {"-0.00e7", "", 5, true}, {"100", "1", 2, true}, {"-1.50e3", "15", 2, true}, {"0.001", "1", -3, true}, {"120e-1", "12", 0, true},
		{"1e99999999999999999999", "1", math.MaxInt, false},
		{"10e9223372036854775807", "1", math.MinInt, false},
		{"0.1e-9223372036854775808", "1", math.MaxInt, false},
		{"1e-9223372036854775808", "1", math.MinInt, true},
	} {
		digits, power, ok := Decimal([]byte(tt.number))
		if string(digits) != tt.digits || power != tt.power || ok != tt.ok {
			t.Errorf("%s: %q, %d, %v", tt.number, digits, power, ok)
		}
	}
}
