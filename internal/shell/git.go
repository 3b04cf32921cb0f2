package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/acphost/acphost/internal/lazyregexp"
)

// gitOptionsBefore are git's options before its command. Long options with the value in the next word are listed as git
// accepts them.
var gitOptionsBefore = options{
	flags: "pPvh", values: "Cc",
	long: []string{"no-pager", "paginate", "no-replace-objects", "no-lazy-fetch", "no-optional-locks", "no-advice", "bare",
		"literal-pathspecs", "glob-pathspecs", "noglob-pathspecs", "icase-pathspecs", "version", "help", "html-path",
		"man-path", "info-path", "exec-path[=", "git-dir=", "work-tree=", "namespace=", "super-prefix=", "config-env=",
		"attr-source=", "list-cmds[="},
}

// gitPlain are prefixes of settings that change only how git prints, not what it runs.
var gitPlain = []string{"color.", "column.", "advice.", "user.name=", "user.email=", "core.quotepath=", "core.abbrev=",
	"log.date=", "log.decorate=", "log.abbrevcommit=", "status.", "core.pager=cat", "init.defaultbranch=",
	"commit.gpgsign=false", "tag.gpgsign=false", "core.autocrlf=", "diff.renames=", "merge.conflictstyle=", "i18n."}

// gitPrints matches settings with values that only change how git prints. They are removed, like --no-pager.
var gitPrints = lazyregexp.New(`^(?i:core\.pager=(cat)?|color\.[a-z.]+=(auto|always|never|true|false)|core\.quotepath=(on|off|true|false)|` +
	`log\.(date|decorate|abbrevcommit)=[a-z0-9-]+|advice\.[a-z]+=(true|false)|diff\.(renames|noprefix|mnemonicprefix)=(true|false)|` +
	`core\.abbrev=[0-9]+|column\.[a-z]+=(auto|always|never))$`)

// gitLess matches settings with values that disable behavior, before commands that only read: no hooks, no file
// monitor, no implicit bare repository, no check of signatures. Agents set them for their own look-ups.
var gitLess = lazyregexp.New(`^(?i:core\.fsmonitor=(false)?|core\.hookspath=/dev/null|safe\.barerepository=explicit|log\.showsignature=false|` +
	`core\.autocrlf=false|core\.(longpaths|symlinks)=true)$`)

// unwrapGit removes git's options from its command, so that "git -C DIR push" is a push, in DIR. For options that
// change more than the directory, the command as given is kept, too, because they may name a program.
func (r *reading) unwrapGit(c call) (call, outcome) {
	given, rest, ok := gitOptionsBefore.take(c.args[1:])
	if !ok {
		return r.confused(c)
	}
	if len(given) == 0 || len(rest) == 0 {
		return r.gitCommand(c)
	}
	at, changed := r.at(c), false
	name := c.args[0].text
	for _, opt := range given {
		switch opt.name {
		case "C":
			at = at.in(word{text: opt.value})
		case "no-pager", "P", "no-optional-locks", "no-replace-objects", "no-lazy-fetch", "no-advice", "literal-pathspecs":
			continue
		case "c":
			if gitPrints.MatchString(opt.value) || gitLess.MatchString(opt.value) && gitReads[rest[0].text] && !rest[0].dynamic {
				continue
			}
			changed = true
			r.gitSetting(opt.value)
		case "config-env", "exec-path":
			changed = true
			r.giveUp("git --%s may make git run something else", opt.name)
		default:
			changed = true
		}
		if as := " " + dashed(opt.name); !strings.Contains(name+" ", as+" ") {
			name += as
		}
	}
	inner := c.wrapped(name, append([]word{c.args[0]}, rest...))
	if name == c.args[0].text { // no other options
		inner.wrappers = c.wrappers
	}
	inner.at = &at
	if changed {
		whole := c
		whole.at = &at
		r.plain(whole)
		inner.redirects, inner.assignments, inner.input = nil, nil, nil
	}
	if _, came := r.gitCommand(inner); came == itself {
		r.plain(inner)
	}
	return c, done
}

// gitSetting handles a setting of "git -c": an alias that is a line for a shell, or another value that git may run.
func (r *reading) gitSetting(setting string) {
	folded := strings.ToLower(setting)
	if strings.HasPrefix(folded, "alias.") {
		if _, line, ok := strings.Cut(setting, "=!"); ok {
			r.apart(elsewhere, func() { r.line(line, syntax.LangBash, []string{"git alias"}) })
		}
		r.giveUp("git -c %s defines a command", setting)
		return
	}
	for _, plain := range gitPlain {
		if strings.HasPrefix(folded, plain) && (strings.HasSuffix(plain, "=") || strings.HasSuffix(plain, ".") || folded == plain) {
			return
		}
	}
	r.giveUp("git -c %s may make git run something else", setting)
}
