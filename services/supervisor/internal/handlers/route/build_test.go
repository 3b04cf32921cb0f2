package route_test

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
)

// destination returns the target of a method as one word: "-" for a method without a route.
func destination(t *route.Table, method string) string {
	switch r := t.Lookup([]byte(method)); {
	case r == nil:
		return "-"
	case r.Target == route.Handler:
		return r.Handler
	default:
		return r.Target.String()
	}
}

func TestBuild_RoutesByDescriptorsAndConfig(t *testing.T) {
	echo := claim("acme", route.KindExtension, acmeService(t, &acpv1.Method{Name: "_acme.com/echo"}, &acpv1.Method{Name: "acme/other"}))
	ours := []route.Claim{fsClaim(), terminalClaim(), permissionClaim(), echo}
	for _, c := range []struct {
		name       string
		claims     []route.Claim
		configured map[string]string
		want       map[string]string
	}{
		{
			name: "without configuration each goes to the handler that declares it", claims: ours,
			want: map[string]string{
				"fs/read_text_file": "fs", "fs/write_text_file": "fs", "fs/list_directory": "fs", "terminal/create": "terminal",
				"terminal/wait_for_exit": "terminal", "terminal/run": "terminal", "_acme.com/echo": "acme", "acme/other": "acme",
				"session/request_permission": "-", "_other.com/x": "-", "elicitation/create": "-", "": "-",
			},
		},
		{
			name: "without handlers ACP's own go to the front",
			want: map[string]string{"fs/read_text_file": "front", "terminal/create": "front", "_acme.com/echo": "-"},
		},
		{
			name: "a namespace goes to the front", claims: ours, configured: map[string]string{"fs/*": "front"},
			want: map[string]string{"fs/read_text_file": "front", "fs/list_directory": "front", "fs/new_in_acp": "front", "fs/": "-", "fs": "-", "terminal/create": "terminal"},
		},
		{
			name: "a method's own entry wins over its namespace", claims: ours,
			configured: map[string]string{"fs/*": "deny", "fs/write_text_file": "front", "fs/list_directory": "handler", "fs/read_text_file": "fs"},
			want:       map[string]string{"fs/read_text_file": "fs", "fs/write_text_file": "front", "fs/list_directory": "fs", "fs/other": "deny"},
		},
		{
			name: "a longer namespace wins over a shorter one", claims: ours,
			configured: map[string]string{"_acme.com/*": "deny", "_acme.com/a/*": "front"},
			want:       map[string]string{"_acme.com/echo": "deny", "_acme.com/a/b": "front", "_acme.com/ab": "deny"},
		},
		{
			name: "an unknown method can be denied or left to the front", claims: ours,
			configured: map[string]string{"mcp/message": "deny", "_x/y": "front"},
			want:       map[string]string{"mcp/message": "deny", "_x/y": "front"},
		},
		{
			name:       "configuration names the winner of two claims",
			claims:     []route.Claim{fsClaim(), claim("other", route.KindFS, fsService)},
			configured: map[string]string{"fs/*": "other", "fs/write_text_file": "fs"},
			want:       map[string]string{"fs/read_text_file": "other", "fs/write_text_file": "fs", "fs/list_directory": "other"},
		},
		{
			name:       "two claims on a method that is denied are no conflict",
			claims:     []route.Claim{fsClaim(), claim("other", route.KindFS, fsService)},
			configured: map[string]string{"fs/*": "deny"},
			want:       map[string]string{"fs/read_text_file": "deny"},
		},
		{
			name:       "configuration lets an extension answer a core method",
			claims:     []route.Claim{claim("acme", route.KindExtension, acmeService(t, &acpv1.Method{Name: "elicitation/create"}))},
			configured: map[string]string{"elicitation/create": "acme"},
			want:       map[string]string{"elicitation/create": "acme"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			table, err := route.Build(c.claims, c.configured)
			if err != nil {
				t.Fatal(err)
			}
			for _, method := range slices.Sorted(maps.Keys(c.want)) {
				if got := destination(table, method); got != c.want[method] {
					t.Errorf("%s goes to %s, want %s", method, got, c.want[method])
				}
			}
		})
	}
}

