package route

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// The configured targets of a method, other than a handler's name.
const (
	wordHandler = "handler"
	wordClient  = "front"
	wordDeny    = "deny"
)

// The kinds of handlers, as Claim.Kind has them.
const (
	KindFS         = "fs"
	KindTerminal   = "terminal"
	KindPermission = "permission"
	KindExtension  = "extension"
)

// maxNameLen is the limit of a method's name in bytes: names are parts of logs, errors and lists.
const maxNameLen = 256

// targets are the meanings of the words.
var targets = map[string]Target{wordHandler: Handler, wordClient: Client, wordDeny: Deny}

// IsWord reports whether s is a reserved target of routes, so that no handler can have that name.
func IsWord(s string) bool {
	_, word := targets[s]
	return word
}

// below separates a method from the folder whose sessions a route is for: "terminal/* below /srv".
const below = " below "

// SplitFolder returns the method or namespace of a configured route, and the folder whose sessions it is for; empty: it
// is for all sessions.
func SplitFolder(name string) (method, folder string) {
	method, folder, _ = strings.Cut(name, below)
	return method, folder
}

// CheckName returns an error if s cannot name a configured route: a method ("fs/write_text_file") or a namespace
// ("terminal/*"), for all sessions or for those of a folder ("terminal/* below /srv"). Methods that are reserved for
// the link cannot be routed.
func CheckName(s string) error {
	if method, folder, limited := strings.Cut(s, below); limited {
		if err := CheckName(method); err != nil {
			return err
		}
		if !path.IsAbs(folder) || path.Clean(folder) != folder || folder == "/" || strings.ContainsFunc(folder, unicode.IsControl) {
			return fmt.Errorf(`%q: expected an absolute path behind "below", without "..", other than / and without a slash at its end`, s)
		}
		return nil
	}
	if meant := misspelt(s); meant != "" {
		return fmt.Errorf("%q is no method: did you mean %q?", s, meant)
	}
	prefix, wild := namespacePrefix(s)
	if !wild {
		return checkMethod(s)
	}
	if err := checkSpelling(strings.TrimSuffix(prefix, "/")); err != nil {
		return fmt.Errorf("%q is not a namespace: %w", s, err)
	}
	if reserved(prefix) {
		return fmt.Errorf("%s cannot be routed: the supervisor itself lives by these methods", s)
	}
	return nil
}

// misspelt returns the probably meant name for a name that no agent calls but that looks like a namespace or a method
// of ACP, such as "terminal", "Terminal/*" and "fs/read"; empty: the name is possible.
func misspelt(name string) string {
	for _, namespace := range []string{KindFS, KindTerminal} {
		folded := strings.ToLower(name)
		first, rest, _ := strings.Cut(folded, "/")
		if first != namespace && first != namespace+"s" {
			continue
		}
		if rest == "" || rest == "*" {
			if meant := namespace + "/*"; name != meant {
				return meant
			}
			return ""
		}
		for _, method := range methods {
			if method != name && (method == namespace+"/"+rest || strings.HasPrefix(method, namespace+"/"+rest+"_")) {
				return method
			}
		}
	}
	return ""
}

// methods are the methods of ACP that handlers answer.
var methods = []string{
	acp.MethodReadTextFile, acp.MethodWriteTextFile, acp.MethodListDirectory, acp.MethodTerminalCreate, acp.MethodTerminalRun, acp.MethodTerminalOutput,
	acp.MethodTerminalWait, acp.MethodTerminalKill, acp.MethodTerminalRelease,
}

// checkMethod returns an error if no route can have this name.
func checkMethod(name string) error {
	if err := checkSpelling(name); err != nil {
		return fmt.Errorf("%q is not a method: %w", name, err)
	}
	// Calls with an old name are converted to the current one.
	if today := string(acp.Method([]byte(name))); today != name {
		return fmt.Errorf("%s is another name of %s: write that", name, today)
	}
	if reserved(name) {
		return fmt.Errorf("%s cannot be routed: the supervisor itself lives by this method", name)
	}
	return nil
}

// namespacePrefix returns the common prefix of the methods of a namespace, "terminal/" for "terminal/*".
func namespacePrefix(s string) (prefix string, ok bool) {
	if strings.HasSuffix(s, "/*") {
		return strings.TrimSuffix(s, "*"), true
	}
	return "", false
}

// checkSpelling restricts names to characters that can be shown everywhere: ACP itself uses letters, digits, "_" and
// "/", extensions add the characters of a domain name.
func checkSpelling(name string) error {
	switch {
	case name == "":
		return errors.New("it is empty")
	case len(name) > maxNameLen:
		return fmt.Errorf("it is longer than %d bytes", maxNameLen)
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("_/.-$:", c) >= 0:
		case c == '*':
			return errors.New(`"*" may only stand at the end, after a slash`)
		default:
			return fmt.Errorf("it has the character %q; letters, digits and _ / . - $ : are allowed", c)
		}
	}
	return nil
}

// reserved reports whether a method belongs to the link itself: the start of the connection, sessions, cancellation.
// The link implements them, and a route for one would break it.
func reserved(name string) bool {
	return slices.Contains([]string{"initialize", "authenticate", "logout"}, name) ||
		strings.HasPrefix(name, "session/") || strings.HasPrefix(name, "$/")
}

// kindOf returns the kind of handler that a core method belongs to; "" for a core method that always belongs to the
// client. core is false for extensions and for names that are not in ACP, which any handler may declare.
func kindOf(method string) (kind string, core bool) {
	switch {
	case strings.HasPrefix(method, "fs/"):
		return KindFS, true
	case strings.HasPrefix(method, "terminal/"):
		return KindTerminal, true
	case strings.HasPrefix(method, "elicitation/"), strings.HasPrefix(method, "mcp/"):
		return "", true
	}
	return "", false
}

// Answering returns the handlers that may answer methods of a kind (KindFS, KindTerminal) according to the configured
// routes, sorted: the kind's own handler, and the handlers that routes name for its methods.
func Answering(configured map[string]string, kind string) []string {
	names := []string{kind}
	for name, target := range configured {
		method, _ := SplitFolder(name)
		if of, _ := kindOf(method); of == kind && !IsWord(target) {
			names = append(names, target)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Override merges configured routes with those of flags. An entry of flags replaces the entries of configured with the
// same name, and for a namespace also those of every name inside it: "fs/*" on a command line means all of fs/*.
// Neither map is changed.
func Override(configured, flags map[string]string) map[string]string {
	merged := make(map[string]string, len(configured)+len(flags))
next:
	for name, target := range configured {
		for flag := range flags {
			prefix, wild := namespacePrefix(flag)
			if name == flag || wild && strings.HasPrefix(name, prefix) {
				continue next
			}
		}
		merged[name] = target
	}
	maps.Copy(merged, flags)
	return merged
}
