package secret

import (
	"maps"
	"strings"

	"github.com/acphost/acphost/internal/wordset"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc/lex"
)

const (
	// maxForms bounds the questions of one agent that are open. If there are more, all answers count as secrets.
	maxForms = 256
	// maxForm and maxFields bound what is looked at of a question, in bytes, and the fields that it may have. All answers to
	// a larger one count as secrets.
	maxForm   = 64 << 10
	maxFields = 256
	// maxMarks is how deep the marks of a field may stand.
	maxMarks = 8
)

// forms are the questions to a person that are open, and what of their answers may be kept.
type forms struct {
	plain map[string]map[string]bool // by the request's id: the fields that are no secrets
	over  bool                       // there were too many
}

func (f *forms) any() bool { return f.over || len(f.plain) > 0 }

// ask notes a question. Where one with its id is open, only what is plain in both is: the answer may be to either.
func (f *forms) ask(id string, params []byte) {
	fields := plainFields(params)
	before, open := f.plain[id]
	switch {
	case open:
		maps.DeleteFunc(fields, func(name string, _ bool) bool { return !before[name] })
	case len(f.plain) >= maxForms || len(id) > maxName:
		f.over = true
		return
	case f.plain == nil:
		f.plain = map[string]map[string]bool{}
	}
	f.plain[id] = fields
}

// of returns the plain fields of a question; false: there is none.
func (f *forms) of(id string) (plain map[string]bool, ok bool) {
	plain, ok = f.plain[id]
	return plain, ok || f.over
}

func (f *forms) end(id string) { delete(f.plain, id) }

// plainFields are the fields of a form whose answers may be kept; none, if the form is not read for certain.
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

// only returns the member of an object that no reader takes for another one; nil: there is none.
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

// plainField reports whether nothing in the schema of a field says that its answer is a secret. ACP has no way of its own to
// say so; what JSON Schema and forms elsewhere have is taken: "format": "password", "writeOnly": true and the like, in the
// field or in its _meta, or a title that speaks of one.
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

// hides reports whether a mark of that name says that something is a secret.
func hides(name string) bool {
	return hiding[strings.ToLower(strings.TrimPrefix(name, "x-"))] || Name(name)
}

var hiding = wordset.Of("writeonly sensitive masked mask hidden obscured private")
