package gateway_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/acphost/acphost/test/e2e"
)

// schema is one of the schemas of ACP that the TypeScript SDK ships.
type schema struct {
	t     testing.TB
	url   string
	defs  map[string]any
	check *jsonschema.Compiler
	// methods are all methods of the schema.
	methods map[string]*schemaMethod
	made    map[string][]string // samples, by their definition
}

// schemaMethod is a method with the names of its definitions; a method may be a request, a notification, or both.
type schemaMethod struct {
	side                            string // who takes it: "agent", "client", "protocol" and "proxy" (either)
	request, response, notification string
}

// readSchema reads a schema by its path in the SDK's folder "schema".
func readSchema(t testing.TB, name string) *schema {
	t.Helper()
	path := filepath.Join(filepath.Dir(e2e.Peer(t, "ts-agent.mjs")), "node_modules", "@agentclientprotocol", "sdk", "schema", name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	s := &schema{t: t, url: "file:///" + name, check: jsonschema.NewCompiler(), methods: map[string]*schemaMethod{}, made: map[string][]string{}}
	if err := s.check.AddResource(s.url, doc); err != nil {
		t.Fatal(err)
	}
	s.defs = doc.(map[string]any)["$defs"].(map[string]any)
	for name, def := range s.defs {
		method, _ := def.(map[string]any)["x-method"].(string)
		if method == "" {
			continue
		}
		m := s.methods[method]
		if m == nil {
			m = &schemaMethod{}
			s.methods[method] = m
		}
		m.side, _ = def.(map[string]any)["x-side"].(string)
		switch {
		case strings.HasSuffix(name, "Request"):
			m.request = name
		case strings.HasSuffix(name, "Response"):
			m.response = name
		case strings.HasSuffix(name, "Notification"):
			m.notification = name
		default:
			t.Errorf("%s: the definition %s of %s is no request, response or notification", s.url, name, method)
		}
	}
	return s
}

// valid fails the test unless a JSON value matches a definition.
func (s *schema) valid(def string, value []byte) {
	s.t.Helper()
	compiled, err := s.check.Compile(s.url + "#/$defs/" + def)
	if err != nil {
		s.t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(value)))
	if err != nil {
		s.t.Fatalf("%s: %v", value, err)
	}
	if err := compiled.Validate(v); err != nil {
		s.t.Fatalf("%s is not valid by %s of %s: %v", value, def, s.url, err)
	}
}

// How much a sample holds.
const (
	requiredOnly = iota
	withOptional
	withUnknown // members that no schema has, too
)

// sampler makes values of definitions. At each choice it uses the next alternative.
type sampler struct {
	*schema
	amount int
	// words are raw values by the names of members.
	words map[string]string
	turns map[[2]uintptr]int // by choice and amount
	seen  map[[3]uintptr]bool
	wide  int // the number of alternatives of the widest choice
}

// samples returns values of a definition: each alternative of each choice occurs in some of them, each value with the
// required members alone, with the optional ones, and with unknown ones.
func (s *schema) samples(def string, words map[string]string) (all []string) {
	key := fmt.Sprint(def, words)
	if all = s.made[key]; all != nil {
		return all
	}
	g := &sampler{schema: s, words: words, turns: map[[2]uintptr]int{}, seen: map[[3]uintptr]bool{}}
	for fresh := 0; fresh <= g.wide && len(all) < 1000; fresh++ {
		for g.amount = range withUnknown + 1 {
			before := len(g.seen)
			value := g.value(s.defs[def].(map[string]any), "", 0)
			if len(g.seen) > before {
				fresh = 0
			}
			s.valid(def, []byte(value.text()))
			all = append(all, value.text())
		}
	}
	s.made[key] = all
	return all
}

// sample is a JSON value: members of an object, or the text of another one.
type sample struct {
	members []sampleMember
	scalar  string
}

type sampleMember struct{ name, value string }

