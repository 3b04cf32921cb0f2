package approval

import (
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

func TestAnIDIsReadableAndMeansOneRequest(t *testing.T) {
	for raw, want := range map[string]string{
		`7`:                                      "a/7",
		`7.0`:                                    "a/7",
		`"7"`:                                    `a/"7"`,
		`"7e1"`:                                  `a/"7e1"`,
		`-1`:                                     "a/-1",
		`"-1"`:                                   `a/"-1"`,
		`null`:                                   "a/null",
		`"null"`:                                 `a/"null"`,
		`""`:                                     `a/""`,
		`"3f2504e0-4f89-11d3-9a0c-0305e82c3301"`: "a/3f2504e0-4f89-11d3-9a0c-0305e82c3301",
		`"\u0061b"`:                              "a/ab",
		`"a/b"`:                                  "a/a/b",
		`"a b"`:                                  `a/"a b"`,
		`"\"7\""`:                                `a/"\"7\""`,
		`"a\nb"`:                                 `a/"a\u{a}b"`,
		`"\u202e"`:                               `a/"\u{202e}"`,
		`"\u001b[2J"`:                            `a/"\u{1b}[2J"`,
		`"~"`:                                    `a/"\u{7e}"`,
	} {
		if got := ID("a", []byte(raw)); got != want {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
	if ID("a", nil) != "a/null" {
		t.Error(ID("a", nil))
	}
	long := `"` + strings.Repeat("x", 1<<20) + `"`
	if a, b := ID("a", []byte(long)), ID("a", []byte(`"y`+long[1:])); a == b || len(a) > maxID+2 || len(b) > maxID+2 {
		t.Errorf("long ids: %s, %s", a, b)
	}
}

func FuzzIDsDifferAsTheRequestsDo(f *testing.F) {
	for _, seed := range [][2]string{{`7`, `"7"`}, {`"\u0061"`, `"a"`}, {`1e2`, `100`}, {`null`, `"null"`}, {`"` + strings.Repeat("é", 40) + `"`, `"~"`}} {
		f.Add(seed[0], seed[1])
	}
	scan := func(raw string) []byte {
		var s jsonrpc.Scanner
		var m jsonrpc.Message
		if s.Scan([]byte(`{"id":`+raw+`,"method":"m"}`), &m) != nil || m.Kind != jsonrpc.KindRequest {
			return nil
		}
		return m.ID
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := scan(a), scan(b)
		if x == nil || y == nil {
			return
		}
		one, two := ID("a", x), ID("a", y)
		if same := jsonrpc.CanonicalID(x) == jsonrpc.CanonicalID(y); (one == two) != same {
			t.Errorf("%s and %s: %s and %s", x, y, one, two)
		}
		for _, c := range []byte(one) {
			if c < ' ' || c >= 0x7f {
				t.Errorf("%q is not printable", one)
			}
		}
		if len(one) > maxID+2 {
			t.Errorf("%s has %d bytes", one, len(one))
		}
	})
}
