package route_test

import (
	"slices"
	"strings"
	"testing"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
)

func TestFolders_HaveOwnRoutes(t *testing.T) {
	claims := []route.Claim{
		fsClaim(), terminalClaim(), claim("builder", route.KindExtension, terminalService), claim("deep", route.KindExtension, terminalService),
		claim("files", route.KindExtension, fsService), claim("acme", route.KindExtension, acmeService(t, &acpv1.Method{Name: "_acme.com/echo"})),
		claim("acme2", route.KindExtension, acmeService(t, &acpv1.Method{Name: "_acme.com/echo"})),
	}
	table, err := route.Build(claims, map[string]string{
		"terminal/* below /srv": "builder", "terminal/* below /srv/a/b": "deep", "terminal/* below /srv/a": "terminal",
		"fs/* below /srv/a/b": "files", "_acme.com/echo below /srv": "acme2",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ dir, terminal, fs, echo string }{
		{"", "terminal", "fs", "acme"},
		{"/", "terminal", "fs", "acme"},
		{"/srv2", "terminal", "fs", "acme"},
		{"/SRV", "terminal", "fs", "acme"},
		{"/srv", "builder", "fs", "acme2"},
		{"/srv/", "builder", "fs", "acme2"},
		{"/x/../srv/y", "builder", "fs", "acme2"},
		{"/srv/../x", "terminal", "fs", "acme"},
		{"/srv/a", "terminal", "fs", "acme2"},
		{"/srv/a/bc", "terminal", "fs", "acme2"},
		{"/srv/a/b", "deep", "files", "acme2"},
		{"/srv/a/b/c", "deep", "files", "acme2"},
	} {
		at := table.At(c.dir)
		for method, want := range map[string]string{
			"terminal/create": c.terminal, "terminal/output": c.terminal, "terminal/run": c.terminal, "fs/read_text_file": c.fs, "_acme.com/echo": c.echo,
		} {
			if got := destination(at, method); got != want {
				t.Errorf("in %q, %s goes to %s, want %s", c.dir, method, got, want)
			}
		}
	}
	if got := table.Capabilities(); !got["terminal"] || !got["fs.readTextFile"] {
		t.Errorf("the capabilities are %v", got)
	}
	if got := table.Folders("builder"); !slices.Equal(got, []string{"/srv"}) {
		t.Errorf("builder serves %q", got)
	}
	if got := table.Methods("deep"); !slices.Contains(got, "terminal/create below /srv/a/b") || slices.Contains(got, "terminal/create") {
		t.Errorf("deep answers %q", got)
	}
	if !table.Divided() {
		t.Error("the table is not divided")
	}
	if got := table.At("/srv/a/b").Handlers(); !slices.Equal(got, []string{"acme2", "deep", "files"}) {
		t.Errorf("in the deepest folder there are %q", got)
	}
}

func TestFolders_MissingMethodIsUnrouted(t *testing.T) {
	table, err := route.Build([]route.Claim{
		terminalClaim(), claim("a", route.KindExtension, acmeService(t, &acpv1.Method{Name: "_x/a"}, &acpv1.Method{Name: "_x/b"})),
		claim("b", route.KindExtension, acmeService(t, &acpv1.Method{Name: "_x/a"})),
	}, map[string]string{"_x/* below /srv": "b"})
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string][2]string{"/": {"a", "a"}, "/srv": {"b", "deny"}} {
		if got := [2]string{destination(table.At(dir), "_x/a"), destination(table.At(dir), "_x/b")}; got != want {
			t.Errorf("in %s: got %v, want %v", dir, got, want)
		}
	}
}

func TestFolders_RejectsInvalidRoutes(t *testing.T) {
	builder := claim("builder", route.KindExtension, terminalService)
	for _, c := range []struct {
		name       string
		claims     []route.Claim
		configured map[string]string
		want       string
	}{
		{"a word", []route.Claim{terminalClaim(), builder}, map[string]string{"terminal/* below /srv": "front"}, "expected a handler's name"},
		{"a handler that there is not", []route.Claim{terminalClaim()}, map[string]string{"terminal/* below /srv": "builder"}, `there is no handler "builder"`},
		{"a handler that does not declare it", []route.Claim{terminalClaim(), fsClaim(), builder}, map[string]string{"fs/* below /srv": "builder"}, `does not declare`},
		{"an undeclared namespace", []route.Claim{terminalClaim(), builder}, map[string]string{"_y/* below /srv": "builder", "terminal/* below /srv": "builder"}, "declares no method of this namespace"},
		{"half a capability", []route.Claim{terminalClaim(), builder}, map[string]string{"terminal/*": "terminal", "terminal/create below /srv": "builder"}, "one capability"},
		{"a capability that the client has elsewhere", []route.Claim{terminalClaim(), builder},
			map[string]string{"terminal/*": "front", "terminal/* below /srv": "builder"}, "advertised once"},
		{"two that answer everywhere else", []route.Claim{terminalClaim(), builder, claim("third", route.KindTerminal, terminalService)},
			map[string]string{"terminal/* below /srv": "builder"}, `handlers "terminal" and "third" all declare`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := route.Build(c.claims, c.configured)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestAnswering_FindsHandlersOfKind(t *testing.T) {
	got := route.Answering(map[string]string{"terminal/* below /srv": "builder", "terminal/create": "other", "fs/*": "files", "terminal/kill": "front", "_x/y": "acme"}, route.KindTerminal)
	if want := []string{"builder", "other", "terminal"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The lookup of a route does not allocate memory, also if folders have routes.
func TestFolders_LookupAllocatesNothing(t *testing.T) {
	table, err := route.Build([]route.Claim{terminalClaim(), claim("builder", route.KindExtension, terminalService)}, map[string]string{"terminal/* below /srv": "builder"})
	if err != nil {
		t.Fatal(err)
	}
	method := []byte("terminal/create")
	if n := testing.AllocsPerRun(100, func() { _ = table.At("/srv/x").Lookup(method) }); n > 0 {
		t.Errorf("it allocates %v times", n)
	}
}
