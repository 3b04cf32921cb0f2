package approval

import (
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
)

// What is answered must be what was meant: no two requests of an agent share an id here.
func FuzzID_DiffersForDifferentRequests(f *testing.F) {
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
		one, _ := new(event.ApprovalIDs).Next("a", x)
		two, _ := new(event.ApprovalIDs).Next("a", y)
		if same := jsonrpc.CanonicalID(x) == jsonrpc.CanonicalID(y); (one == two) != same {
			t.Errorf("%s and %s: %s and %s", x, y, one, two)
		}
		for _, c := range []byte(one) {
			if c < ' ' || c >= 0x7f {
				t.Errorf("%q is not printable", one)
			}
		}
		if len(one) > 66 {
			t.Errorf("%s has %d bytes", one, len(one))
		}
	})
}
