package grant

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestExactly_ExpandedLineIsGrantedAsLine(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file("a.o")
	expanded := func(text string) *permissionv1.Action {
		subs, unparsed := shell.Here{Dir: dir}.Parse(text)
		return command(text, subs, unparsed)
	}
	for _, text := range []string{"rm -f a*", "cat a*", `f=a.o; cat "$f"`, `for f in a*; do cat "$f"; done`} {
		a := expanded(text)
		if len(a.GetCommand().GetSubCommands()) != 1 || a.GetCommand().GetSubCommands()[0].GetDynamic() {
			t.Fatalf("%q is not expanded: %s", text, a)
		}
		for _, offer := range []Offer{Widest(a, here), Refusal(a, here)} {
			if len(offer.Grants) != 1 || offer.Grants[0].GetExactly() == "" || !strings.Contains(offer.Text, "exactly `"+text+"` in this session") {
				t.Errorf("%q: %q, %v", text, offer.Text, offer.Grants)
			}
		}
	}
	for _, tt := range []struct {
		grant *supervisorv1.Grant
		text  string
		want  bool
	}{
		{prefix(workspace, "cat"), "cat a*", true},
		{prefix(workspace, "cat"), `for f in a*; do cat "$f"; done`, true},
		{prefix(workspace, "cat"), `for f in a*; do cat "$f"; rm "$f"; done`, false},
		{prefix(workspace, "rm"), "rm a*", false},
	} {
		_, allowed := targetOf(expanded(tt.text), here).allowedBy(g(tt.grant), here)
		if allowed != tt.want {
			t.Errorf("%q: got %v, want %v", tt.text, allowed, tt.want)
		}
	}
}
