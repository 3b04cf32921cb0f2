package grant

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// The actions of grants, in addition to the kinds of actions.
const (
	actionRun   = "run"
	actionRead  = "read"
	actionWrite = "write"
	// actionConnect is a connection to a machine.
	actionConnect = "connect"
)

// target is an action in the form that grants are matched with.
type target struct {
	// parts are the parts of the action. They may be incomplete for an action that cannot be parsed.
	parts []part
	// partly reports that parts are complete, so that grants of each part cover the action.
	partly bool
	// action and digest identify exactly this action in a grant. digest is empty if nothing identifies the action.
	action, digest string
	// never reports that no grant may cover the action.
	never bool
	// expanded reports that words of its commands are patterns or names that were expanded by the files on disk. Grants
	// of its parts cover it, but an answer applies to the line as written, which the user sees.
	expanded bool
}

// part is one simple command or one path.
type part struct {
	action string
	// argv and dir are for "run". dir is empty for the workspace. placed is false if the directory is unknown.
	argv   []string
	dir    string
	placed bool
	// gitRuns are the programs of the repository that git runs.
	gitRuns []string
	// path is the resolved path for "read" and "write". asked is the path as the agent wrote it.
	path, asked string
	// host is the formatted endpoint for "connect".
	host string
	// here, for "connect": the machine is this one, or in its network. Its address may be another machine's tomorrow.
	here bool
}

// targetOf returns the target of an action.
func targetOf(a *permissionv1.Action, w Where) *target {
	t := &target{action: a.GetKind(), partly: a.GetUnparsed() == ""}
	t.never = a.GetKind() == "" || a.GetKind() == "tool.switch_mode" || a.GetKind() == "elicitation"
	if c := a.GetCommand(); c != nil {
		t.commands(a, c, w)
	} else {
		t.partly = t.partly && aboutPaths(a.GetKind()) && len(a.GetPaths()) > 0
	}
	t.paths(a)
	t.machine(a)
	t.digest = digest(a, w)
	if a.GetCommand() != nil && a.GetUnparsed() == "" {
		t.action = actionRun
	}
	return t
}

// aboutPaths reports whether the access of its paths describes an action of this kind completely. A grant to write a
// file does not cover removing or moving it, and a grant to list a folder does not cover searching it.
func aboutPaths(kind string) bool {
	return slices.Contains([]string{"fs.read", "fs.write", "fs.list", "tool.read", "tool.edit"}, kind)
}

func (t *target) commands(a *permissionv1.Action, c *permissionv1.Command, w Where) {
	subs := c.GetSubCommands()
	if c.GetUnparsed() != "" || len(subs) == 0 || slices.ContainsFunc(c.GetEnv(), harmful) || feeds(c) {
		t.partly = false
	}
	moved := false
	for _, sub := range subs {
		t.expanded = t.expanded || sub.GetWritten() != ""
		p := part{action: actionRun, argv: sub.GetArgv(), gitRuns: sub.GetRepository().GetQuieted()}
		p.dir, p.placed = directory(a, sub, w)
		// A line that changes its directory applies to every command after it. A command whose words do not describe it
		// is granted exactly as it is, or not at all.
		if shell.Strange(sub) != "" {
			t.partly = false
		}
		if !p.placed || moved && sub.GetCwd() == "" && !changesDirectory(sub) || !plain(sub) || !redirects(a, sub) {
			t.partly = false
		}
		if changesDirectory(sub) {
			moved = true
			if len(subs) > 1 && len(sub.GetArgv()) == 2 && plain(sub) && len(sub.GetRedirections()) == 0 {
				continue // the directory of the other commands is sufficient
			}
		}
		if len(p.argv) == 0 {
			if len(sub.GetRedirections()) == 0 {
				t.partly = false
			}
			continue // it only opens files, which are paths of the action
		}
		t.parts = append(t.parts, p)
	}
}

// plain reports whether the argv of a simple command determines its effect. A word that leads out of the roots through
// a symbolic link may lead elsewhere later, so it is not plain.
func plain(sub *permissionv1.SubCommand) bool {
	leadsOut := func(w *permissionv1.ResolvedWord) bool { return !w.GetInsideRoots() }
	return !sub.GetDynamic() && !slices.ContainsFunc(sub.GetResolvedWords(), leadsOut) && len(sub.GetDynamicWords()) == 0 &&
		!slices.ContainsFunc(sub.GetAssignments(), harmful) &&
		!slices.ContainsFunc(sub.GetWrappers(), func(w string) bool { return !transparent(w) })
}

