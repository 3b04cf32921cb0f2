package policy

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"cel.dev/cel-go/cel"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/shell"
	"github.com/acphost/acphost/internal/yamlproto"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// rule is a compiled rule. A condition that is nil was not given.
type rule struct {
	id string
	// index is the rule's index in the file, line its first line, from 1.
	index    int
	line     uint32
	reason   string
	on       []kindGlob // nil: any kind
	notOn    []kindGlob // of those, the kinds that it is not for
	paths    []glob
	commands []command
	agents   []string
	modes    []string
	tools    []string
	hosts    []hosts.Pattern
	when     *condition
	effects  effects
	effect   string
	// redirectNone: the rule matches only commands without redirections to files. redirectAny: an allow rule also
	// covers commands with redirections.
	redirectNone, redirectAny bool
	// workspacePrograms: programs of the workspace count as the programs that their names mean.
	workspacePrograms bool
	// grantable is for ask rules.
	grantable bool
	// contained are sandbox restrictions that must all be active, notContained restrictions of which one must be
	// missing.
	contained, notContained []string
	// processes: the rule's file decides about processes by separate kinds.
	processes bool
}

// command is the prefix of a command in a rule.
type command struct {
	prefix
	// risks are the risks of the prefix itself: a rule that names a risk allows it.
	risks []string
}

const (
	maxID     = 128
	maxReason = 1000
	maxTokens = 256
)

// kinds are the kinds of actions in the contract, except those of extensions.
var kinds = []string{
	"fs.read", "fs.write", "fs.list",
	"terminal.create", "terminal.output", "terminal.wait", "terminal.kill", "terminal.release",
	"tool.read", "tool.edit", "tool.delete", "tool.move", "tool.search", "tool.execute", "tool.think", "tool.fetch",
	"tool.switch_mode", "tool.other", "net.connect", "mcp.start", "elicitation", "unknown",
	processStart, processRead, processWrite, processGit,
}

// compiler converts the message to rules. It collects all errors with their positions in the file.
type compiler struct {
	doc    *yamlproto.Document
	file   string
	data   []byte
	env    *cel.Env
	places places
	ids    map[string]string // id to the field of its rule
	errs   []error
	tests  uint32 // the number of tests that ran
}

func (c *compiler) fail(field, format string, args ...any) {
	c.errs = append(c.errs, c.doc.Errorf(field, format, args...))
}

// expect reports an error unless holds.
func (c *compiler) expect(holds bool, field, format string, args ...any) {
	if !holds {
		c.fail(field, format, args...)
	}
}

func (c *compiler) line(field string) uint32 {
	line, _ := c.doc.Position(field)
	return uint32(line) // a file has fewer lines than that
}

func (c *compiler) policy(rules *permissionv1.Policy) *Policy {
	if rules.GetVersion() == 0 {
		c.fail("version", "missing: a rule file begins with \"version: 1\", and has its rules below \"rules:\"")
	} else {
		c.expect(rules.GetVersion() == 1, "version", "expected 1, got %d", rules.GetVersion())
	}
	p := &Policy{unattended: deny}
	unattended := rules.GetUnattended()
	if unattended == "allow" {
		p.unattended = allow
	}
	c.expect(oneOf(unattended, "", "deny", "allow"), "unattended", "expected deny or allow, got %q%s", unattended, yamlproto.DidYouMean(unattended, []string{"deny", "allow"}))
	p.rules = make([]rule, len(rules.GetRules()))
	valid := make([]bool, len(p.rules))
	for i, r := range rules.GetRules() {
		at := fmt.Sprintf("rules[%d]", i)
		errs := len(c.errs)
		p.rules[i] = c.rule(at, r)
		p.rules[i].index, p.rules[i].line = i, c.line(at)
		valid[i] = len(c.errs) == errs
	}
	p.processes = decidesProcesses(p.rules)
	for i, r := range rules.GetRules() {
		at := fmt.Sprintf("rules[%d]", i)
		compiled := &p.rules[i]
		compiled.processes = p.processes
		if valid[i] {
			c.examples(at, compiled, r.GetTests())
		}
		switch r.GetEffect() {
		case "deny":
			p.deny = append(p.deny, compiled)
		case "ask":
			p.ask = append(p.ask, compiled)
		case "allow":
			p.allow = append(p.allow, compiled)
		default:
			c.fail(at+".effect", "expected deny, ask or allow, got %q%s", r.GetEffect(), effectMeant(r.GetEffect()))
		}
	}
	return p
}

