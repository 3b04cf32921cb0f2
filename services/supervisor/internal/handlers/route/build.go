package route

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/transcode"
)

// Claim is one handler's claim on methods.
type Claim struct {
	// Handler is the handler's name in the configuration.
	Handler string
	// Kind is the kind of the handler: KindFS, KindTerminal, KindPermission or KindExtension.
	Kind string
	// Services are the services that it serves, as returned by Descriptors.
	Services []protoreflect.ServiceDescriptor
	// CapabilityMeta is the handler's addition to clientCapabilities._meta, from its description. Only names with a dot
	// or a slash are used.
	CapabilityMeta *structpb.Struct
}

// Build makes the table from the claims of handlers and the configured targets of methods and namespaces: "handler",
// "front", "deny", or a handler's name. A method's own entry takes precedence over its namespace's, a longer namespace
// over a shorter one. A method that is not configured goes to the handler that declares it, else to the client. A route
// of a folder names its handler. In its folder, it takes precedence over all routes of shorter folders, and over routes
// without a folder. A handler that such a route names answers the method only there, unless its kind is that of the
// method, or another route names it.
//
// The error joins all problems: two handlers with one method, or a core method (fs/*, terminal/*, elicitation/*, mcp/*)
// outside the handler's kind, both of which the configuration resolves by naming the handler; a method that is reserved
// for the link, which cannot be resolved; methods of one capability with different targets; a configured handler that
// does not exist, or does not declare the method.
func Build(claims []Claim, configured map[string]string) (*Table, error) {
	b := builder{
		claims:     map[string]*Claim{},
		known:      map[string]*transcode.Method{},
		candidates: map[string][]candidate{},
		exact:      map[string]string{},
		used:       map[string]bool{},
	}
	b.addKnown()
	for i := range claims {
		b.addClaim(&claims[i])
	}
	b.addConfigured(configured)
	t := b.resolve()
	b.resolveFolders(t)
	b.checkNamespaces()
	b.checkCapabilities(t)
	t.meta = b.capabilityMeta(t)
	if len(b.problems) > 0 {
		return nil, errors.Join(b.problems...)
	}
	t.finish()
	return t, nil
}

// candidate is one handler's claim on one method.
type candidate struct {
	handler string
	kind    string
	method  *transcode.Method
}

// builder is the state of Build. The order of problems does not depend on the order of any map.
type builder struct {
	claims     map[string]*Claim
	known      map[string]*transcode.Method // the methods of the compiled-in descriptors
	candidates map[string][]candidate       // by method, in the order of the claims
	exact      map[string]string            // configured methods
	spaces     []space                      // configured namespaces, the longest first
	limited    []limited                    // the configured routes of folders: the longest folder first, then methods before namespaces
	used       map[string]bool              // namespaces that matched a method of their handler
	problems   []error
}

// space is a configured namespace: its name "terminal/*", its prefix "terminal/", and its target.
type space struct{ name, prefix, target string }

func longestFirst(a, b space) int { return cmp.Compare(len(b.prefix), len(a.prefix)) }

func (b *builder) problem(format string, args ...any) {
	b.problems = append(b.problems, fmt.Errorf(format, args...))
}

// addKnown adds the methods with compiled-in descriptors. They have an action and a capability with any target.
func (b *builder) addKnown() {
	for _, file := range routedFiles() {
		services := file.Services()
		for i := range services.Len() {
			for m := range methodsOf(services.Get(i)) {
				method, err := transcode.Compile(m)
				if err != nil {
					b.problem("compiled-in %w", err)
				} else if method != nil {
					b.known[method.Name] = method
				}
			}
		}
	}
}

// addClaim adds the methods of one handler.
func (b *builder) addClaim(c *Claim) {
	if b.claims[c.Handler] != nil {
		b.problem("two handlers are called %q", c.Handler)
		return
	}
	b.claims[c.Handler] = c
	decides, before := false, len(b.problems)
	own := map[string]protoreflect.FullName{}
	for _, service := range c.Services {
		decides = decides || string(service.FullName()) == permissionv1.PermissionService_ServiceDesc.ServiceName
		for m := range methodsOf(service) {
			method, err := transcode.Compile(m)
			if err != nil {
				b.problem("handler %q: %w", c.Handler, err)
				continue
			}
			if method == nil {
				continue
			}
			if err := b.checkClaim(c, m, method); err != nil {
				b.problems = append(b.problems, err)
				continue
			}
			if other, twice := own[method.Name]; twice {
				b.problem("handler %q declares %s twice: %s and %s", c.Handler, method.Name, other, m.FullName())
				continue
			}
			own[method.Name] = m.FullName()
			b.candidates[method.Name] = append(b.candidates[method.Name], candidate{c.Handler, c.Kind, method})
		}
	}
	if c.Kind == KindPermission && !decides {
		b.problem("handler %q decides permissions but does not serve %s",
			c.Handler, permissionv1.PermissionService_ServiceDesc.ServiceName)
	}
	if c.Kind == KindExtension && len(own) == 0 && len(b.problems) == before {
		hint := fmt.Sprintf("the keys %q, %q and %q are for handlers of ACP's methods and of policies", KindFS, KindTerminal, KindPermission)
		if decides {
			hint = fmt.Sprintf("did you mean the key %q?", KindPermission)
		}
		b.problem("handlers: %s: no route uses the handler, so that it would take no part: it declares no method; %s", c.Handler, hint)
	}
}

