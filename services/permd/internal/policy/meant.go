package policy

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/acphost/acphost/internal/yamlproto"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// meant maps names from other rule files (Kubernetes, OPA, firewalls, the settings of agents) to the names used here.
var meant = yamlproto.Meant{
	fullName(&permissionv1.Policy{}): byWord(map[string]string{
		"rules": "rule policies policy permissions permission statements allow deny ask",
	}),
	fullName(&permissionv1.Rule{}): byWord(map[string]string{
		"id":            "name rule title",
		"effect":        "action decision verdict outcome result permission policy then",
		"effect: allow": "allow permit accept",
		"effect: deny":  "deny block reject forbid refuse",
		"effect: ask":   "ask confirm prompt approve",
		"on":            "kind kinds event events method methods operation operations op verbs",
		"path":          "file files glob globs resource resources folder folders directory",
		"command":       "cmd cmds run exec bash shell pattern patterns",
		"reason":        "message msg description comment because why note explanation",
		"when":          "if condition conditions where unless cel expr expression",
		"tests":         "cases examples example check checks",
	}),
}

// effectMeant suggests an effect for a similar word of other rule files.
func effectMeant(got string) string {
	for effect, all := range map[string]string{
		"allow": "permit accept pass approve yes true", "deny": "block reject forbid refuse drop no false", "ask": "confirm prompt question",
	} {
		for word := range strings.FieldsSeq(all) {
			if strings.EqualFold(got, word) {
				return fmt.Sprintf(" (did you mean %q?)", effect)
			}
		}
	}
	return yamlproto.DidYouMean(got, []string{"deny", "ask", "allow"})
}

func fullName(m protoreflect.ProtoMessage) protoreflect.FullName {
	return m.ProtoReflect().Descriptor().FullName()
}

// byWord inverts a map from a name to a list of words.
func byWord(meant map[string]string) map[string]string {
	all := map[string]string{}
	for means, line := range meant {
		for word := range strings.FieldsSeq(line) {
			all[word] = means
		}
	}
	return all
}
