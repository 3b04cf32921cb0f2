package link

import (
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// ownNames are acphost's names of the option kinds.
var ownNames = map[string]string{
	acp.AllowOnce: "Allow once", acp.AllowAlways: "Always allow", acp.RejectOnce: "Reject", acp.RejectAlways: "Always reject",
}

// maxOptionName limits the characters of an agent's option name that are shown after acphost's.
const maxOptionName = 120

// namedByKind returns the options of a permission request, raw JSON, each with a name that begins with acphost's name of its kind: "Allow
// once: …". An option keeps its name if that name states just its kind, or if its kind is unknown. So a person reads the meaning that
// acphost gives to the answer. If nothing changes, namedByKind returns the options unchanged.
func namedByKind(options []byte) []byte {
	if len(options) == 0 || options[0] != '[' {
		return options
	}
	out, changed := []byte{'['}, false
	err := acp.Elements(options, func(v []byte) bool {
		if len(out) > 1 {
			out = append(out, ',')
		}
		o, _, ok := acp.ParsePermissionOption(v)
		own := ownNames[o.Kind]
		if !ok || own == "" || v[0] != '{' || acp.IsPlainName(o.Name, o.Kind) {
			out = append(out, v...)
			return true
		}
		if said := safetext.LineOf(o.Name, maxOptionName); said != "" {
			own += ": “" + said + "”"
		}
		renamed, err := acp.Set(v, jsonrpc.AppendString(nil, own), "name")
		if err == nil && acp.Get(v, "label") != nil {
			renamed, err = acp.Set(renamed, jsonrpc.AppendString(nil, own), "label")
		}
		if err != nil {
			renamed = v
		}
		changed = changed || err == nil
		out = append(out, renamed...)
		return true
	})
	if err != nil || !changed {
		return options
	}
	return append(out, ']')
}

// nameOptions sets acphost's names of the options in the question's params, and returns the request's line with them. It is called before
// the question is asked.
func (a *agentQuestion) nameOptions(line []byte) []byte {
	options := acp.Get(a.Params, "options")
	named := namedByKind(options)
	if len(named) == 0 || &named[0] == &options[0] {
		return line
	}
	params, err := acp.Set(a.Params, named, "options")
	if err != nil {
		return line
	}
	renamed, err := acp.Set(line, named, "params", "options")
	if err != nil {
		return line
	}
	a.Params = params
	return renamed
}