func (c *compiler) rule(at string, r *permissionv1.Rule) rule {
	c.id(at, r.GetId())
	c.expect(len(r.GetOn())+len(r.GetPath())+len(r.GetCommand())+len(r.GetAgent())+len(r.GetMode())+len(r.GetTool())+
		len(r.GetReads())+len(r.GetWrites())+len(r.GetHost())+len(r.GetContained())+len(r.GetNotContained()) > 0 || r.RunsCode != nil || r.Network != nil || r.GetWhen() != "" || r.GetRedirect() != "", at,
		"expected at least one condition (on, path, command, reads, writes, runs_code, network, redirect, host, contained, not_contained, agent, mode, tool, when), "+
			"got none: the rule would match everything")
	c.expect(!r.GetNotGrantable() || r.GetEffect() == "ask", at+".not_grantable",
		"expected only in ask rules, got it in one with the effect %q", r.GetEffect())
	c.expect(!r.GetWorkspacePrograms() || r.GetEffect() == "allow" && len(r.GetCommand()) > 0, at+".workspace_programs",
		"expected only in allow rules with command: deny and ask rules hold for programs of the workspace anyway")
	compiled := rule{
		id: r.GetId(), effect: r.GetEffect(), reason: r.GetReason(), agents: r.GetAgent(), modes: r.GetMode(), tools: r.GetTool(),
		redirectNone: r.GetRedirect() == "none", redirectAny: r.GetRedirect() == "any",
		contained: r.GetContained(), notContained: r.GetNotContained(),
		workspacePrograms: r.GetWorkspacePrograms(), grantable: !r.GetNotGrantable(), paths: c.paths(at, r),
		effects: effects{reads: c.globs(at+".reads", r.GetReads()), writes: c.globs(at+".writes", r.GetWrites()), runsCode: r.RunsCode, network: r.Network},
	}
	c.expect(!r.GetWorkspacePrograms() || !compiled.effects.any(), at+".workspace_programs",
		"expected without reads, writes, runs_code and network: what a program of the workspace does is not known")
	size := utf8.RuneCountInString(r.GetReason())
	c.expect(size <= maxReason, at+".reason", "expected at most %d characters, got %d", maxReason, size)
	c.expect(oneOf(r.GetRedirect(), "", "none", "any"), at+".redirect", "expected none or any, got %q%s", r.GetRedirect(), yamlproto.DidYouMean(r.GetRedirect(), []string{"none", "any"}))
	c.names(at+".agent", r.GetAgent())
	c.names(at+".mode", r.GetMode())
	c.names(at+".tool", r.GetTool())
	c.walls(at+".contained", r.GetContained())
	c.walls(at+".not_contained", r.GetNotContained())
	for i, text := range r.GetHost() {
		pattern, err := hosts.ParsePattern(text)
		c.expect(err == nil, fmt.Sprintf("%s.host[%d]", at, i), "expected a machine like api.example.com, *.example.com:443 or 10.0.0.0/8, got %q: %v", text, err)
		compiled.hosts = append(compiled.hosts, pattern)
	}
	if r.GetWhen() != "" {
		compiled.when = c.when(at+".when", r.GetWhen())
	}
	for i, pattern := range r.GetOn() {
		kind, excepted := strings.CutPrefix(pattern, "!")
		if g := c.kind(fmt.Sprintf("%s.on[%d]", at, i), kind); excepted {
			compiled.notOn = append(compiled.notOn, g)
		} else {
			compiled.on = append(compiled.on, g)
		}
	}
	for i, pattern := range r.GetCommand() {
		tokens := strings.Fields(pattern)
		c.expect(len(tokens) > 0 && len(tokens) <= maxTokens, fmt.Sprintf("%s.command[%d]", at, i),
			"expected 1 to %d words, got %d", maxTokens, len(tokens))
		compiled.commands = append(compiled.commands, command{tokens, shell.Risks(tokens)})
	}
	return compiled
}

func oneOf(text string, list ...string) bool { return slices.Contains(list, text) }

func (c *compiler) names(at string, names []string) {
	for i, name := range names {
		c.expect(name != "" && utf8.ValidString(name), fmt.Sprintf("%s[%d]", at, i), "expected a name, got none")
	}
}

func (c *compiler) walls(at string, names []string) {
	for i, name := range names {
		c.expect(wallNames[name] != permissionv1.Wall_WALL_UNSPECIFIED, fmt.Sprintf("%s[%d]", at, i), "expected files, reads or network, got %q%s",
			name, yamlproto.DidYouMean(name, sortedWalls()))
	}
}

