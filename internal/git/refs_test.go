package git_test

import (
	"testing"

	"github.com/acphost/acphost/internal/git"
)

func TestHarmlessRefs(t *testing.T) {
	const head = "# pack-refs with: peeled fully-peeled sorted \n"
	const a, b = "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"
	for name, c := range map[string]struct{ before, data, why string }{
		"branches and tags": {"", head + a + " refs/heads/main\n" + a + " refs/tags/replace\n^" + b + "\n", ""},
		"present":           {head + a + " refs/replace/" + b + "\n", a + " refs/heads/x\n" + a + " refs/replace/" + b + "\n", ""},
		"removed":           {head + a + " refs/replace/" + b + "\n", "", ""},
		"new":               {head, head + a + " refs/replace/" + b + "\n", "refs/replace"},
		"new target":        {a + " refs/replace/" + b, b + " refs/replace/" + b, "refs/replace"},
		"end of a line":     {"", a + " refs/replace/" + b + "\r\n", "refs/replace"},
	} {
		t.Run(name, func(t *testing.T) {
			if why := git.HarmlessRefs([]byte(c.data), []byte(c.before)); why != c.why {
				t.Errorf("got %q, want %q", why, c.why)
			}
		})
	}
}
