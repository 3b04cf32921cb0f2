package gate

import (
	"testing"

	"github.com/acphost/acphost/internal/paths"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// protectedCommand calls ProtectedCommand, which returns the same result with a cache of path look-ups.
func protectedCommand(t *testing.T, g *Gate, c *permissionv1.Command, roots []string) string {
	t.Helper()
	protected, unclear, at := g.By(nil).keysOf(c, roots)
	if p, u, a := g.By(paths.NewCache()).keysOf(c, roots); p != protected || u != unclear || a != at {
		t.Errorf("%s: by what has been seen: %q, %v, %d; by looking each time: %q, %v, %d", c.GetText(), p, u, a, protected, unclear, at)
	}
	if got := g.ProtectedCommand(c, roots); got != protected {
		t.Errorf("%s: got %q, want %q", c.GetText(), got, protected)
	}
	return protected
}

func TestProtectedBelow_IgnoresCase(t *testing.T) {
	for path, want := range map[string]bool{
		"/w/.acphost": true, "/w/.AcpHost/x": true, "/w/./.ACPHOST": true, "/w/x/../.acphost/y": true, "/W/.acphost": true, "/W/.Acphost/": true,
		"/w/.acphos": false, "/w/.acphost2": false, "/w/x/.acphost": false, "/x/.acphost": false, "/w/acphost": false, "": false, ".acphost": false,
		"/w/.acpho\u017ft": false,
	} {
		if got := ProtectedBelow([]string{"/w", ""}, path); got != want {
			t.Errorf("%q: got %v", path, got)
		}
	}
}
