package facts

import (
	"path"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/shell"
	"github.com/acphost/acphost/internal/wordset"
)

// reading returns the parser for the words of programs that a list of options does not describe, from position start
// on. nil if there is no parser with that name.
func reading(by string) func(c *command, start int) {
	switch by {
	case "text":
		return (*command).text
	case "printf":
		return (*command).printf
	case "test":
		return (*command).test
	case "ps":
		return (*command).processes
	case "git":
		return (*command).git
	case "tar":
		return (*command).tar
	case "read":
		return (*command).setsVariables
	case "export":
		return (*command).export
	case "cp":
		return (*command).copies
	}
	return nil
}

// text is for programs whose words are all text. For builtins other than echo, some shells evaluate a word as
// arithmetic, including the subscripts of arrays: a[$(COMMAND)].
func (c *command) text(start int) {
	for i := start; i < len(c.argv); i++ {
		switch word := c.argv[i]; {
		case shell.TextWord(c.sub, i) && printsText[path.Base(c.argv[0])]:
		case c.dynamic(i):
			c.printed(word)
		case c.argv[0] != "echo" && strings.Contains(word, "[") && strings.ContainsAny(word, "$`"):
			c.unknown("%s: some shells may evaluate %s", c.argv[0], word)
		}
	}
}

// printsText are programs that only print a text, or a part of it, whatever its content. No shell evaluates it as
// arithmetic.
var printsText = wordset.Of("echo true false : basename dirname gbasename gdirname printf")

// Other variables may contain a secret. The value of a variable, and the output of a substitution, may be a pattern,
// which prints the names of files anywhere: it is unknown here whether it is quoted.
var (
	expansions = lazyregexp.New(`\$(\{[^}]*\}|[A-Za-z_][A-Za-z0-9_]*|.|$)`)
	shownName  = lazyregexp.New(`^\$(?:\{#?([A-Z_]+)\}|([A-Z_]+))$`)
	shown      = lazyregexp.New(`^\$(\{?[?#$!-]\}?|[^A-Za-z0-9_{\[(@*]|)$`)
	// onlyStrings matches a format of printf that reads no word as a number, which some shells evaluate.
	onlyStrings = lazyregexp.New(`^([^%]|%[0-9-]*(\.[0-9]+)?[sbc]|%%)*$`)
	number      = lazyregexp.New(`^(\$[?#$!])+$`)
)

// printed handles a printed word that is known only when the command runs.
func (c *command) printed(word string) {
	if strings.Contains(word, "`") {
		c.unknown("%s: what a substitution prints is not known", c.argv[0])
	}
	for _, expansion := range expansions.FindAllString(word, -1) {
		if name := shownName.FindStringSubmatch(expansion); !shown.MatchString(expansion) && (name == nil || !shell.Shown(name[1]+name[2])) {
			c.unknown("%s: the value of %s is unknown, and may be a secret", c.argv[0], expansion)
		}
	}
	for part := range strings.FieldsSeq(strings.ReplaceAll(word, "$?", "")) {
		switch {
		case !strings.ContainsAny(part, "*?["):
		case strings.Contains(part, "/"):
			c.unknown("%s: the files that %s matches are unknown", c.argv[0], part)
		default:
			c.file(".", use{metadata: true})
		}
	}
}

// printf prints its words, except for options of shells that set a variable.
func (c *command) printf(start int) {
	if start < len(c.argv) {
		if format := c.argv[start]; c.dynamic(start) || strings.HasPrefix(format, "-") && format != "--" {
			c.unknown("printf with the format %s is not known to be harmless", format)
		} else if len(c.sub.GetTextWords()) > 0 && !onlyStrings.MatchString(format) {
			c.unknown("printf: some shells may evaluate the argument of %s", format)
		}
	}
	c.text(start)
}

// setsVariables is for read.
func (c *command) setsVariables(int) {
	if c.sub.GetDynamic() || !shell.OnlyReads(c.argv) {
		c.unknown("read sets variables that programs may go by")
	}
}

// export is known if all its operands are assignments, which are judged separately; without operands, it shows the
// environment.
func (c *command) export(start int) {
	if start != len(c.argv) || len(c.sub.GetAssignments()) == 0 {
		c.unknown("export shows variables, or gives them to programs")
	}
}

// copyFlags are options of cp about the conditions of a copy and about messages. Options that set the mode or the owner
// of a copy, follow links, or walk through folders are not included.
var copyFlags = lazyregexp.New(`^(-[finuv]+|--(force|interactive|no-clobber|verbose))$`)

