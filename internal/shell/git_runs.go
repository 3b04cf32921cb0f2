package shell

import "strings"

// gitRuns are commands of git that run their operands as a command: all words after the last of these words, and after
// the options that may follow it.
var gitRuns = map[string]struct {
	verb string
	// line: a single word is a line for a shell.
	line bool
}{
	"submodule": {verb: "foreach", line: true},
	"bisect":    {verb: "run"},
}

// gitLines are commands of git with options whose value is a line for a shell, or a program. "[=" at the end marks a
// value that must be attached. The name "-filter" matches all options with that suffix.
var gitLines = map[string][]string{
	"rebase":        {"-x", "--exec"},
	"filter-branch": {"-filter", "--setup"},
	"difftool":      {"-x", "--extcmd"},
	"fetch":         {"--upload-pack"},
	"pull":          {"--upload-pack"},
	"clone":         {"-u", "--upload-pack"},
	"ls-remote":     {"--upload-pack", "--exec"},
	"fetch-pack":    {"--upload-pack", "--exec"},
	"push":          {"--receive-pack", "--exec"},
	"send-pack":     {"--receive-pack", "--exec"},
	"archive":       {"--exec"},
	"grep":          {"-O[=", "--open-files-in-pager[="},
	"send-email":    {"--sendmail-cmd", "--to-cmd", "--cc-cmd", "--header-cmd"},
}

// gitCommand handles a command of git that runs others. The options before it are removed already.
func (r *reading) gitCommand(c call) (call, outcome) {
	if len(c.args) < 2 || c.args[1].dynamic {
		return c, itself
	}
	name, args := c.args[1].text, c.args[2:]
	if by, ok := gitRuns[name]; ok {
		for i, arg := range args {
			if arg.text == by.verb && !arg.dynamic {
				r.opaque(c, "%s %s %s runs a command", c.args[0].text, name, by.verb)
				r.guessGit(c, args[i+1:], by.line)
				return c, done
			}
			if !strings.HasPrefix(arg.text, "-") {
				break
			}
		}
	}
	lines := gitOptionLines(gitLines[name], args)
	if len(lines) == 0 {
		return c, itself
	}
	r.opaque(c, "%s %s has an option that runs a command", c.args[0].text, name)
	for _, line := range lines {
		r.guessLine(c, line)
	}
	return c, done
}

// guessGit adds the commands in args that git runs.
func (r *reading) guessGit(c call, args []word, line bool) {
	for len(args) > 0 && strings.HasPrefix(args[0].text, "-") && !args[0].dynamic {
		args = args[1:]
	}
	switch {
	case len(args) == 0:
	case len(args) == 1 && line:
		r.guessLine(c, args[0].text)
	default:
		r.guessCall(c, args)
	}
}

// gitOptionLines returns the values of the named options in args.
func gitOptionLines(names []string, args []word) (lines []string) {
	for i, arg := range args {
		if arg.text == "--" {
			break
		}
		for _, name := range names {
			name, attached := strings.CutSuffix(name, "[=")
			value, ok := gitOptionValue(name, arg.text)
			if !ok {
				continue
			}
			if value == "" && !attached && i+1 < len(args) {
				value = args[i+1].text
			}
			lines = append(lines, value)
			break
		}
	}
	return lines
}

// gitOptionValue returns the value attached to an option, if text is that option. Git accepts abbreviated long options,
// and clusters of short ones.
func gitOptionValue(name, text string) (value string, ok bool) {
	given, value, _ := strings.Cut(text, "=")
	switch {
	case name == "-filter":
		return value, strings.HasPrefix(given, "--") && strings.HasSuffix(given, name)
	case strings.HasPrefix(name, "--"):
		return value, len(given) >= len("--ex") && strings.HasPrefix(name, given)
	case len(text) < 2 || text[0] != '-' || text[1] == '-':
		return "", false
	}
	at := strings.IndexByte(text, name[1])
	// The value follows one of these letters.
	if at < 1 || strings.ContainsAny(text[1:at], "efmsbocjABCX") {
		return "", false
	}
	return text[at+1:], true
}
