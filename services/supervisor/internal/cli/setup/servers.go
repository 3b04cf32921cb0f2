package setup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// servers edits settings in JSON with comments: {"agent_servers": {ID: {"command": …, "args": […]}}}. It does not
// change other parts of the file, or other members of an agent's entry, such as its environment.
type servers struct {
	// custom means that an entry has a type, which is "custom" for commands.
	custom bool
}

const serversKey = "agent_servers"

func (s servers) merge(text []byte, entries []entry) ([]byte, error) {
	root, doc, err := parse(text)
	if err != nil {
		return nil, err
	}
	indent := indentation(doc)
	if member(doc, serversKey) == nil {
		insert(doc, serversKey, "{}", "", indent)
	}
	list, ok := member(doc, serversKey).Value.(*hujson.Object)
	if !ok {
		return nil, errors.New(serversKey + " is no object")
	}
	for _, e := range entries {
		id := e.id
		if i := slices.IndexFunc(e.others, func(other string) bool { return member(list, other) != nil }); i >= 0 && member(list, id) == nil {
			id = e.others[i]
		}
		if member(list, id) == nil {
			insert(list, id, "{}", indent, indent)
		}
		agent, ok := member(list, id).Value.(*hujson.Object)
		if !ok {
			return nil, fmt.Errorf("%s: the entry %q is no object", serversKey, id)
		}
		if s.custom {
			set(agent, "type", "custom", indent+indent, indent)
		}
		set(agent, "command", e.command[0], indent+indent, indent)
		set(agent, "args", e.command[1:], indent+indent, indent)
	}
	return root.Pack(), nil
}

func (s servers) remove(text, before []byte) ([]byte, error) {
	root, doc, err := parse(text)
	if err != nil {
		return nil, err
	}
	_, old, err := parse(before)
	if err != nil {
		return nil, fmt.Errorf("what was there before: %w", err)
	}
	var ours []entry
	if list, ok := object(doc, serversKey); ok {
		was, _ := object(old, serversKey)
		for _, m := range slices.Clone(list.Members) {
			id := name(m)
			command, ok := ownCommand(m.Value)
			if !ok {
				continue
			}
			ours = append(ours, entry{id: id, command: command})
			if earlier := member(was, id); earlier != nil {
				member(list, id).Value = earlier.Value
			} else {
				drop(list, id)
			}
		}
		if len(list.Members) == 0 && member(old, serversKey) == nil {
			drop(doc, serversKey)
		}
	}
	// If nothing else has changed, restore the previous file byte by byte.
	if again, err := s.merge(before, ours); err == nil && bytes.Equal(again, text) {
		return before, nil
	}
	if len(doc.Members) == 0 && len(before) == 0 {
		return nil, nil
	}
	return root.Pack(), nil
}

// ownCommand returns an entry's command, if it runs acphost.
func ownCommand(v hujson.Value) ([]string, bool) {
	v = v.Clone()
	v.Standardize()
	var agent struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	if json.Unmarshal(v.Pack(), &agent) != nil || filepath.Base(agent.Command) != "acphost" || len(agent.Args) == 0 || agent.Args[0] != "run" {
		return nil, false
	}
	return append([]string{agent.Command}, agent.Args...), true
}

// parse parses a file. An empty file is an empty object.
func parse(text []byte) (*hujson.Value, *hujson.Object, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	root, err := hujson.Parse(text)
	if err != nil {
		return nil, nil, err
	}
	doc, ok := root.Value.(*hujson.Object)
	if !ok {
		return nil, nil, errors.New("it holds no object")
	}
	seen := map[string]bool{}
	for _, m := range doc.Members {
		if seen[name(m)] {
			return nil, nil, fmt.Errorf("it has %q twice: leave one", name(m))
		}
		seen[name(m)] = true
	}
	return &root, doc, nil
}

func name(m hujson.ObjectMember) string { return m.Name.Value.(hujson.Literal).String() }

// member returns the value of a member, or nil. The object may be nil.
func member(o *hujson.Object, key string) *hujson.Value {
	if o == nil {
		return nil
	}
	for i := range o.Members {
		if name(o.Members[i]) == key {
			return &o.Members[i].Value
		}
	}
	return nil
}

func object(o *hujson.Object, key string) (*hujson.Object, bool) {
	v := member(o, key)
	if v == nil {
		return nil, false
	}
	inside, ok := v.Value.(*hujson.Object)
	return inside, ok
}

// set sets a member, in its place if it exists.
func set(o *hujson.Object, key string, value any, outer, indent string) {
	text := compact(value)
	if v := member(o, key); v != nil {
		literal, _ := hujson.Parse([]byte(text)) // it is JSON
		v.Value = literal.Value
		return
	}
	insert(o, key, text, outer, indent)
}

// compact formats a value on one line, with the usual spaces.
func compact(value any) string {
	list, ok := value.([]string)
	if !ok {
		list = []string{value.(string)}
	}
	var words []string
	for _, w := range list {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(w) // a text can be encoded
		words = append(words, strings.TrimSuffix(b.String(), "\n"))
	}
	if !ok {
		return words[0]
	}
	return "[" + strings.Join(words, ", ") + "]"
}

// insert adds a member at the end of an object. outer is the indent of the object's own line. Comments remain after the
// members before them.
func insert(o *hujson.Object, key, text, outer, indent string) {
	literal, _ := hujson.Parse([]byte(text)) // it is JSON
	literal.BeforeExtra = hujson.Extra(" ")
	m := hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(key)}, Value: literal}
	m.Name.BeforeExtra = append(bytes.TrimRight(o.AfterExtra, " \t\r\n"), []byte("\n"+outer+indent)...)
	if n := len(o.Members); n > 0 {
		last := &o.Members[n-1].Value
		m.Value.AfterExtra, last.AfterExtra = last.AfterExtra, nil // keep the style of a trailing comma
	}
	o.Members = append(o.Members, m)
	o.AfterExtra = hujson.Extra("\n" + outer)
}

// drop removes a member, and keeps the comments before it.
func drop(o *hujson.Object, key string) {
	i := slices.IndexFunc(o.Members, func(m hujson.ObjectMember) bool { return name(m) == key })
	if i < 0 {
		return
	}
	m := o.Members[i]
	o.Members = slices.Delete(o.Members, i, i+1)
	comments := bytes.TrimRight(m.Name.BeforeExtra, " \t\r\n")
	switch {
	case i < len(o.Members):
		next := &o.Members[i].Name
		next.BeforeExtra = append(comments, next.BeforeExtra...)
	default:
		if i > 0 {
			o.Members[i-1].Value.AfterExtra = m.Value.AfterExtra
		}
		o.AfterExtra = append(comments, o.AfterExtra...)
	}
}

// indentation returns the indent of the first member of a document.
func indentation(doc *hujson.Object) string {
	if len(doc.Members) > 0 {
		before := string(doc.Members[0].Name.BeforeExtra)
		if i := strings.LastIndexByte(before, '\n'); i >= 0 && len(before) > i+1 {
			return before[i+1:]
		}
	}
	return "  "
}
