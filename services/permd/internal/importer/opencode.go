package importer

import (
	"fmt"
	"slices"
	"strings"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// noOutsidePaths is a CEL condition on a simple command s: none of its words is a path outside of the workspace.
// opencode asks about commands with such paths by a separate permission, external_directory.
const noOutsidePaths = `s.argv.all(w, !w.matches("^(-[A-Za-z]|--?[A-Za-z-]+=)?[/~]|(^|[/=])[.][.](/|$)"))`

// opencode converts the permissions in opencode.json. The facts are from its documentation,
// opencode.ai/docs/permissions, and its repository: packages/opencode/src/permission (evaluate: the last rule whose
// permission name and pattern both match), src/util/wildcard.ts (a " *" at a pattern's end also matches nothing) and
// src/tool/bash.ts:
//
//   - permission is allow, ask or deny, or a map. The keys are the names of tools, or patterns of names; the values are
//     one of these words, or a map of patterns. All entries form one list in the order of the file, and the last match
//     applies.
//   - "*" matches any characters, "?" one. For bash the pattern matches the text of each command of a line and of each
//     wrapper; for edit and read it matches the path relative to the worktree. ~ and $HOME are the home directory.
//   - edit applies to all tools that change files. Paths outside of the working directory are also asked about, unless
//     external_directory allows them. Reading .env files is denied.
//   - Actions without a match are allowed, except external_directory and doom_loop. Here they are asked about.
//   - It depends on the version whether "*" matches a slash. The conversion uses the narrow meaning for entries that
//     allow, and the wide one for the others.
func (d *draft) opencode(content []byte) error {
	top, err := readObject(content)
	if err != nil {
		return err
	}
	d.origin = "opencode"
	d.notes = []string{
		"What opencode allows because nothing is said of it is asked about here. Relative paths are below the session's",
		"working directory. The rules are for every agent: to keep one to some, add \"agent\".",
	}
	list, err := opencodeEntries(top.get("permission"))
	if err != nil {
		return err
	}
	slices.Reverse(list)
	guard := noOutsidePaths
	if i := slices.IndexFunc(list, func(e opencodeEntry) bool { return matchesName(e.key, "external_directory") }); i >= 0 && list[i].effect == allow && list[i].pattern == "*" && list[i].key == "external_directory" {
		guard = ""
	}
	var commands []entry
	for _, e := range list {
		if matchesName(e.key, "bash") {
			commands = append(commands, entry{effect: e.effect, source: e.source(), command: parseCommand(e.pattern, "*?")})
		}
	}
	d.addOrdered(commands, guard)
	d.opencodePaths(list, "edit", editKinds(), writeKinds())
	d.opencodePaths(list, "read", []string{"fs.read", "tool.read"}, []string{"fs.read", "tool.read"})
	d.opencodeOthers(list)
	if top.get("agent").isSet() || top.get("mode").isSet() || top.get("tools").isSet() {
		d.drop("agent, mode, tools", "only the permissions at the top are read: write rules with mode for the others")
	}
	return nil
}

type opencodeEntry struct {
	key, pattern, effect string
	whole                bool // the entry has no pattern
}

func (e *opencodeEntry) source() string {
	if e.whole {
		return e.key + ": " + e.effect
	}
	return e.key + " " + e.pattern + ": " + e.effect
}

func opencodeEntries(v value) (list []opencodeEntry, err error) {
	add := func(at string, v value, e opencodeEntry) {
		e.effect = v.text()
		if err == nil && !slices.Contains([]string{allow, ask, deny}, e.effect) {
			err = fmt.Errorf("expected allow, ask or deny as %s, got %s", at, v.raw())
		}
		list = append(list, e)
	}
	top, ok := v.object()
	if v.isSet() && !ok {
		add("permission", v, opencodeEntry{key: "*", pattern: "*", whole: true})
	}
	for _, m := range top {
		patterns, ok := m.value.object()
		if !ok {
			add("permission."+m.name, m.value, opencodeEntry{key: m.name, pattern: "*", whole: true})
		}
		for _, p := range patterns {
			add("permission."+m.name+"."+p.name, p.value, opencodeEntry{key: m.name, pattern: p.name})
		}
	}
	return list, err
}

// matchesName reports whether a pattern of names may match a name.
func matchesName(pattern, name string) bool {
	if i := strings.IndexAny(pattern, "*?"); i >= 0 {
		return strings.HasPrefix(name, pattern[:i])
	}
	return pattern == name
}

// opencodePaths adds rules for a permission on paths, the entry with the highest precedence first.
func (d *draft) opencodePaths(list []opencodeEntry, name string, allowed, forbidden []string) {
	var of []opencodeEntry
	for _, e := range list {
		if matchesName(e.key, name) {
			of = append(of, e)
		}
	}
	for i := range of {
		e := &of[i]
		if e.effect != allow {
			if e.effect == ask && !slices.ContainsFunc(of[i+1:], func(o opencodeEntry) bool { return o.effect == allow }) {
				continue
			}
			d.opencodeRestrict(e, forbidden)
			continue
		}
		switch j := slices.IndexFunc(of[i+1:], func(o opencodeEntry) bool { return o.effect == deny && o.pattern == "*" }); {
		case e.key != name && e.key != "*":
			d.drop(e.source(), "a pattern of names allows more here than it names: write an allow rule with on")
			continue
		case j >= 0:
			d.drop(e.source(), "all else is denied ("+of[i+1+j].source()+"), and the strictest counts: leave that out, since what no rule matches is asked about, and write an allow rule with path")
			continue
		}
		rule := &permissionv1.Rule{Effect: allow, On: allowed, Path: []string{"${root}/**"}}
		if e.pattern != "*" {
			glob, rooted, ok := opencodeGlob(e.pattern)
			if !ok {
				d.drop(e.source(), "the pattern is not one that rules have: write an allow rule with path")
				continue
			}
			rule.Path = []string{glob}
			if rooted {
				rule.When = oneRoot
			}
		}
		d.add(e.source(), rule)
	}
	if name == "read" && slices.ContainsFunc(of, func(e opencodeEntry) bool { return e.effect == allow }) {
		d.add("what it denies by itself", &permissionv1.Rule{Effect: deny, On: forbidden, Path: []string{"**/*.env", "**/*.env.*"},
			Reason: "opencode denies reading these by itself."})
	}
}

func (d *draft) opencodeRestrict(e *opencodeEntry, kinds []string) {
	if e.pattern == "*" {
		d.add(e.source(), &permissionv1.Rule{Effect: e.effect, On: kinds})
		return
	}
	globs, ok := opencodeWide(e.pattern)
	if !ok {
		d.addAskFallback(e.source(), "the pattern is not one that rules have: write a rule with path", &permissionv1.Rule{On: kinds})
		return
	}
	d.add(e.source(), &permissionv1.Rule{Effect: e.effect, On: kinds, Path: globs})
}

// opencodeGlob returns a glob that matches at most the paths that the pattern matches.
func opencodeGlob(pattern string) (glob string, rooted, ok bool) {
	body, base := cutHome(pattern)
	if base == "" && strings.HasPrefix(body, "/") {
		base, body = "", body[1:]
	} else if base == "" {
		base, rooted = "${root}", true
	}
	glob = base + "/" + escapeBraces(body)
	return glob, rooted, !strings.ContainsAny(body, "[]") && body != "" && isGlob(glob)
}

// cutHome removes the home directory from a pattern.
func cutHome(pattern string) (rest, base string) {
	for _, prefix := range []string{"~/", "$HOME/"} {
		if rest, ok := strings.CutPrefix(pattern, prefix); ok {
			return rest, "~"
		}
	}
	return strings.TrimPrefix(pattern, "./"), ""
}

// opencodeWide returns globs that match at least the paths that the pattern matches: paths that begin with the text
// before its first star and end with the text after its last.
func opencodeWide(pattern string) ([]string, bool) {
	body, base := cutHome(pattern)
	switch {
	case base == "~":
	case strings.HasPrefix(body, "/"):
		body = body[1:]
	case strings.HasPrefix(body, "*"), strings.HasPrefix(body, "?"):
		base = "" // also outside of the roots
	default:
		base = "${root}"
	}
	body = escapeBraces(body)
	var globs []string
	first := strings.IndexAny(body, "*?")
	if first < 0 {
		globs = []string{base + "/" + body, base + "/" + body + "/**"}
	} else {
		head, tail := body[:first], body[strings.LastIndexAny(body, "*?")+1:]
		dir := base + "/"
		if slash := strings.LastIndexByte(head, '/'); slash >= 0 {
			dir, head = dir+head[:slash+1], head[slash+1:]
		}
		if rest, ok := strings.CutPrefix(tail, "/"); ok {
			tail = rest
			globs = []string{dir + head + "*/" + tail, dir + head + "*/**/" + tail}
		} else {
			globs = []string{dir + head + "*" + tail, dir + head + "*/**/*" + tail}
			if head == "" {
				globs = []string{dir + "**/*" + tail}
			}
		}
	}
	if base == "" && strings.HasPrefix(globs[0], "/**/") {
		for i := range globs {
			globs[i] = strings.TrimPrefix(globs[i], "/")
		}
	}
	return globs, !strings.ContainsAny(body, "\\") && !slices.ContainsFunc(globs, func(g string) bool { return !isGlob(g) })
}

// opencodeOthers handles permissions for neither commands nor paths.
func (d *draft) opencodeOthers(list []opencodeEntry) {
	web := map[string]string{}
	for _, name := range []string{"webfetch", "websearch", "codesearch"} {
		for _, e := range list {
			if matchesName(e.key, name) && (web[name] == "" || e.effect != allow) && (e.pattern == "*" || e.effect != allow) {
				web[name] = stricter(web[name], e.effect)
			}
		}
	}
	for i := range list {
		e := &list[i]
		switch {
		case e.key == "bash", e.key == "edit", e.key == "read":
		case e.key == "*":
			d.opencodeAll(e, list[i+1:])
		case e.key == "external_directory":
			switch {
			case e.effect == allow && e.pattern != "*":
				d.drop(e.source(), "write an allow rule with path")
			case e.effect == deny:
				d.add(e.source(), &permissionv1.Rule{Effect: deny, When: "action.paths.exists(p, !p.inside_roots)"})
			}
		case e.key == "webfetch", e.key == "websearch", e.key == "codesearch":
			switch {
			case e.effect == deny && e.pattern == "*":
				d.add(e.source(), &permissionv1.Rule{Effect: deny, On: []string{"tool.fetch"}})
			case e.effect != allow:
				d.addAskFallback(e.source(), "an action on the web does not say for certain where it goes", &permissionv1.Rule{On: []string{"tool.fetch"}})
			case web["webfetch"] == allow && web["websearch"] == allow && web["codesearch"] == allow && e.key == "webfetch":
				d.add(e.source(), &permissionv1.Rule{Effect: allow, On: []string{"tool.fetch"}})
			case e.key == "webfetch" || e.pattern != "*" || web["webfetch"] != allow:
				d.drop(e.source(), "an action on the web says neither for certain where it goes nor whether it fetches or searches: write an allow rule on tool.fetch, for all of them")
			}
		case e.effect == allow:
			d.drop(e.source(), "agents do not say for certain which tool it is that they use: write an allow rule on the kind of action, or let an answer be remembered")
		case e.key == "glob" || e.key == "grep" || e.key == "list":
			rule := &permissionv1.Rule{Effect: e.effect, On: []string{"tool.search", "fs.list"}}
			if e.pattern == "*" {
				d.add(e.source(), rule)
			} else {
				d.addAskFallback(e.source(), "what is searched for is no condition here", rule)
			}
		default:
			d.addAskFallback(e.source(), "agents do not say for certain which tool it is that they use", &permissionv1.Rule{On: otherKinds()})
		}
	}
}

// opencodeAll handles the entry for all permissions, except for commands and paths.
func (d *draft) opencodeAll(e *opencodeEntry, weaker []opencodeEntry) {
	others := append(otherKinds(), "tool.search", "fs.list", "tool.fetch")
	switch e.effect {
	case allow:
		d.drop(e.source(), "it is carried over for commands and for files inside the roots: write allow rules for other kinds of actions")
	case deny:
		d.add(e.source(), &permissionv1.Rule{Effect: deny, On: others})
	case ask:
		if slices.ContainsFunc(weaker, func(o opencodeEntry) bool { return o.effect == allow }) {
			d.add(e.source(), &permissionv1.Rule{Effect: ask, On: others})
		}
	}
}

func stricter(a, b string) string {
	for _, effect := range []string{deny, ask} {
		if a == effect || b == effect {
			return effect
		}
	}
	return b
}