// checkClaim returns an error for a claim that no configuration can make valid.
func (b *builder) checkClaim(c *Claim, m protoreflect.MethodDescriptor, method *transcode.Method) error {
	if err := checkMethod(method.Name); err != nil {
		return fmt.Errorf("handler %q: %s: %w", c.Handler, m.FullName(), err)
	}
	if c.Kind == KindPermission {
		return fmt.Errorf("handler %q: %s declares %s, but a permission handler is asked by the gate and answers no methods",
			c.Handler, m.FullName(), method.Name)
	}
	if err := checkCapability(method.Capability); err != nil {
		return fmt.Errorf("handler %q: %s: %w", c.Handler, m.FullName(), err)
	}
	return nil
}

// addConfigured adds the configured routes.
func (b *builder) addConfigured(configured map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(configured)) {
		target := configured[name]
		if err := CheckName(name); err != nil {
			b.problem("routes: %w", err)
			continue
		}
		if _, folder := SplitFolder(name); folder != "" && IsWord(target) {
			b.problem("routes: %s: %w", name, errLimitedWord(target))
			continue
		}
		if !IsWord(target) {
			claim := b.claims[target]
			switch {
			case claim == nil:
				b.problem(`routes: %s: there is no handler %q; a route is "handler", "front", "deny" or a handler's name`, name, target)
				continue
			case claim.Kind == KindPermission:
				b.problem("routes: %s: handler %q decides permissions and answers no methods", name, target)
				continue
			}
		}
		b.configure(name, target)
	}
	slices.SortStableFunc(b.spaces, longestFirst)
	slices.SortStableFunc(b.limited, mostSpecificFirst)
}

// configure adds one entry of the configuration.
func (b *builder) configure(name, target string) {
	if method, folder := SplitFolder(name); folder != "" {
		prefix, wild := namespacePrefix(method)
		if !wild {
			prefix = method
		}
		b.limited = append(b.limited, limited{space{name, prefix, target}, wild, folder})
		return
	}
	if prefix, wild := namespacePrefix(name); wild {
		b.spaces = append(b.spaces, space{name, prefix, target})
	} else {
		b.exact[name] = target
	}
}

// resolve makes the routes.
func (b *builder) resolve() *Table {
	names := slices.Collect(maps.Keys(b.known))
	names = slices.AppendSeq(names, maps.Keys(b.candidates))
	names = slices.AppendSeq(names, maps.Keys(b.exact))
	slices.Sort(names)
	t := &Table{methods: map[string]*Route{}}
	for _, name := range slices.Compact(names) {
		if r := b.route(name); r != nil {
			t.methods[name] = r
		}
	}
	for _, s := range b.spaces {
		if target, word := targets[s.target]; word && target != Handler {
			t.namespaces = append(t.namespaces, namespace{s.prefix, &Route{Name: s.name, Target: target}})
		}
	}
	return t
}

// route makes the route of one method; nil after a problem.
func (b *builder) route(name string) *Route {
	target, from := b.configuredFor(name)
	switch target {
	case wordClient, wordDeny:
		return b.newRoute(name, targets[target], nil)
	case "", wordHandler:
		return b.declared(name, target, from)
	}
	return b.named(name, target, from)
}

// configuredFor returns the configured target of a method, and the entry that it is from; "" if it is not configured.
func (b *builder) configuredFor(name string) (target, from string) {
	if target, ok := b.exact[name]; ok {
		return target, name
	}
	for _, s := range b.spaces {
		if strings.HasPrefix(name, s.prefix) {
			return s.target, s.name
		}
	}
	return "", ""
}

