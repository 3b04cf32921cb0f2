package grant

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// ErrNotGrantable means that an answer about an action cannot be stored: the action is on acphost's own files, changes
// the mode, or is described only by its title.
var ErrNotGrantable = errors.New("nothing identifies this action well enough to remember an answer")

// maxVariable limits the characters of a variable's name in an offer.
const maxVariable = 60

// Offer is the meaning of "always" in a question that acphost asks.
type Offer struct {
	// Grants are added if the user chooses "always". If there are none, "always" must not be offered.
	Grants []*supervisorv1.Grant
	// Text describes the grants for the user: "any `git status …` in this project (/w)".
	Text string
}

// Exactly returns the grants that cover an action as it is: one for each sub-command with exactly its arguments, and
// one for each path; or one grant of exactly the whole action, if it cannot be parsed in full. They apply to the agent
// of w. If scope is a workspace and w has none, they apply to its session. The error is ErrNotGrantable.
func Exactly(a *permissionv1.Action, w Where, scope supervisorv1.GrantScope) ([]*supervisorv1.Grant, error) {
	t := targetOf(a, w)
	if t.never {
		return nil, ErrNotGrantable
	}
	grants := t.exactly(w, scope)
	if len(grants) == 0 {
		return nil, ErrNotGrantable
	}
	return grants, nil
}

// Widest returns the widest grants that a question may offer for "always". A command that only reads and prints is
// offered with any further arguments, any other command with exactly its arguments. Commands in the workspace are
// offered for the workspace, all others for the session. A file is offered by its name.
func Widest(a *permissionv1.Action, w Where) Offer {
	t := targetOf(a, w)
	session := supervisorv1.GrantScope_GRANT_SCOPE_SESSION
	switch {
	case t.never:
		return Offer{}
	case !t.inParts():
		if t.digest == "" {
			return Offer{}
		}
		return Offer{Grants: t.exactly(w, session), Text: "exactly " + noun(a, w) + " in this session"}
	}
	var o Offer
	var lasting, brief []string
	for _, p := range t.parts {
		g := p.grant(w, session)
		if !p.lasts(w) {
			brief = append(brief, p.words())
		} else {
			g.Scope = supervisorv1.GrantScope_GRANT_SCOPE_WORKSPACE
			what := p.words()
			if prefix, ok := shell.Generalisable(p.argv); ok && within(prefix, p.argv, w.Workspace, p.dir) {
				g.Argv, g.Prefix = prefix, true
				what = anyOf(prefix) + inDirectory(p.dir)
			}
			lasting = append(lasting, what)
		}
		o.Grants = addNew(o.Grants, g)
	}
	var texts []string
	if len(lasting) > 0 {
		texts = append(texts, list(lasting)+" in this project ("+printable(w.Workspace)+")")
	}
	if len(brief) > 0 {
		texts = append(texts, list(brief)+" in this session")
	}
	o.Text = strings.Join(texts, ", and ")
	return o
}

// lasts reports whether an answer about a part may outlive the session.
func (p part) lasts(w Where) bool {
	switch p.action {
	case actionConnect:
		return w.Workspace != "" && !p.here
	case actionRun:
		return p.dir == "" || strings.HasPrefix(p.dir, strings.TrimSuffix(w.Workspace, "/")+"/")
	}
	return false
}

// Refusal returns what "always" may stand for in a no: exactly this action, for the session, or a connection for the
// workspace. What is granted elsewhere yields to it.
func Refusal(a *permissionv1.Action, w Where) Offer {
	t := targetOf(a, w)
	var o Offer
	switch {
	case t.inParts() && len(t.parts) == 1 && t.parts[0].action == actionConnect && t.parts[0].lasts(w):
		o.Grants = []*supervisorv1.Grant{t.parts[0].grant(w, supervisorv1.GrantScope_GRANT_SCOPE_WORKSPACE)}
		o.Text = t.parts[0].words() + " in this project (" + printable(w.Workspace) + ")"
	case t.inParts() && len(t.parts) == 1:
		o.Grants = []*supervisorv1.Grant{t.parts[0].grant(w, supervisorv1.GrantScope_GRANT_SCOPE_SESSION)}
		o.Text = t.parts[0].words() + " in this session"
	case t.digest != "": // a refusal of "a && b" does not refuse a
		o.Grants = []*supervisorv1.Grant{t.whole(w, supervisorv1.GrantScope_GRANT_SCOPE_SESSION)}
		o.Text = "exactly " + noun(a, w) + " in this session"
	}
	for _, g := range o.Grants {
		g.Refuse = true
	}
	return o
}

// inParts reports whether an answer about the action is stored as answers about its parts.
func (t *target) inParts() bool { return t.partly && len(t.parts) > 0 && !t.expanded }

func (t *target) exactly(w Where, scope supervisorv1.GrantScope) []*supervisorv1.Grant {
	if !t.inParts() {
		if t.digest == "" {
			return nil
		}
		return []*supervisorv1.Grant{t.whole(w, scope)}
	}
	var grants []*supervisorv1.Grant
	for _, p := range t.parts {
		grants = addNew(grants, p.grant(w, scope))
	}
	return grants
}