func TestBuild_RejectsInvalidRoutes(t *testing.T) {
	acmeClaims := func(names ...string) route.Claim {
		methods := make([]*acpv1.Method, len(names))
		for i, name := range names {
			methods[i] = &acpv1.Method{Name: name}
		}
		return claim("acme", route.KindExtension, acmeService(t, methods...))
	}
	for _, c := range []struct {
		name       string
		claims     []route.Claim
		configured map[string]string
		want       []string // the error contains all of them
	}{
		{
			name:   "two handlers with one method",
			claims: []route.Claim{claim("b", route.KindExtension, acmeService(t, &acpv1.Method{Name: "_x/y"})), claim("a", route.KindExtension, acmeService(t, &acpv1.Method{Name: "_x/y"}))},
			want:   []string{`handlers "a" and "b" all declare _x/y`, "routes: {_x/y: b}"},
		},
		{
			name: "one handler with one method twice", claims: []route.Claim{acmeClaims("_x/y", "_x/y")},
			want: []string{`handler "acme" declares _x/y twice: acme.v1.Acme.M0 and acme.v1.Acme.M1`},
		},
		{
			name: "a policy under the key of an extension", claims: []route.Claim{claim("permd", route.KindExtension, permService)},
			want: []string{"handlers: permd: no route uses the handler", `did you mean the key "permission"?`},
		},
		{
			name: "an extension without methods", claims: []route.Claim{claim("acme", route.KindExtension)},
			want: []string{"handlers: acme: no route uses the handler", `the keys "fs", "terminal" and "permission"`},
		},
		{
			name: "an extension with a core method", claims: []route.Claim{acmeClaims("fs/read_text_file")},
			want: []string{`handler "acme" (kind extension) declares fs/read_text_file`, `belongs to a handler of kind "fs"`, `begin with "_"`, "routes: {fs/read_text_file: acme}"},
		},
		{
			name: "an extension with a method of the front", claims: []route.Claim{acmeClaims("mcp/message")},
			want: []string{"mcp/message, a method of ACP that belongs to the client", "routes: {mcp/message: acme}"},
		},
		{
			name: `"handler" does not make an extension the owner of a core method`, claims: []route.Claim{acmeClaims("elicitation/create")},
			configured: map[string]string{"elicitation/create": "handler"}, want: []string{"routes: {elicitation/create: acme}"},
		},
		{
			name: "a fs handler with a terminal method", claims: []route.Claim{fsClaim(), claim("terminal", route.KindFS, terminalService)},
			want: []string{`handler "terminal" (kind fs) declares terminal/create`, `a handler of kind "terminal"`},
		},
		{
			name: "a claim on what the link lives by", claims: []route.Claim{acmeClaims("session/prompt")}, configured: map[string]string{"session/prompt": "acme"},
			want: []string{`handler "acme": acme.v1.Acme.M0: session/prompt cannot be routed`, "routes: session/prompt cannot be routed"},
		},
		{
			name: "a method with a strange name", claims: []route.Claim{acmeClaims("_x/é")},
			want: []string{`"_x/é" is not a method`},
		},
		{
			name: "an RPC that streams", claims: []route.Claim{claim("acme", route.KindExtension, streaming(t))},
			want: []string{`handler "acme": `, "acme.v1.Acme.M0", "stream"},
		},
		{
			name: "a permission handler that does not decide", claims: []route.Claim{claim("permission", route.KindPermission, acmeService(t, &acpv1.Method{Name: "_x/y"}))},
			want: []string{"answers no methods", "does not serve acphost.permission.v1.PermissionService"},
		},
		{
			name: "two handlers of one name", claims: []route.Claim{fsClaim(), fsClaim()}, want: []string{`two handlers are called "fs"`},
		},
		{
			name: "methods of one capability that go two ways", claims: []route.Claim{terminalClaim()}, configured: map[string]string{"terminal/kill": "front"},
			want: []string{`one capability, "terminal"`, `terminal/create to handler terminal`, "terminal/kill to front", "route them together"},
		},
		{
			name: "initialize configured", configured: map[string]string{"initialize": "front"}, want: []string{"routes: initialize cannot be routed"},
		},
		{
			name: "all of session/ configured", configured: map[string]string{"session/*": "deny"}, want: []string{"routes: session/* cannot be routed"},
		},
		{
			name: "cancellation configured", configured: map[string]string{"$/cancel_request": "deny"}, want: []string{"routes: $/cancel_request cannot be routed"},
		},
		{
			name: "everything configured", configured: map[string]string{"*": "deny"}, want: []string{`"*" is not a method`},
		},
		{
			name: "a handler that there is not", claims: []route.Claim{fsClaim()}, configured: map[string]string{"fs/*": "fsx"}, want: []string{`routes: fs/*: there is no handler "fsx"`},
		},
		{
			name: "an undeclared method sent to a handler", configured: map[string]string{"_x/y": "handler"}, want: []string{`routes: _x/y: "handler", but no handler declares it`},
		},
		{
			name: "an undeclared namespace sent to a handler", configured: map[string]string{"_x/*": "handler"}, want: []string{`routes: _x/*: "handler", but no handler declares a method of this namespace`},
		},
		{
			name: "a method sent to a handler that does not declare it", claims: []route.Claim{fsClaim(), terminalClaim()}, configured: map[string]string{"_x/y": "fs"},
			want: []string{`routes: _x/y: handler "fs" does not declare it`},
		},
		{
			name: "a namespace sent to a handler that declares none of it", claims: []route.Claim{fsClaim()}, configured: map[string]string{"_x/*": "fs"},
			want: []string{`routes: _x/*: handler "fs" declares no method of this namespace`},
		},
		{
			name: "a namespace sent to a handler that declares a part of it", claims: []route.Claim{fsClaim(), acmeClaims("fs/list_directory")}, configured: map[string]string{"fs/*": "acme"},
			want: []string{`routes: fs/*: handler "acme" does not declare fs/read_text_file, but "fs" does`},
		},
		{
			name: "a method sent to the permission handler", claims: []route.Claim{permissionClaim()}, configured: map[string]string{"_x/y": "permission"},
			want: []string{`handler "permission" decides permissions`},
		},
		{
			name: "a capability inside another", claims: []route.Claim{claim("acme", route.KindExtension, acmeService(t, &acpv1.Method{Name: "_x/y", Capability: "terminal.x"}))},
			want: []string{`capability "terminal"`, `cannot hold capability "terminal.x" (_x/y)`},
		},
		{
			name: "a capability that is no path", claims: []route.Claim{claim("acme", route.KindExtension, acmeService(t, &acpv1.Method{Name: "_x/y", Capability: "_meta.x"}))},
			want: []string{`capability "_meta.x" is not a path`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			table, err := route.Build(c.claims, c.configured)
			if err == nil {
				t.Fatalf("a table was built with %d routes, want an error", len(table.Routes()))
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error does not contain %q:\n%v", want, err)
				}
			}
		})
	}
}