func (v sample) text() string {
	if v.scalar != "" {
		return v.scalar
	}
	parts := make([]string, len(v.members))
	for i, m := range v.members {
		parts[i] = `"` + m.name + `" :` + m.value
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func (v *sample) add(more sample) {
	if more.scalar != "" {
		v.scalar = more.scalar
	}
	for _, m := range more.members {
		v.members = slices.DeleteFunc(v.members, func(had sampleMember) bool { return had.name == m.name })
		v.members = append(v.members, m)
	}
}

// oddMembers are members that no schema has, as a peer may spell them.
const oddMembers = `{"z":1,"a":2,"1e2":1E+2,"n":-0.0,"big":12345678901234567890.10,"esc":"\u0061\/\ud83d\ude00","raw":"` + "\u2028ü\u007f" + `","sp" : null }`

func (g *sampler) value(node map[string]any, name string, depth int) sample {
	if word, ok := g.words[name]; ok && depth > 0 {
		return sample{scalar: word}
	}
	if c, ok := node["const"]; ok {
		return sample{scalar: rawText(g.t, c)}
	}
	var v sample
	if ref, ok := node["$ref"].(string); ok {
		v.add(g.value(g.defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any), name, depth))
	}
	if typ := typeOf(node); typ != "" {
		v.add(g.typed(node, typ, name, depth))
	}
	for _, part := range nodes(node["allOf"]) {
		v.add(g.value(part, name, depth))
	}
	for _, choice := range []string{"anyOf", "oneOf"} {
		if of := nodes(node[choice]); len(of) > 0 {
			v.add(g.value(g.choose(node, of, depth), name, depth))
		}
	}
	if v.scalar == "" && typeOf(node) == "" && v.members == nil && node["$ref"] == nil && node["allOf"] == nil && node["anyOf"] == nil && node["oneOf"] == nil {
		v.scalar = oddMembers // anything
	}
	return v
}

// choose returns the next alternative.
func (g *sampler) choose(node map[string]any, of []map[string]any, depth int) map[string]any {
	if g.wide = max(g.wide, len(of)); depth > 12 {
		return of[0]
	}
	at := [2]uintptr{reflect.ValueOf(node).Pointer(), uintptr(g.amount)}
	turn := g.turns[at] % len(of)
	g.turns[at]++
	g.seen[[3]uintptr{at[0], at[1], uintptr(turn)}] = true
	return of[turn]
}

func (g *sampler) typed(node map[string]any, typ, name string, depth int) sample {
	switch typ {
	case "null":
		return sample{scalar: "null"}
	case "boolean":
		return sample{scalar: "true"}
	case "integer":
		return sample{scalar: "1"}
	case "number":
		return sample{scalar: "0.50"}
	case "array":
		item, _ := node["items"].(map[string]any)
		return sample{scalar: "[ " + g.value(item, name, depth+1).text() + "]"}
	case "string":
		return sample{scalar: sampleString(node, name)}
	}
	var v sample
	v.members = []sampleMember{}
	required, _ := node["required"].([]any)
	properties, _ := node["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if !slices.Contains(required, any(name)) && (g.amount == requiredOnly || depth > 12) {
			continue
		}
		of, ok := properties[name].(map[string]any)
		if !ok {
			of = map[string]any{} // true: anything
		}
		v.members = append(v.members, sampleMember{name, g.value(of, name, depth+1).text()})
	}
	if each, ok := node["additionalProperties"].(map[string]any); ok {
		v.members = append(v.members, sampleMember{"key", g.value(each, "key", depth+1).text()})
	} else if g.amount == withUnknown {
		v.members = append(v.members, sampleMember{"unheard", oddMembers})
		if name != "_meta" {
			v.add(sample{members: []sampleMember{{"_meta", `{"a.example/x":` + oddMembers + `}`}}})
		}
	}
	return v
}

// sampleString is a string that a schema allows, with unnecessary escapes.
func sampleString(node map[string]any, name string) string {
	switch node["format"] {
	case "uri":
		return `"https:\/\/a.example\/x"`
	case "date-time":
		return `"2026-03-02T09:00:00.10Z"`
	case "regex":
		return `"a+"`
	}
	switch name {
	case "sessionId":
		return `"s1"`
	case "cwd", "path", "oldPath", "additionalDirectories", "command":
		return `"\/w/\u0061.txt"`
	}
	return `"\u0061\/ü"`
}

// typeOf is the type of a node, the first of several; "" without a type.
func typeOf(node map[string]any) string {
	switch typ := node["type"].(type) {
	case string:
		return typ
	case []any:
		return typ[0].(string)
	}
	if node["properties"] != nil {
		return "object"
	}
	return ""
}

func nodes(list any) (all []map[string]any) {
	of, _ := list.([]any)
	for _, n := range of {
		all = append(all, n.(map[string]any))
	}
	return all
}

func rawText(t testing.TB, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
