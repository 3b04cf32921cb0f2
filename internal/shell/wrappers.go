package shell

import (
	"slices"
	"strings"
)

// kind is how a wrapper gets the command that it runs.
type kind uint8

const (
	// runsOperands runs its operands as a command.
	runsOperands kind = iota + 1
	// runsLine runs a shell line: its operands joined by spaces (eval).
	runsLine
	// runsHandler runs its first operand as a line, later (trap).
	runsHandler
	// runsShell is a shell: "-c LINE", a script, or its standard input.
	runsShell
	// runsSplit is env, which may also split a string into a command.
	runsSplit
	// runsAppended runs its operands with arguments from its input (xargs).
	runsAppended
	// runsAmong is find, with commands among its expressions.
	runsAmong
	// runsGit is git, whose options before its command change how and in which folder it runs.
	runsGit
	// runsFar runs something elsewhere: on another machine, in a container.
	runsFar
	// changesFolder is a program that changes to the folder of its option -C.
	changesFolder
	// runsUnseen runs commands in a way that is not modelled, or changes the meaning of later words of the line.
	runsUnseen
	// assigns runs nothing, but sets shell variables by name, and evaluates subscripts in the names.
	assigns
)

// dialect is the language that a shell reads.
type dialect uint8

const (
	// anyShell may be read by either grammar.
	anyShell dialect = iota
	// bashOnly is certainly bash.
	bashOnly
	// otherShell is similar enough to bash to find commands with its grammar, but some commands may be missed.
	otherShell
	// foreign is another language.
	foreign
)

// wrapper describes a program or builtin that runs other commands.
type wrapper struct {
	kind kind
	// options is its option grammar.
	options options
	// operands is the number of words between its options and the command: the duration of timeout.
	operands int
	// environment: NAME=VALUE words before the command are assignments.
	environment bool
	// itself are options with which it runs no other command: "command -v".
	itself []string
	// unseen are options with which the command is unknown: "sudo -i".
	unseen []string
	// named are options that are shown with the wrapper's name, because they change the environment of the command.
	named []string
	// disguise are options that give the command another name for itself, which changes what some programs do.
	disguise []string
	// directory are options whose value is the directory in which the command runs.
	directory []string
	// guess: with an unknown command line, the command most likely begins at the first word that is not an option,
	// after that number of operands.
	guess bool
	// dialect is the language of a shell.
	dialect dialect
	// far describes how a program gets a command to run elsewhere.
	far *far
}

// sameProgram reports whether the wrapped command runs in the wrapper's own process.
func (w wrapper) sameProgram() bool { return w.kind == runsGit || w.kind == changesFolder }

// shellOptions are the options of bash, dash and related shells. "c" and "s" are handled by unwrapShell.
var shellOptions = options{
	flags: "abcefhiklmnprstuvxBCDEHIPTV", separate: "oO", plus: true,
	long: []string{"login", "noprofile", "norc", "noediting", "posix", "restricted", "verbose"},
}

// harmlessLetters and harmlessSettings are options of shells, "-e" and "-o errexit", that do not change how a line is
// read and run, except where it ends. Others change the meaning of words (-O extglob, -k, -o posix), or make the shell
// run something first (-i).
const harmlessLetters = "Ccefulnpsvx"

var (
	harmlessSettings = []string{"errexit", "nounset", "xtrace", "pipefail", "noclobber", "noglob", "noexec", "verbose",
		"errtrace", "functrace"}
	harmlessLong = []string{"login", "noprofile", "norc", "noediting", "verbose"}
)

// harmless reports whether an option of a shell, or of its builtin set, is one of these.
func (o option) harmless() bool {
	switch {
	case o.name == "o" || o.name == "O":
		return o.name == "o" && slices.Contains(harmlessSettings, o.value)
	case len(o.name) == 1:
		return strings.Contains(harmlessLetters, o.name)
	}
	return slices.Contains(harmlessLong, o.name)
}