func TestCapabilities_FollowRoutes(t *testing.T) {
	ext := claim("acme", route.KindExtension, acmeService(t, &acpv1.Method{Name: "_acme.com/x", Capability: "acme"}))
	table, err := route.Build([]route.Claim{fsClaim(), terminalClaim(), ext}, map[string]string{"fs/write_text_file": "front", "terminal/*": "deny"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"acme": true, "fs.readTextFile": true, "terminal": false} // fs.writeTextFile is the client's
	if got := table.Capabilities(); !maps.Equal(got, want) {
		t.Errorf("capabilities are %v, want %v", got, want)
	}
}

func TestCapabilities_DeniedWithoutHandler(t *testing.T) {
	table, err := route.Build(nil, map[string]string{"terminal/*": "deny"})
	if err != nil {
		t.Fatal(err)
	}
	if served, ok := table.Capabilities()["terminal"]; served || !ok {
		t.Errorf("capabilities are %v, want terminal denied among them", table.Capabilities())
	}
}

func TestBuild_IgnoresActionOfKnownMethod(t *testing.T) {
	service := acmeService(t, &acpv1.Method{Name: "fs/write_text_file", Action: "fs.read", Capability: "acme"})
	table, err := route.Build([]route.Claim{claim("mine", route.KindFS, service)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := table.Lookup([]byte("fs/write_text_file"))
	if r.Handler != "mine" || r.Action != "fs.write" || r.Capability != "fs.writeTextFile" {
		t.Errorf("route is %s, action %s, capability %s; want mine, fs.write, fs.writeTextFile", r.Handler, r.Action, r.Capability)
	}
	if r.Method.RPC != "/acme.v1.Acme/M0" {
		t.Errorf("the RPC is %s, want the handler's own", r.Method.RPC)
	}
}

func TestBuild_ExtensionActionDefaultsToMethod(t *testing.T) {
	service := acmeService(t, &acpv1.Method{Name: "_a/plain"}, &acpv1.Method{Name: "_a/said", Action: "acme.act"})
	table, err := route.Build([]route.Claim{claim("acme", route.KindExtension, service)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for method, want := range map[string]string{"_a/plain": "_a/plain", "_a/said": "acme.act"} {
		if got := table.Lookup([]byte(method)).Action; got != want {
			t.Errorf("action of %s is %q, want %q", method, got, want)
		}
	}
}

func TestBuild_ClientRouteHasAction(t *testing.T) {
	table, err := route.Build(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := table.Lookup([]byte("fs/write_text_file"))
	if r.Target != route.Client || r.Action != "fs.write" || r.Method == nil {
		t.Errorf("route is %v with action %q and method %v; want front, fs.write, and a method", r.Target, r.Action, r.Method)
	}
}

func TestCapabilityMeta_HasDomainsOfUsedHandlers(t *testing.T) {
	meta := func(m map[string]any) *structpb.Struct {
		s, err := structpb.NewStruct(m)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	one := claim("one", route.KindExtension, acmeService(t, &acpv1.Method{Name: "_one/x"}))
	one.CapabilityMeta = meta(map[string]any{"one.com": map[string]any{"b": 1, "a": []any{true, nil}}, "terminal_output": true, "shared/x": "same"})
	two := claim("two", route.KindExtension, acmeService(t, &acpv1.Method{Name: "_two/x"}))
	two.CapabilityMeta = meta(map[string]any{"shared/x": "same", "two.com": 2})
	idle := fsClaim()
	idle.CapabilityMeta = meta(map[string]any{"fs.com": true})

	table, err := route.Build([]route.Claim{one, two, idle}, map[string]string{"fs/*": "front"})
	if err != nil {
		t.Fatal(err)
	}
	got := table.CapabilityMeta()
	want := map[string]string{"one.com": `{"a":[true,null],"b":1}`, "shared/x": `"same"`, "two.com": "2"}
	for name, value := range want {
		if string(got[name]) != value {
			t.Errorf("%s is %s, want %s", name, got[name], value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("names are %v, want those of %v", slices.Sorted(maps.Keys(got)), want)
	}

	two.CapabilityMeta = meta(map[string]any{"shared/x": "different"})
	if _, err := route.Build([]route.Claim{one, two}, nil); err == nil || !strings.Contains(err.Error(), `handlers "one" and "two" both set capability_meta "shared/x"`) {
		t.Errorf("two values for one name: error is %v", err)
	}
}

func TestLookup_AllocatesNothing(t *testing.T) {
	table, err := route.Build([]route.Claim{fsClaim(), terminalClaim()}, map[string]string{"_x/*": "deny"})
	if err != nil {
		t.Fatal(err)
	}
	names := [][]byte{[]byte("fs/read_text_file"), []byte("_x/anything"), []byte("unknown")}
	var found *route.Route
	if n := testing.AllocsPerRun(100, func() {
		for _, name := range names {
			if r := table.Lookup(name); r != nil {
				found = r
			}
		}
	}); n != 0 {
		t.Errorf("lookups allocate %v times, want 0", n)
	}
	if found == nil {
		t.Error("nothing was found")
	}
}

func TestRoutes_AreSortedAndCountCalls(t *testing.T) {
	table, err := route.Build([]route.Claim{fsClaim()}, map[string]string{"_x/*": "deny"})
	if err != nil {
		t.Fatal(err)
	}
	routes := table.Routes()
	if !slices.IsSortedFunc(routes, func(a, b *route.Route) int { return strings.Compare(a.Name, b.Name) }) || routes[0].Name != "_x/*" {
		t.Errorf("routes are not sorted, or do not begin with _x/*: %v", routes[0].Name)
	}
	r := table.Lookup([]byte("fs/read_text_file"))
	if got := r.State(); got.MedianMicros != 0 || got.Calls != 0 {
		t.Errorf("before the first call: %v", got)
	}
	for i := range 200 {
		r.Observe(time.Duration(i)*time.Microsecond, i%4 == 0)
	}
	got := r.State()
	if got.Calls != 200 || got.Errors != 50 {
		t.Errorf("calls %d, errors %d; want 200 and 50", got.Calls, got.Errors)
	}
	if got.MedianMicros < 160 || got.MedianMicros > 175 {
		t.Errorf("median is %d µs, want that of the last 64 calls, about 168", got.MedianMicros)
	}
	if got.Rpc != "/acphost.fs.v1.FileSystemService/ReadTextFile" || got.Target != "handler" || got.Handler != "fs" || got.Capability != "fs.readTextFile" {
		t.Errorf("state is %v", got)
	}
	if got := table.Methods("fs"); !slices.Equal(got, []string{"fs/list_directory", "fs/read_text_file", "fs/write_text_file"}) {
		t.Errorf("methods of fs are %v", got)
	}
}

func TestOverride_FlagsReplaceCoveredRoutes(t *testing.T) {
	got := route.Override(
		map[string]string{"fs/read_text_file": "deny", "fs/*": "handler", "terminal/*": "deny", "_x/y": "front"},
		map[string]string{"fs/*": "front", "_x/y": "deny"})
	want := map[string]string{"fs/*": "front", "terminal/*": "deny", "_x/y": "deny"}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestCheck_WorksWithoutHandlers(t *testing.T) {
	for _, c := range []struct {
		name       string
		configured map[string]string
		want       string
	}{
		{"nothing configured", nil, ""},
		{"all of one capability", map[string]string{"terminal/*": "front", "fs/write_text_file": "deny"}, ""},
		{"a method without a capability apart", map[string]string{"terminal/*": "front", "terminal/run": "deny"}, ""},
		{"a handler by name", map[string]string{"terminal/*": "mine", "terminal/kill": "handler"}, ""},
		{"one method apart", map[string]string{"terminal/kill": "deny"}, "terminal/kill to deny"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := route.CheckAgreement(c.configured)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error is %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestRoute_CountsConcurrentCalls(t *testing.T) {
	r := new(route.Route)
	var observers sync.WaitGroup
	for range 8 {
		observers.Go(func() {
			for range 1000 {
				r.Observe(time.Millisecond, true)
				_ = r.Median()
			}
		})
	}
	observers.Wait()
	if r.Calls() != 8000 || r.Errors() != 8000 || r.Median() != time.Millisecond {
		t.Errorf("calls %d, errors %d, median %v", r.Calls(), r.Errors(), r.Median())
	}
}

func TestCheckName_RejectsOtherNamesOfMethods(t *testing.T) {
	for name, today := range map[string]string{"readTextFile": "fs/read_text_file", "fs/writeTextFile": "fs/write_text_file", "prompt": "session/prompt"} {
		if err := route.CheckName(name); err == nil || !strings.Contains(err.Error(), "another name of "+today) {
			t.Errorf("CheckName(%q) = %v", name, err)
		}
	}
}
