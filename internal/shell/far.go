package shell

import (
	"slices"
	"strings"
)

// far describes how a program gets a command to run somewhere else: on another machine, in a container. The effects
// there are not visible, so such a line is unparsed; the commands that it most likely runs are added.
type far struct {
	// verbs are the subcommands of the program that run something; none: the program always does.
	verbs []string
	// groups are words that may precede a verb: "docker compose exec".
	groups []string
	// flags are the options without a value, of the program and its verbs: letters, and long names. All other options
	// have a value.
	flags     string
	longFlags []string
	// operands is the number of words between the options and the command: the host, the container.
	operands int
	// joined: all words, joined by blanks, are a line for a shell.
	joined bool
	// dashes: the command begins after "--", if there is one.
	dashes bool
	// instead are options whose value replaces the first word (docker run --entrypoint).
	instead []string
	// lines are options ("name"), or settings in any option ("name="), whose value is a line for a local shell.
	lines []string
}

// The programs that run commands elsewhere, by common properties. They are read-only.
var (
	hosts = far{flags: "46AaCfGgKkMNnqsTtVvXxYy", operands: 1, joined: true,
		lines: []string{"proxycommand=", "localcommand=", "knownhostscommand="}}
	devices    = far{verbs: []string{"shell"}, flags: "adentTx", joined: true}
	containers = far{verbs: []string{"exec", "run", "create", "ssh"}, groups: []string{"container", "compose", "pod", "machine"},
		operands: 1, instead: []string{"entrypoint"}, flags: "ditqPlaT", longFlags: []string{"detach", "interactive", "tty",
			"rm", "privileged", "init", "read-only", "no-healthcheck", "oom-kill-disable", "publish-all", "quiet",
			"sig-proxy", "latest", "replace", "no-deps", "build", "service-ports", "use-aliases", "no-TTY", "debug", "tls",
			"tlsverify", "remote", "all", "remove-orphans", "quiet-pull", "rmi", "tls-verify", "http-proxy", "no-hosts",
			"env-host"}}
	toolboxes = far{verbs: []string{"run", "enter"}, flags: "yTavr", longFlags: []string{"root", "no-tty", "verbose"}, dashes: true}
	clusters  = far{verbs: []string{"exec", "run", "debug", "rsh"}, groups: []string{"alpha", "kubectl"}, operands: 1,
		dashes: true, flags: "itq", longFlags: []string{"stdin", "tty", "quiet", "rm", "attach", "leave-stdin-open", "command",
			"expose", "privileged", "insecure-skip-tls-verify", "match-server-version", "warnings-as-errors"}}
	machines = far{verbs: []string{"exec", "shell"}, operands: 1, dashes: true, flags: "tnTqv",
		longFlags: []string{"force-interactive", "force-noninteractive", "quiet", "verbose", "debug"}}
)

// unwrapFar unwraps a program that runs a command elsewhere.
func (r *reading) unwrapFar(f far, c call) (call, outcome) {
	args, ok := f.verb(c.args[1:])
	if !ok {
		return c, itself
	}
	r.opaque(c, "%s runs something where it cannot be seen", c.args[0].text)
	r.guessFar(f, c, args)
	return c, done
}

// verb returns the words after the verb; false if none exists. A word after an option of the program may be its value.
func (f far) verb(args []word) ([]word, bool) {
	if len(f.verbs) == 0 {
		return args, true
	}
	behind := false // an option
	for i, arg := range args {
		switch {
		case arg.dynamic:
			return nil, false // the command is unknown, and is marked dynamic
		case slices.Contains(f.verbs, arg.text):
			return args[i+1:], true
		case strings.HasPrefix(arg.text, "-"):
			behind = !strings.Contains(arg.text, "=")
		case behind:
			behind = false
		case !slices.Contains(f.groups, arg.text):
			return nil, false
		}
	}
	return nil, false
}

// guessFar adds the commands that c most likely runs. args are the words after its verb.
func (r *reading) guessFar(f far, c call, args []word) {
	given, rest := f.skip(args)
	skipped := args[:len(args)-len(rest)]
	if dashed := len(skipped) > 0 && skipped[len(skipped)-1].text == "--"; !dashed || !f.dashes {
		for range f.operands {
			if len(rest) == 0 {
				break
			}
			var more []option
			more, rest = f.skip(rest[1:])
			given = append(given, more...)
		}
	}
	for _, opt := range given {
		if slices.Contains(f.instead, opt.name) && opt.value != "" {
			rest = append([]word{{text: opt.value}}, rest...)
		}
		r.guessOption(f, c, opt)
	}
	if f.dashes {
		if i := slices.Index(args, word{text: "--"}); i >= 0 {
			rest = args[i+1:]
		}
	}
	switch {
	case len(rest) > 0 && f.joined:
		r.guessLine(c, joined(rest))
	case len(rest) > 0:
		r.guessCall(c, rest) // with its standard input
		return
	}
	if c.input != nil && !c.input.dynamic { // a remote shell may read it
		r.guessLine(c, c.input.text)
	}
}

// guessOption adds the commands of a line that is the value of an option.
func (r *reading) guessOption(f far, c call, opt option) {
	for _, name := range f.lines {
		setting, isSetting := strings.CutSuffix(name, "=")
		switch {
		case !isSetting && opt.name == name:
			r.guessLine(c, opt.value)
		case isSetting && len(opt.value) > len(setting) && strings.EqualFold(opt.value[:len(setting)], setting):
			r.guessLine(c, strings.TrimLeft(opt.value[len(setting):], "= \t"))
		}
	}
}

// guessLine adds the commands of a line that c most likely runs. The line that contains c is unparsed already.
func (r *reading) guessLine(c call, line string) {
	if len(c.wrappers) < maxWrappers {
		r.apart(elsewhere, func() { r.line(line, c.grammar, c.wrapped(c.args[0].text, nil).wrappers) })
	}
}

// guessCall adds the command that c most likely runs.
func (r *reading) guessCall(c call, args []word) {
	inner := c.wrapped(c.args[0].text, args)
	inner.dynamic, inner.at, inner.redirects = true, &place{unknown: true}, nil
	r.command(inner)
}

// skip removes the options from args, as far as they are known.
func (f far) skip(args []word) (given []option, rest []word) {
	for i := 0; i < len(args); i++ {
		text := args[i].text
		switch {
		case text == "--":
			return given, args[i+1:]
		case len(text) < 2 || text[0] != '-' || args[i].dynamic:
			return given, args[i:]
		}
		opt, takesNext := f.option(text)
		if takesNext && i+1 < len(args) {
			i++
			opt.value = args[i].text
		}
		given = append(given, opt)
	}
	return given, nil
}

// option parses a word that begins with a dash.
func (f far) option(text string) (opt option, takesNext bool) {
	if long, ok := strings.CutPrefix(text, "--"); ok {
		name, value, attached := strings.Cut(long, "=")
		return option{name, value}, !attached && !slices.Contains(f.longFlags, name)
	}
	for i := 1; i < len(text); i++ {
		if !strings.Contains(f.flags, text[i:i+1]) {
			return option{text[i : i+1], text[i+1:]}, i+1 == len(text)
		}
	}
	return option{name: text[1:2]}, false
}