// wrappers is the table of all known wrappers, by base name. It is read-only.
var wrappers = byName(map[string]wrapper{
	// Shells.
	"sh dash ash":                        {kind: runsShell, options: shellOptions, dialect: anyShell},
	"bash rbash":                         {kind: runsShell, options: shellOptions, dialect: bashOnly},
	"zsh ksh mksh ksh93 yash":            {kind: runsShell, options: shellOptions, dialect: otherShell},
	"fish csh tcsh nu pwsh xonsh elvish": {kind: runsShell, dialect: foreign},

	// Builtins.
	"eval": {kind: runsLine},
	"trap": {kind: runsHandler, options: options{flags: "lp"}, itself: []string{"l", "p"}},
	"exec": {kind: runsOperands, options: options{flags: "cl", values: "a"}, disguise: []string{"a"},
		named: []string{"c", "l", "a"}},
	"command": {kind: runsOperands, options: options{flags: "pvV"}, itself: []string{"v", "V"}, named: []string{"p"}},
	// A keyword in bash, a program elsewhere. With -o it writes a file.
	"time": {kind: runsOperands, options: options{flags: "pvaqV", values: "of", long: []string{"portability", "verbose",
		"append", "quiet", "format=", "output=", "help", "version"}}, unseen: []string{"o", "output", "a", "append"}},

	// Builtins that change what later words mean, or run code in another way.
	"source . alias unalias hash enable bind complete compgen fc zmodload": {kind: runsUnseen},

	// Builtins that set variables by name.
	"read mapfile readarray getopts unset let export readonly declare typeset local printf wait set shopt test [ [[": {kind: assigns},

	// Builtins and programs that run their operands.
	"builtin noglob nocorrect nohup busybox toybox": {kind: runsOperands},
	"env": {kind: runsSplit, environment: true, options: options{flags: "i0v", values: "uCSP", long: []string{
		"ignore-environment", "null", "debug", "unset=", "chdir=", "split-string=", "block-signal[=", "default-signal[=",
		"ignore-signal[=", "list-signal-handling"}},
		named:     []string{"i", "u", "C", "P", "ignore-environment", "unset", "chdir"},
		directory: []string{"C", "chdir"}},
	"sudo": {kind: runsOperands, environment: true, options: options{flags: "AbBEeHiKklNnPSsVv", values: "aCcDghpRrTtUu",
		long: []string{"askpass", "background", "bell", "preserve-env[=", "set-home", "non-interactive", "preserve-groups",
			"stdin", "user=", "group=", "host=", "prompt=", "chdir=", "chroot=", "close-from=", "role=", "type=",
			"command-timeout="}},
		unseen: []string{"e", "i", "K", "k", "l", "s", "U", "V", "v", "R", "chroot"}, named: []string{"D", "chdir"}, directory: []string{"D", "chdir"}},
	"doas": {kind: runsOperands, options: options{flags: "LnPs", values: "aCu"}, unseen: []string{"L", "s", "C", "P"}},
	"timeout gtimeout": {kind: runsOperands, operands: 1, options: options{flags: "fpv", values: "ks", long: []string{"foreground",
		"preserve-status", "verbose", "kill-after=", "signal="}}},
	"nice":       {kind: runsOperands, options: options{values: "n", numeric: true, long: []string{"adjustment="}}},
	"stdbuf":     {kind: runsOperands, options: options{values: "ioe", long: []string{"input=", "output=", "error="}}},
	"setsid":     {kind: runsOperands, options: options{flags: "cfw", long: []string{"ctty", "fork", "wait"}}},
	"ionice":     {kind: runsOperands, options: options{flags: "t", values: "cn", long: []string{"ignore", "class=", "classdata="}}},
	"taskset":    {kind: runsOperands, operands: 1, options: options{flags: "ac", long: []string{"all-tasks", "cpu-list"}}},
	"caffeinate": {kind: runsOperands, options: options{flags: "dimsu", values: "t"}},
	"chronic":    {kind: runsOperands, options: options{flags: "ev"}},
	"unbuffer":   {kind: runsOperands, options: options{flags: "p"}},
	"xargs": {kind: runsAppended, options: options{flags: "0oprtx", values: "adEIJLnPRsS", attached: "eil", long: []string{
		"null", "no-run-if-empty", "verbose", "interactive", "exit", "open-tty", "arg-file=", "delimiter=", "max-args=",
		"max-procs=", "max-chars=", "max-lines[=", "replace[=", "eof[=", "process-slot-var=", "show-limits"}}},
	"git":              {kind: runsGit},
	"make gmake ninja": {kind: changesFolder},
	"find gfind":       {kind: runsAmong},

	// Programs that run commands elsewhere.
	"ssh slogin autossh rsh mosh dbclient": {kind: runsFar, far: &hosts},
	"adb":                                  {kind: runsFar, far: &devices},
	"docker podman nerdctl docker-compose podman-compose crictl buildah apptainer singularity": {kind: runsFar, far: &containers},
	"toolbox distrobox":                      {kind: runsFar, far: &toolboxes},
	"kubectl oc k3s":                         {kind: runsFar, far: &clusters},
	"lxc incus multipass limactl machinectl": {kind: runsFar, far: &machines},

	// Programs that run commands in ways that are not modelled.
	`su runuser sg pkexec run0 systemd-run systemd-inhibit unshare nsenter setpriv capsh bwrap sshpass lxc-attach firejail
	proot fakeroot strace ltrace gdb lldb valgrind numactl prlimit script watch parallel sem entr rlwrap xvfb-run
	dbus-run-session nsexec arch linux32 linux64 hyperfine cpulimit tini dumb-init daemonize ld.so ld-linux.so.2
	ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 ld-musl-x86_64.so.1 ld-musl-aarch64.so.1`: {kind: runsUnseen, guess: true},
	"chroot rr perf chrt flock setarch gosu su-exec setuidgid":                                            {kind: runsUnseen, guess: true, operands: 1},
	"start-stop-daemon dtach abduco zellij newgrp sudoedit expect at batch crontab tmux screen osascript": {kind: runsUnseen},
})

// byName returns a table by single names, for a table whose keys are names separated by blanks. It panics if a name is
// in two keys.
func byName[T any](rows map[string]T) map[string]T {
	table := make(map[string]T, len(rows))
	for names, row := range rows {
		for name := range strings.FieldsSeq(names) {
			if _, twice := table[name]; twice {
				panic("shell: two rows of a table are about " + name)
			}
			table[name] = row
		}
	}
	return table
}
