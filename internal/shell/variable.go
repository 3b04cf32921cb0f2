package shell

import (
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/wordset"
)

// harmless are variables that change how output looks, and not what runs. The list of the others would be too long:
// they make programs run or load something else (PATH, LD_PRELOAD, DYLD_INSERT_LIBRARIES, BASH_ENV, IFS, PS4, GIT_SSH,
// EDITOR, NODE_OPTIONS, PYTHONPATH, PERL5OPT, RUBYOPT, JAVA_TOOL_OPTIONS, GOFLAGS, CC, and variables of a project's own
// scripts).
var harmless = []string{
	"LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "COLUMNS",
	"LINES", "CI", "NODE_ENV", "RUST_BACKTRACE",
}

// pagers are variables that name a program. Some of their values only print.
var pagers = []string{"PAGER", "GIT_PAGER", "MANPAGER", "GH_PAGER"}

// HarmlessVariable reports whether an environment variable, "NAME=VALUE", certainly does not change what a command
// runs, loads, reads or writes. It returns false for an unknown variable.
func HarmlessVariable(entry string) bool {
	name, value, ok := strings.Cut(entry, "=")
	switch {
	case !ok || strings.ContainsAny(value, "\x00\n\r"):
		return false
	case slices.Contains(pagers, name):
		return value == "" || value == "cat"
	case name == "GIT_TERMINAL_PROMPT" || name == "GIT_OPTIONAL_LOCKS":
		return value == "0"
	case name == "LANG" || strings.HasPrefix(name, "LC_"):
		return isLocale(value)
	case name == "LANGUAGE" || name == "TZ":
		// Libraries try to open such names as files, too.
		return !strings.ContainsAny(value, "/\\$`(") || (name == "TZ" && !strings.Contains(value, "..") && isZone(value))
	}
	return slices.Contains(harmless, name) && !strings.ContainsAny(value, "$`(")
}

// isLocale reports whether value is a locale in which a shell reads a line as in every other locale. In locales of GBK,
// Big5 and Shift JIS, and those without an encoding, a backslash, a backquote or a "|" may be the second byte of a
// character.
func isLocale(value string) bool {
	language, charset, hasCharset := strings.Cut(value, ".")
	switch {
	case strings.Trim(language, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "":
		return false
	case hasCharset:
		return strings.EqualFold(charset, "UTF-8") || strings.EqualFold(charset, "UTF8")
	}
	return language == "" || language == "C" || language == "POSIX" || strings.HasPrefix(language, "en_")
}

// OwnVariable reports whether a variable's name is typical for a script's own variables. Shells and programs do not use
// these names: the names that programs read from their environment are in upper case, with exceptions for which it
// returns false.
func OwnVariable(name string) bool {
	if scriptNames[name] {
		return true
	}
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == "" && strings.Trim(name[:1], "0123456789_") != "" &&
		!strings.HasSuffix(name, "path") && !strings.Contains(name, "proxy") && !strings.HasPrefix(name, "npm_") && !shellNames[name]
}

var (
	scriptNames = wordset.Of("F FILE FILES D DIR DIRS N I X COUNT TOTAL SRC BRANCH COMMIT SHA HASH")
	// shellNames are variables of bash and zsh.
	shellNames = wordset.Of(`auto_resume histchars argv status prompt psvar watch fignore pipestatus signals options functions aliases
		galiases saliases commands parameters builtins reswords patchars modules dirstack history historywords jobdirs jobtexts
		jobstates nameddirs userdirs usergroups funcstack functrace funcfiletrace funcsourcetrace mapfile errnos sysparams
		terminfo termcap langinfo epochtime widgets keymaps zsh_eval_context compstate words dis_aliases dis_functions`)
)

// isZone reports whether value is the name of a time zone: "Europe/Berlin".
func isZone(value string) bool {
	return !strings.HasPrefix(value, "/") && strings.Trim(value,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-/") == ""
}
