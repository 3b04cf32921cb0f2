package policytool

import (
	"slices"

	"github.com/acphost/acphost/internal/yamlproto"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/config"
)

// NetworkNote describes the rules about machines (host) that have no effect in this configuration; "" if all have one.
func NetworkNote(c *config.Config) string {
	switch network := c.Network(); {
	case c.Sandbox() == config.SandboxOff:
		return "no connection of an agent is decided on, as sandbox.mode is off: rules with host need sandbox.mode enforce and sandbox.network proxy"
	case network == config.NetworkOpen:
		return "as sandbox.network is open, only deny rules count for connections, and they see addresses alone: " +
			"rules that name machines by their names, and allow and ask rules, need sandbox.network proxy"
	case network == config.NetworkNone:
		return "agents have no network (sandbox.network none): rules with host allow nothing"
	}
	return ""
}

// NamesMachines reports whether a readable rule file has rules about machines.
func NamesMachines(file *permissionv1.PolicyFile) bool {
	var p permissionv1.Policy
	doc, err := yamlproto.Parse(file.GetName(), file.GetContent())
	if err != nil {
		return false
	}
	_ = doc.DecodeWhatCanBe(&p) // errors are reported elsewhere
	return slices.ContainsFunc(p.GetRules(), func(r *permissionv1.Rule) bool { return len(r.GetHost()) > 0 })
}