// paths compiles the paths of a rule, with its limits.
func (c *compiler) paths(at string, r *permissionv1.Rule) []glob {
	limited := r.GetEffect() == "deny" || r.GetEffect() == "ask"
	with := limits{
		reads: r.GetAccess() == "read", writes: r.GetAccess() == "write",
		unlessPublic: r.GetUnlessPublic(), onlyKeys: r.GetHoldsPrivateKey(), unlessCommitted: r.GetUnlessCommitted(),
	}
	c.expect(oneOf(r.GetAccess(), "", "read", "write"), at+".access", "expected read or write, got %q%s", r.GetAccess(),
		yamlproto.DidYouMean(r.GetAccess(), []string{"read", "write"}))
	c.expect(!with.any() || limited && len(r.GetPath()) > 0, at,
		"expected access, unless_public, holds_private_key and unless_committed only in deny and ask rules with path")
	var globs []glob
	for i, text := range r.GetPath() {
		text, excepts := strings.CutPrefix(text, "!")
		g, err := newGlob(text, c.places)
		c.expect(err == nil, fmt.Sprintf("%s.path[%d]", at, i), "%v", err)
		c.expect(!excepts || limited, fmt.Sprintf("%s.path[%d]", at, i), "expected a glob with ! only in deny and ask rules")
		if excepts {
			with.except = append(with.except, g)
		} else {
			globs = append(globs, g)
		}
	}
	c.expect(len(globs) > 0 || len(with.except) == 0, at+".path", "expected a glob without !, of whose files those with ! are excepted")
	for i := range globs {
		globs[i].limits = with
	}
	return globs
}

func (c *compiler) globs(at string, patterns []string) []glob {
	var globs []glob
	for i, pattern := range patterns {
		g, err := newGlob(pattern, c.places)
		c.expect(err == nil, fmt.Sprintf("%s[%d]", at, i), "%v", err)
		globs = append(globs, g)
	}
	return globs
}

func (c *compiler) when(at, source string) *condition {
	when, errs := newCondition(c.env, source)
	for _, e := range errs {
		line, column := c.doc.Position(at)
		line, column = placeIn(c.data, line, column, e.offset)
		c.errs = append(c.errs, &yamlproto.Error{File: c.file, Line: line, Column: column, Field: at, Message: e.message})
	}
	return when
}

func (c *compiler) id(at, id string) {
	switch n := utf8.RuneCountInString(id); {
	case id == "":
		c.fail(at+".id", "expected a name, got none")
		return
	case n > maxID:
		c.fail(at+".id", "expected at most %d characters, got %d", maxID, n)
	case strings.ContainsFunc(id, unreadable):
		c.fail(at+".id", "expected printable characters, got %q", id)
	case strings.HasPrefix(id, "acphost/"):
		c.fail(at+".id", "expected a name that does not begin with acphost/, which is for built-in rules, got %q", id)
	}
	if first, taken := c.ids[id]; taken {
		c.fail(at+".id", "expected a name of its own, got %q, which is that of %s too", id, first)
		return
	}
	c.ids[id] = at
}

// kind compiles a pattern of action kinds. A pattern in a fully known namespace must match an existing kind: a deny
// rule with a typo would silently forbid nothing.
func (c *compiler) kind(at, pattern string) kindGlob {
	g := kindGlob(pattern)
	space, _, _ := strings.Cut(pattern, ".")
	known := space == "fs" || space == "terminal" || space == "tool" || space == "net" || space == "mcp" || space == "process"
	switch {
	case pattern == "" || strings.ContainsFunc(pattern, func(r rune) bool { return unicode.IsSpace(r) || unreadable(r) }):
		c.fail(at, "expected a kind of action, like fs.write or tool.*, got %q", pattern)
	case strings.HasPrefix(pattern, "*") && !strings.Contains(pattern, ".") && !strings.HasPrefix(pattern, "**"):
		c.fail(at, `expected kinds of actions, got %q, which matches no kind with a dot in it ("*" stands for any characters but a dot): `+
			`leave on out for every kind, or name namespaces, like "fs.*", "terminal.*", "tool.*" and "net.*"`, pattern)
	case strings.Contains(pattern, "**"):
		c.fail(at, `expected single stars, got %q ("*" stands for any characters but a dot)`, pattern)
	case known && !slices.ContainsFunc(kinds, g.matches):
		c.fail(at, "expected a pattern that some kind of action matches (%s), got %q%s", strings.Join(inSpace(space), ", "), pattern,
			yamlproto.DidYouMean(pattern, inSpace(space)))
	}
	return g
}

func inSpace(space string) []string {
	return slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return !strings.HasPrefix(kind, space+".") })
}

// kindGlob is a pattern of action kinds, in which "*" matches any characters except a dot.
type kindGlob string

func (g kindGlob) matches(kind string) bool {
	pattern := string(g)
	// The last star and the text position at that star: matching restarts there if the rest does not match.
	star, mark := -1, 0
	i, j := 0, 0
	for j < len(kind) {
		switch {
		case i < len(pattern) && pattern[i] == '*':
			star, mark = i, j
			i++
		case i < len(pattern) && pattern[i] == kind[j]:
			i++
			j++
		case star >= 0 && kind[mark] != '.':
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[i:], "*") == ""
}