func harmful(variable string) bool { return !shell.HarmlessVariable(variable) }

// transparent reports whether a command has the same effect with and without a wrapper. The wrapper is the word as
// written, so that "./sh -c" does not count as the system's shell.
func transparent(wrapper string) bool {
	return slices.Contains([]string{"sh -c", "bash -c", "dash -c", "/bin/sh -c", "/bin/bash -c", "/usr/bin/bash -c", "eval",
		"command", "env", "/usr/bin/env", "timeout", "nice", "time", "stdbuf"}, wrapper)
}

// feeds reports whether a line gives a command an input that is not in its arguments: a here-document, or a pipe to a
// program that may execute it. An answer about the command alone does not apply to such a line.
func feeds(c *permissionv1.Command) bool {
	text := c.GetText()
	if strings.Contains(text, "<<") {
		return true
	}
	if !strings.Contains(strings.ReplaceAll(text, "||", ""), "|") {
		return false
	}
	return slices.ContainsFunc(c.GetSubCommands(), func(sub *permissionv1.SubCommand) bool {
		_, reads := shell.Generalisable(sub.GetArgv())
		return !reads && !changesDirectory(sub)
	})
}

// redirects reports whether the action has a path with the same access for every file that a command redirects.
func redirects(a *permissionv1.Action, sub *permissionv1.SubCommand) bool {
	for _, r := range sub.GetRedirections() {
		if r.GetPath() == "/dev/null" && !r.GetDynamic() {
			continue
		}
		if r.GetDynamic() || r.GetResolvedPath() == "" {
			return false
		}
		if !slices.ContainsFunc(a.GetPaths(), func(p *permissionv1.PathAccess) bool {
			return p.GetResolvedPath() == r.GetResolvedPath() &&
				(r.GetOperator() == "<" || p.GetAccess() == permissionv1.Access_ACCESS_WRITE)
		}) {
			return false
		}
		// The program may execute its input.
		if strings.HasPrefix(r.GetOperator(), "<") {
			if _, ok := shell.Generalisable(sub.GetArgv()); !ok {
				return false
			}
		}
	}
	return true
}

func changesDirectory(sub *permissionv1.SubCommand) bool {
	argv := sub.GetArgv()
	return len(argv) > 0 && slices.Contains([]string{"cd", "chdir", "pushd", "popd"}, argv[0])
}

// directory returns the directory of a simple command: empty for the workspace, else absolute. It returns false if the
// directory is not certain.
func directory(a *permissionv1.Action, sub *permissionv1.SubCommand, w Where) (string, bool) {
	if w.Workspace == "" || sub.GetCwdUnknown() {
		return "", false
	}
	dir := w.Workspace
	for _, step := range []string{a.GetCommand().GetCwd(), sub.GetCwd()} {
		switch {
		case step == "":
		case climbs(step): // after a symbolic link, ".." leads elsewhere
			return "", false
		case filepath.IsAbs(step):
			dir = inWorkspace(a, filepath.Clean(step), w)
		default:
			dir = filepath.Join(dir, step)
		}
	}
	if dir == w.Workspace {
		return "", true
	}
	return dir, true
}

// inWorkspace replaces the agent's name of the workspace in a directory by the resolved one.
func inWorkspace(a *permissionv1.Action, dir string, w Where) string {
	if len(a.GetRoots()) == 0 || len(a.GetResolvedRoots()) == 0 || a.GetResolvedRoots()[0] != w.Workspace {
		return dir
	}
	root := filepath.Clean(a.GetRoots()[0])
	if dir == root {
		return w.Workspace
	}
	if rest, ok := strings.CutPrefix(dir, strings.TrimSuffix(root, "/")+"/"); ok {
		return filepath.Join(w.Workspace, rest)
	}
	return dir
}

func climbs(path string) bool { return slices.Contains(strings.Split(path, "/"), "..") }

func (t *target) machine(a *permissionv1.Action) {
	e := a.GetEndpoint()
	if a.GetKind() != "net.connect" || e == nil {
		return
	}
	to, ok := hosts.NewEndpoint(e.GetHost(), e.GetPort(), e.GetAddresses())
	if t.partly = ok && a.GetUnparsed() == "" && len(t.parts) == 0; t.partly {
		t.parts = []part{{action: actionConnect, host: to.String(), here: len(to.Special()) > 0 || to.Host.Name == "localhost"}}
	}
}