// copies is for cp: it reads all operands except the last one, which is the written file or the folder of the new
// files.
func (c *command) copies(start int) {
	args := c.argv[start:]
	for i := range args {
		if c.dynamic(start + i) {
			c.unknown("cp: a word is known only when the command runs")
			return
		}
	}
	for len(args) > 0 && copyFlags.MatchString(args[0]) {
		args = args[1:]
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	} else if i := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-") }); i >= 0 {
		c.unknown("cp with %s is not known to copy files alone", args[i])
		return
	}
	if len(args) < 2 {
		c.unknown("cp: what it copies is not certain")
		return
	}
	from, to := args[:len(args)-1], args[len(args)-1]
	into := strings.HasSuffix(to, "/") || namesFolder(to)
	for _, file := range from {
		c.file(file, use{})
		if namesFolder(file) {
			c.unknown("cp: what it copies is not certain")
		} else if len(from) > 1 || into || c.mayBeFolder(to) {
			c.file(strings.TrimSuffix(to, "/")+"/"+path.Base(file), use{write: true})
		}
	}
	if len(from) == 1 && !into {
		c.file(to, use{write: true})
	}
}

// namesFolder reports whether a path can only be a folder by its last part.
func namesFolder(file string) bool {
	return slices.Contains([]string{".", "..", "/"}, path.Base(file))
}

// tarFile matches an archive that no version of tar reads from another machine.
var tarFile = lazyregexp.New(`^[A-Za-z0-9_+./][A-Za-z0-9_+./-]*$`)

// tar is known with one cluster of options that lists the names in an archive.
func (c *command) tar(start int) {
	args := c.argv[start:]
	if slices.Equal(args, []string{"--version"}) {
		return
	}
	if c.sub.GetDynamic() || len(args) < 2 || strings.HasPrefix(args[0], "--") || strings.Trim(args[0], "-tvzjJf") != "" ||
		!strings.Contains(args[0], "t") || strings.Count(args[0], "f") != 1 || !strings.HasSuffix(args[0], "f") || !tarFile.MatchString(args[1]) ||
		slices.ContainsFunc(args[2:], func(arg string) bool { return strings.HasPrefix(arg, "-") || strings.HasPrefix(arg, "@") }) {
		c.unknown("tar is known only when it lists an archive: tar -tf FILE")
		return
	}
	c.file(args[1], use{})
}

var (
	testsFile  = wordset.Of("-b -c -d -e -f -g -h -k -L -p -r -s -S -u -w -x -O -G -N -a")
	testsFiles = wordset.Of("-nt -ot -ef")
)

// test compares words and checks files. Only the words of "[[" are known, not their operators, so each may be a file.
func (c *command) test(start int) {
	double := c.argv[0] == "[["
	comparing := comparesText(c, start)
	isFile := make([]bool, len(c.argv))
	for i := start; i < len(c.argv); i++ {
		word := c.argv[i]
		if c.dynamic(i) {
			if !number.MatchString(word) && (!comparing || !shell.TextWord(c.sub, i)) {
				c.unknown("%s: a word is known only when the command runs", c.argv[0])
			}
			continue
		}
		isFile[i] = isFile[i] || double
		isFile[i-1] = isFile[i-1] || testsFiles[word]
		if i+1 < len(c.argv) && (testsFile[word] || testsFiles[word]) {
			isFile[i+1] = true
		}
	}
	for i, is := range isFile {
		if word := c.argv[i]; is && i >= start && word != "" && word != "]" && word != "]]" && !c.dynamic(i) {
			c.file(word, use{metadata: true})
		}
	}
}

// comparesText reports whether a test has so few words that it can only be a comparison of text: "[ A = B ]", "[ -z A
// ]".
func comparesText(c *command, start int) bool {
	words := slices.Clone(c.argv[start:])
	if last := len(words) - 1; last >= 0 && (words[last] == "]" || words[last] == "]]") {
		words = words[:last]
	}
	switch {
	case len(words) == 2:
		return !c.dynamic(start) && (words[0] == "-z" || words[0] == "-n")
	case len(words) == 3:
		return !c.dynamic(start+1) && (words[1] == "=" || words[1] == "==" || words[1] == "!=")
	}
	return false
}

var (
	// ps accepts the same letters with and without a dash, and reads unknown words with a dash again as if without one.
	// Then "e" shows the environments of processes, so all words must be known.
	psPlain    = lazyregexp.New(`^-?[axuwflhcjrTv]+$`)
	psAll      = lazyregexp.New(`^-[eAfFlLHjwTy]+$`)
	psFormat   = lazyregexp.New(`^(-[eA]?o|-?a?x?w*o|-o)$`)
	psLong     = lazyregexp.New(`^(--no-headers?|--headers|--forest|--sort=[+-]?` + psNames + `(,[+-]?` + psNames + `)*)$`)
	psColumns  = lazyregexp.New(`^` + psNames + `=?(,` + psNames + `=?)*$`)
	psNumbers  = lazyregexp.New(`^[0-9]+(,[0-9]+)*$`)
	psVersions = wordset.Of("--help --version -V")
)

