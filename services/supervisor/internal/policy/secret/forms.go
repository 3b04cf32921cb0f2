package secret

import (
	"maps"
	"strings"

	"github.com/acphost/acphost/internal/wordset"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"
)

const (
	// maxForms limits the open questions of one agent. If there are more, all answers count as secrets.
	maxForms = 256
	// maxForm limits the bytes of a question, and maxFields its fields. All answers to a larger question count as
	// secrets.
	maxForm   = 64 << 10
	maxFields = 256
	// maxMarks limits the nesting of the annotations of a field.
	maxMarks = 8
)

// forms stores the open questions to the user, and the answers of which may be recorded.
type forms struct {
	plain   map[string]map[string]bool // the fields that are not secret, by the request's id
	tooMany bool                       // there were too many questions
}

func (f *forms) any() bool { return f.tooMany || len(f.plain) > 0 }

// ask adds a question. If a question with its id is open, a field is plain only if it is plain in both, because the
// answer may belong to either.
func (f *forms) ask(id string, params []byte) {
	fields := plainFields(params)
	before, open := f.plain[id]
	switch {
	case open:
		maps.DeleteFunc(fields, func(name string, _ bool) bool { return !before[name] })
	case len(f.plain) >= maxForms || len(id) > maxName:
		f.tooMany = true
		return
	case f.plain == nil:
		f.plain = map[string]map[string]bool{}
	}
	f.plain[id] = fields
}

// of returns the plain fields of a question. ok is false if there is no such question.
func (f *forms) of(id string) (plain map[string]bool, ok bool) {
	plain, ok = f.plain[id]
	return plain, ok || f.tooMany
}

func (f *forms) end(id string) { delete(f.plain, id) }

// plainFields returns the fields of a form whose answers may be recorded. It returns none if the form is not certain to
// be parsed correctly.
func plainFields(params []byte) map[string]bool {
	if len(params) > maxForm {
		return nil
	}
	fields, n := map[string]bool{}, 0
	err := acp.Members(only(only(params, "requestedSchema"), "properties"), func(name string, v []byte) bool {
		n++
		if !Name(name) && plainField(v, maxMarks) {
			fields[name] = true
		}
		return n <= maxFields
	})
	if err != nil || n > maxFields {
		return nil
	}
	return fields
}

// only returns the member of an object that every parser finds under this name, or nil.
func only(obj []byte, wanted string) (value []byte) {
	folded := string(lex.AppendFolded(nil, []byte(wanted)))
	n := 0
	if acp.Members(obj, func(name string, v []byte) bool {
		if string(lex.AppendFolded(nil, []byte(name))) == folded {
			n++
		}
		if name == wanted {
			value = v
		}
		return true
	}) != nil || n != 1 {
		return nil
	}
	return value
}

// plainField reports whether the schema of a field does not mark its answer as a secret. ACP has no such mark. Those of
// JSON Schema and of other forms count: "format": "password", "writeOnly": true and similar members, in the field or in
// its _meta, or a title that mentions a secret.
func plainField(schema []byte, depth int) bool {
	plain, kind := true, ""
	err := acp.Members(schema, func(name string, v []byte) bool {
		word, isText := acp.String(v)
		switch name {
		case "type":
			kind = word
		case "title":
			plain = plain && !Name(strings.Join(strings.Fields(word), "_"))
		case "description", "default", "enum", "oneOf", "anyOf", "pattern", "items":
		default:
			switch {
			case isText:
				plain = plain && !Name(word)
			case string(v) == "true":
				plain = plain && !hides(name)
			case len(v) > 0 && v[0] == '{':
				plain = plain && depth > 0 && plainField(v, depth-1)
			}
		}
		return true
	})
	return err == nil && (plain || kind == "boolean")
}

// hides reports whether a mark with this name means that a value is a secret.
func hides(name string) bool {
	return hiding[strings.ToLower(strings.TrimPrefix(name, "x-"))] || Name(name)
}

var hiding = wordset.Of("writeonly sensitive masked mask hidden obscured private")