func (t *target) paths(a *permissionv1.Action) {
	for _, pa := range a.GetPaths() {
		p := part{action: actionWrite, path: pa.GetResolvedPath(), asked: pa.GetPath()}
		if pa.GetAccess() == permissionv1.Access_ACCESS_READ {
			p.action = actionRead
		}
		if pa.GetProtected() {
			t.never = true
		}
		if !filepath.IsAbs(p.path) {
			t.partly = false
		}
		t.parts = append(t.parts, p)
	}
}

// refusedBy returns the grants that refuse the action or a part of it.
func (t *target) refusedBy(grants []*supervisorv1.Grant, w Where) []*supervisorv1.Grant {
	return slices.DeleteFunc(slices.Clone(grants), func(g *supervisorv1.Grant) bool {
		return !g.GetRefuse() || !t.is(g) && !slices.ContainsFunc(t.parts, func(p part) bool { return p.refusedBy(g, w) })
	})
}

// allowedBy returns the grants that together allow the action.
func (t *target) allowedBy(grants []*supervisorv1.Grant, w Where) ([]*supervisorv1.Grant, bool) {
	if t.never {
		return nil, false
	}
	if i := slices.IndexFunc(grants, func(g *supervisorv1.Grant) bool { return !g.GetRefuse() && t.is(g) }); i >= 0 {
		return grants[i : i+1], true
	}
	if !t.partly || len(t.parts) == 0 {
		return nil, false
	}
	var allowing []*supervisorv1.Grant
	for _, p := range t.parts {
		i := slices.IndexFunc(grants, func(g *supervisorv1.Grant) bool { return !g.GetRefuse() && p.coveredBy(g, w) })
		if i < 0 {
			return nil, false
		}
		if !slices.Contains(allowing, grants[i]) {
			allowing = append(allowing, grants[i])
		}
	}
	return allowing, true
}

// is reports whether a grant is of exactly this action.
func (t *target) is(g *supervisorv1.Grant) bool {
	return g.GetExactly() != "" && g.GetExactly() == t.digest && g.GetAction() == t.action
}

func (p part) coveredBy(g *supervisorv1.Grant, w Where) bool {
	switch {
	case g.GetAction() != p.action || g.GetExactly() != "":
		return false
	case p.action == actionConnect:
		return g.GetHost() == p.host
	case p.action != actionRun:
		return matches(g.GetPath(), p.path)
	case !p.placed || folderOf(g, w) != p.dir:
		return false
	case slices.ContainsFunc(p.gitRuns, func(name string) bool { return !slices.Contains(g.GetGitRuns(), name) }):
		return false // the grant was given for other programs of the repository
	case g.GetPrefix():
		return within(g.GetArgv(), p.argv, w.Workspace, p.dir)
	}
	return slices.Equal(g.GetArgv(), p.argv)
}

// folderOf returns the directory of a grant to run a command. It is empty for the workspace, as the dir of a part.
func folderOf(g *supervisorv1.Grant, w Where) string {
	if g.GetCwd() == w.Workspace {
		return ""
	}
	return g.GetCwd()
}

// refusedBy matches more than coveredBy: a refusal applies to a command in any wrapper, and to a path in either
// spelling.
func (p part) refusedBy(g *supervisorv1.Grant, w Where) bool {
	argv := g.GetArgv()
	switch {
	case g.GetAction() != p.action || g.GetExactly() != "":
		return false
	case p.action == actionConnect:
		return g.GetHost() == p.host
	case p.action != actionRun:
		return matches(g.GetPath(), p.path) || matches(g.GetPath(), filepath.Clean(p.asked))
	case p.placed && folderOf(g, w) != p.dir || len(argv) == 0:
		return false
	case g.GetPrefix():
		return len(p.argv) >= len(argv) && slices.Equal(argv, p.argv[:len(argv)])
	}
	return slices.Equal(argv, p.argv)
}