// addNew adds a grant, unless the list has the same grant.
func addNew(grants []*supervisorv1.Grant, g *supervisorv1.Grant) []*supervisorv1.Grant {
	if slices.ContainsFunc(grants, func(have *supervisorv1.Grant) bool { return same(have, g) }) {
		return grants
	}
	return append(grants, g)
}

// whole returns a grant of exactly the action.
func (t *target) whole(w Where, scope supervisorv1.GrantScope) *supervisorv1.Grant {
	g := given(w, scope)
	g.Action, g.Exactly = t.action, t.digest
	return g
}

// grant returns a grant of exactly the part.
func (p part) grant(w Where, scope supervisorv1.GrantScope) *supervisorv1.Grant {
	g := given(w, scope)
	g.Action = p.action
	switch p.action {
	case actionRun:
		g.Argv, g.Cwd, g.GitRuns = slices.Clone(p.argv), p.dir, slices.Clone(p.gitRuns)
	case actionConnect:
		g.Host = p.host
	default:
		g.Path = escape(p.path)
	}
	return g
}

// given returns a grant without a subject.
func given(w Where, scope supervisorv1.GrantScope) *supervisorv1.Grant {
	if scope == supervisorv1.GrantScope_GRANT_SCOPE_WORKSPACE && w.Workspace == "" ||
		scope == supervisorv1.GrantScope_GRANT_SCOPE_AGENT && w.Agent == "" {
		scope = supervisorv1.GrantScope_GRANT_SCOPE_SESSION
	}
	return &supervisorv1.Grant{
		Scope: scope, SessionId: w.SessionID, Workspace: w.Workspace, Agent: w.Agent, GrantedBy: "front",
	}
}

// same reports whether two grants for one answer have the same subject.
func same(a, b *supervisorv1.Grant) bool {
	return a.GetScope() == b.GetScope() && a.GetAction() == b.GetAction() && a.GetPrefix() == b.GetPrefix() &&
		a.GetCwd() == b.GetCwd() && a.GetPath() == b.GetPath() && a.GetHost() == b.GetHost() && slices.Equal(a.GetArgv(), b.GetArgv()) &&
		slices.Equal(a.GetGitRuns(), b.GetGitRuns())
}

// noun describes the whole action: the text of a command, its directory if that is not the workspace, and the names of
// its variables, whose values may be secrets.
func noun(a *permissionv1.Action, w Where) string {
	c := a.GetCommand()
	switch {
	case c.GetText() != "":
	case a.GetKind() == "net.connect" && len(a.GetPaths()) == 1:
		return "this connection to " + printable(a.GetPaths()[0].GetResolvedPath())
	default:
		return "this request"
	}
	dir, placed := directory(a, &permissionv1.SubCommand{}, w)
	if !placed {
		dir = c.GetCwd()
	}
	return quoted(c.GetText()) + inDirectory(dir) + withVariables(c.GetEnv())
}

// inDirectory returns " in DIR". It is empty for the workspace, whose dir is empty.
func inDirectory(dir string) string {
	if dir == "" {
		return ""
	}
	return " in " + printable(dir)
}

// withVariables returns the first few names of variables: " with A, B and C set".
func withVariables(env []string) string {
	const limit = 5
	if len(env) == 0 {
		return ""
	}
	names := make([]string, 0, limit+1)
	for _, entry := range env[:min(len(env), limit)] {
		name, _, _ := strings.Cut(entry, "=")
		names = append(names, safetext.Middle(safetext.Strict(name), maxVariable))
	}
	if more := len(env) - limit; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return " with " + list(names) + " set"
}

// words describes exactly the part.
func (p part) words() string {
	switch p.action {
	case actionRun:
		return "exactly " + quoted(shell.Quote(p.argv)) + inDirectory(p.dir)
	case actionRead:
		return "reading " + printable(p.path)
	case actionConnect:
		return "connecting to " + printable(p.host)
	}
	return "writing " + printable(p.path)
}

// list joins items, each once: "a, b and c".
func list(items []string) string {
	var unique []string
	for _, item := range items {
		if !slices.Contains(unique, item) {
			unique = append(unique, item)
		}
	}
	if len(unique) == 1 {
		return unique[0]
	}
	last := len(unique) - 1
	return strings.Join(unique[:last], ", ") + " and " + unique[last]
}

func anyOf(prefix []string) string { return "any `" + printable(shell.Quote(prefix)) + " …`" }

func quoted(s string) string { return "`" + printable(s) + "`" }

// printable escapes a text of the agent, so that it cannot imitate other text.
func printable(s string) string { return safetext.Middle(safetext.Strict(s), safetext.MaxLine) }

// Reach describes for users what a grant covers: "any `git status …` in /w".
func Reach(g *supervisorv1.Grant) string {
	var what string
	switch {
	case g.GetExactly() != "":
		what = "exactly one " + printable(g.GetAction())
	case g.GetAction() == actionRun && g.GetPrefix():
		what = anyOf(g.GetArgv())
	default:
		what = part{action: g.GetAction(), argv: g.GetArgv(), path: g.GetPath(), host: g.GetHost()}.words()
	}
	if g.GetCwd() != "" {
		what += inDirectory(filepath.Clean(g.GetCwd()))
	}
	if g.GetRefuse() {
		what = "refused: " + what
	}
	return what
}