// declared routes to the only handler that declares the method and may answer it.
func (b *builder) declared(name, target, from string) *Route {
	kind, core := kindOf(name)
	claimed := slices.DeleteFunc(slices.Clone(b.candidates[name]), func(c candidate) bool {
		return !(core && c.kind == kind) && b.isLimited(name, c.handler)
	})
	switch {
	case len(claimed) == 0 && target == wordHandler && from == name:
		b.problem(`routes: %s: "handler", but no handler declares it`, name)
		return nil
	case len(claimed) == 0:
		return b.newRoute(name, Client, nil)
	case len(claimed) > 1:
		b.problem("handlers %s all declare %s; say in the configuration which one answers it, for example routes: {%s: %s}",
			handlerNames(claimed), name, name, claimed[0].handler)
		return nil
	case core && claimed[0].kind != kind:
		owner := "the client"
		if kind != "" {
			owner = fmt.Sprintf("a handler of kind %q", kind)
		}
		b.problem("handler %q (kind %s) declares %s, a method of ACP that belongs to %s; "+
			`a handler of its kind may only declare names that begin with "_" or that ACP does not have. `+
			"If it is meant to answer, say so in the configuration: routes: {%s: %s}",
			claimed[0].handler, claimed[0].kind, name, owner, name, claimed[0].handler)
		return nil
	}
	b.used[from] = true
	return b.newRoute(name, Handler, &claimed[0])
}

// named routes to the handler that the configuration names.
func (b *builder) named(name, handler, from string) *Route {
	claimed := b.candidates[name]
	for i := range claimed {
		if claimed[i].handler == handler {
			b.used[from] = true
			return b.newRoute(name, Handler, &claimed[i])
		}
	}
	switch {
	case from == name:
		b.problem("routes: %s: handler %q does not declare it", name, handler)
		return nil
	case len(claimed) > 0:
		b.problem("routes: %s: handler %q does not declare %s, but %s does; give %s an entry of its own",
			from, handler, name, handlerNames(claimed), name)
		return nil
	}
	return b.newRoute(name, Client, nil)
}

// newRoute makes a route. The compiled-in descriptor of a method, if there is one, determines the action and the
// capability, so that a handler cannot declare a write as a read.
func (b *builder) newRoute(name string, target Target, winner *candidate) *Route {
	r := &Route{Name: name, Target: target}
	switch {
	case winner != nil:
		r.Handler, r.Method = winner.handler, winner.method
	case b.known[name] != nil:
		r.Method = b.known[name]
	case len(b.candidates[name]) > 0:
		r.Method = b.candidates[name][0].method
	}
	if declaration := cmp.Or(b.known[name], r.Method); declaration != nil {
		r.Action, r.Capability = declaration.Action, declaration.Capability
	}
	r.Action = cmp.Or(r.Action, name)
	return r
}

// checkNamespaces reports namespaces of a handler that match none of its methods.
func (b *builder) checkNamespaces() {
	spaces := slices.Clone(b.spaces)
	for _, l := range b.limited {
		if l.wild {
			spaces = append(spaces, l.space)
		}
	}
	for _, s := range spaces {
		if s.target == wordClient || s.target == wordDeny || b.used[s.name] || len(b.problems) > 0 {
			continue
		}
		if s.target == wordHandler {
			b.problem(`routes: %s: "handler", but no handler declares a method of this namespace`, s.name)
		} else {
			b.problem("routes: %s: handler %q declares no method of this namespace", s.name, s.target)
		}
	}
}

// capabilityMeta merges the additions to clientCapabilities._meta of the handlers that answer a method.
func (b *builder) capabilityMeta(t *Table) map[string]json.RawMessage {
	answering := map[string]bool{}
	for _, r := range t.methods {
		if r.Target == Handler {
			answering[r.Handler] = true
		}
	}
	merged := map[string]json.RawMessage{}
	from := map[string]string{}
	for _, handler := range slices.Sorted(maps.Keys(answering)) {
		fields := b.claims[handler].CapabilityMeta.GetFields()
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if !strings.ContainsAny(name, "./") {
				continue
			}
			value, err := json.Marshal(fields[name].AsInterface()) // the spacing of protojson is random on purpose
			switch other, taken := from[name]; {
			case err != nil:
				b.problem("handler %q: capability_meta %q: %w", handler, name, err)
			case taken && string(merged[name]) != string(value):
				b.problem("handlers %q and %q both set capability_meta %q, to different values", other, handler, name)
			default:
				merged[name], from[name] = value, handler
			}
		}
	}
	return merged
}

// handlerNames lists the handlers of claims for people: "a", "b" and "c".
func handlerNames(claimed []candidate) string {
	names := make([]string, len(claimed))
	for i, c := range claimed {
		names[i] = fmt.Sprintf("%q", c.handler)
	}
	slices.Sort(names)
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// methodsOf yields the RPCs of a service in their order.
func methodsOf(service protoreflect.ServiceDescriptor) func(yield func(protoreflect.MethodDescriptor) bool) {
	return func(yield func(protoreflect.MethodDescriptor) bool) {
		methods := service.Methods()
		for i := range methods.Len() {
			if !yield(methods.Get(i)) {
				return
			}
		}
	}
}