// within reports whether a grant of a prefix covers argv: argv begins with prefix, is of a kind that prefixes may
// cover, and no further argument leads out of the directory. A grant "in this project" must not cover reads elsewhere.
func within(prefix, argv []string, workspace, dir string) bool {
	if len(prefix) == 0 || len(argv) < len(prefix) || !slices.Equal(prefix, argv[:len(prefix)]) {
		return false
	}
	widest, ok := shell.Generalisable(argv)
	if !ok || len(widest) > len(prefix) || !slices.Equal(widest, prefix[:len(widest)]) {
		return false
	}
	dir = cmp.Or(dir, workspace)
	return !slices.ContainsFunc(argv[len(prefix):], func(word string) bool { return leadsOut(word, dir) })
}

// leadsOut reports whether a word, or the value of an option in it, may name a file outside of dir.
func leadsOut(word, dir string) bool {
	value := word
	if strings.HasPrefix(word, "-") {
		var name string
		name, value, _ = strings.Cut(word, "=")
		if strings.ContainsAny(name, "/~") || strings.Contains(name, "..") {
			return true // the beginning of the value in "-nf/etc/passwd" is unknown
		}
	}
	switch {
	case strings.HasPrefix(value, "~"), climbs(value):
		return true
	case strings.HasPrefix(value, "/"):
		rest, ok := strings.CutPrefix(filepath.Clean(value), dir)
		return !ok || rest != "" && rest[0] != '/'
	}
	return false
}

// matches reports whether a resolved path matches a grant's glob.
func matches(glob, path string) bool {
	if glob == "" || !filepath.IsAbs(path) {
		return false
	}
	ok, err := doublestar.Match(glob, path)
	return err == nil && ok
}

// escape returns a glob that matches exactly path.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `{`, `\{`, `}`, `\}`).Replace(path)
}

// digest returns a hash that identifies an action in its form. It is empty if only the title describes the action.
func digest(a *permissionv1.Action, w Where) string {
	h := sha256.New()
	c := a.GetCommand()
	switch {
	case len(c.GetText()) >= maxIdentified || len(a.GetRawInput()) >= maxIdentified:
		return "" // the input was truncated
	case c != nil && a.GetUnparsed() == "":
		put(h, "command")
	case isSet(a.GetRawInput()):
		put(h, "input", a.GetKind(), a.GetMethod(), toolOf(a), a.GetUnparsed(), a.GetRawInput())
	case a.GetUnparsed() == "" && c == nil && len(a.GetPaths()) > 0 && identifiedByPaths(a.GetKind()):
		put(h, "paths", a.GetKind())
	default:
		return ""
	}
	// Paths and lines have another meaning in another directory.
	put(h, w.Workspace)
	if c != nil {
		put(h, c.GetText(), c.GetCwd(), c.GetUnparsed())
		putList(h, c.GetArgv())
		putList(h, c.GetEnv())
		for _, sub := range c.GetSubCommands() {
			if why := shell.Strange(sub); why != "" {
				put(h, why)
			}
			if runs := sub.GetRepository().GetQuieted(); len(runs) > 0 {
				putList(h, runs)
			}
		}
	}
	for _, p := range a.GetPaths() {
		put(h, p.GetPath(), p.GetResolvedPath(), p.GetAccess().String())
	}
	return digestPrefix + hex.EncodeToString(h.Sum(nil))
}

// toolOf returns the name of the tool that gets the input of an action: the same input of another tool is another
// action. For agents that do not name their tools, it returns the title.
func toolOf(a *permissionv1.Action) string {
	if a.GetTool() == "" && strings.HasPrefix(a.GetKind(), "tool.") && a.GetCommand() == nil && !identifiedByPaths(a.GetKind()) {
		return "titled " + a.GetTitle()
	}
	return a.GetTool()
}

const (
	digestPrefix = "sha256:"
	// maxIdentified is the size in bytes from which on the text of an action may have been truncated.
	maxIdentified = 1 << 20
)

func identifiedByPaths(kind string) bool {
	return aboutPaths(kind) || kind == "tool.delete" || kind == "tool.move"
}

// isSet reports whether a raw JSON value has content.
func isSet(raw string) bool {
	return !slices.Contains([]string{"", "null", "{}", "[]", `""`}, strings.TrimSpace(raw))
}

// put adds strings to a hash, each with its length.
func put(h hash.Hash, parts ...string) {
	for _, p := range parts {
		putSize(h, len(p))
		h.Write([]byte(p))
	}
}

func putList(h hash.Hash, list []string) {
	putSize(h, len(list))
	put(h, list...)
}

func putSize(h hash.Hash, size int) { h.Write(binary.BigEndian.AppendUint64(nil, uint64(size))) }