const psNames = `(pid|ppid|pgid|pgrp|sid|uid|user|ruser|euser|group|gid|comm|args|cmd|command|ucmd|etime|etimes|time|cputime|` +
	`start|start_time|stime|lstart|stat|state|s|tty|tt|tname|%cpu|pcpu|%mem|pmem|c|rss|rssize|rsz|vsz|vsize|sz|size|ni|nice|pri|` +
	`nlwp|wchan|psr|cls|f|flags)`

// processes parses the words of ps.
func (c *command) processes(start int) {
	everything, plain := false, false
	for i := start; i < len(c.argv); i++ {
		word, next := c.argv[i], ""
		switch {
		case i+1 == len(c.argv):
		case !c.dynamic(i + 1):
			next = c.argv[i+1]
		case c.argv[i+1] == "$$":
			next = "1" // any number
		}
		switch {
		case c.dynamic(i):
			c.unknown("ps: a word is known only when the command runs")
		case psFormat.MatchString(word) && psColumns.MatchString(next), (word == "-p" || word == "--pid") && psNumbers.MatchString(next):
			everything = everything || strings.HasPrefix(word, "-e")
			i++
		case psAll.MatchString(word):
			everything = everything || strings.Contains(word, "e")
		case psPlain.MatchString(word):
			plain = true
		case psLong.MatchString(word), psVersions[word]:
		default:
			c.unknown("ps %s is not known to be harmless", word)
		}
	}
	if everything && plain {
		c.unknown("ps may show the environments of processes, if it takes the e for an option without a dash")
	}
}

var (
	gitSecrets = lazyregexp.New(`(?i)url|proxy|header|token|pass|secret|credential|cookie|auth|smtp|key|insteadof`)
	gitKey     = lazyregexp.New(`^[A-Za-z][A-Za-z0-9-]*\.[A-Za-z0-9.-]*$`) // without a dot: "list", "edit"
	gitRemote  = lazyregexp.New(`^remote\.[A-Za-z0-9_-]+\.url$`)           // as printed by git remote -v
)

// mayBeSecret reports whether a setting of git may contain a password, or is not a valid setting.
func mayBeSecret(key string) bool {
	return !gitKey.MatchString(key) || gitSecrets.MatchString(key) && !gitRemote.MatchString(key)
}

// wholeKeys returns the settings that a pattern matches; nil if it may match others than those that it spells.
func wholeKeys(pattern string) (keys []string) {
	for alternative := range strings.SplitSeq(pattern, "|") {
		key, begins := strings.CutPrefix(alternative, "^")
		key, ends := strings.CutSuffix(key, "$")
		if plain := strings.ReplaceAll(key, `\.`, ""); !begins || !ends || strings.Trim(plain, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "" {
			return nil
		}
		keys = append(keys, strings.ReplaceAll(key, `\.`, "."))
	}
	return keys
}

// git parses the words of a git command. Commands that only read do so in the repository in which they run, and in the
// files that their words name. SubCommand.repository reports whether git runs programs that the repository configures.
func (c *command) git(start int) {
	for i := start; i < len(c.argv); i++ {
		if c.dynamic(i) {
			c.unknown("git: a word is known only when the command runs")
			return
		}
	}
	if why := shell.Risky(c.argv); why != "" {
		c.unknown("%s", why)
		return
	}
	name := shell.GitCommand(c.argv)
	if name == "" {
		return // help or version
	}
	args := c.argv[start:]
	for len(args) > 0 && args[0] != name {
		args = args[1:]
	}
	if len(args) == 0 {
		c.unknown("where git's command begins is not certain")
		return
	}
	args = args[1:]
	switch name {
	case "version":
		return
	case "config": // settings can contain passwords
		args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return slices.Contains(shell.GitConfigShows, arg) })
		switch {
		case len(args) == 2 && args[0] == "--get":
			args = args[1:]
		case len(args) == 2 && args[0] == "--get-regexp":
			args = wholeKeys(args[1])
		case len(args) != 1:
			args = nil
		}
		if len(args) == 0 || slices.ContainsFunc(args, mayBeSecret) {
			c.unknown("git config shows settings, and they may hold passwords")
		}
		return
	case "var":
		if len(args) != 1 || strings.HasPrefix(args[0], "-") {
			c.unknown("git var shows settings, and they may hold passwords")
		}
		return
	case "grep":
		for _, arg := range args {
			if strings.HasPrefix(arg, "--unt") || strings.HasPrefix(arg, "--no-e") {
				c.file(".", use{recursive: true})
			}
		}
	}
	shown := git.ContentsOf(c.argv)
	c.file(".", use{recursive: shown.Any(), tracked: shown.Any(), leavesOut: shown.Any() && !shown.Untold})
	for _, file := range shown.Named {
		if file != "" {
			c.file(file, use{})
		}
	}
	operands := false
	for _, arg := range args {
		spelled, all := shell.Spellings(arg, operands)
		if !all {
			c.unknown("git: a word may spell too many paths")
		}
		for _, file := range spelled {
			c.file(file, use{})
		}
		operands = operands || arg == "--"
	}
}
