package link

import (
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// ownNames are acphost's names of the kinds.
var ownNames = map[string]string{
	acp.AllowOnce: "Allow once", acp.AllowAlways: "Always allow", acp.RejectOnce: "Reject", acp.RejectAlways: "Always reject",
}

// maxOptionName is how many characters of an agent's name for an option are shown behind acphost's.
const maxOptionName = 120

// namedByKind returns the options of a permission request, raw JSON, each with a name that begins with acphost's own for its
// kind: "Allow once: …". An option whose name says just its kind keeps that name, and so does one of no certain kind. The name
// is then known to mean what acphost takes the answer for. It returns options as they are if nothing changes.
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

// nameOptions has people read acphost's names of the options, and returns the request's line with them. It is called before
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
