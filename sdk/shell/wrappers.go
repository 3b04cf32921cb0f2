package shell

// kind says how a wrapper comes by what it runs.
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
	// runsAppended runs its operands with arguments that it reads (xargs).
	runsAppended
	// runsAmong is find, with commands among its expressions.
	runsAmong
	// runsGit is git, whose options before its command change where and how it runs.
	runsGit
	// runsFar runs something elsewhere: on another machine, in a container.
	runsFar
	// goes is a program that goes to the folder of its option -C.
	goes
	// runsUnseen runs something that is not modelled here, or changes what later words of the line mean.
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
	// otherShell is near enough to bash to find commands by its grammar, but not to rely on having found all.
	otherShell
	// foreign is another language.
	foreign
)

// wrapper is what is known of a program or builtin that runs other commands.
type wrapper struct {
	kind kind
	// options is its option grammar.
	options options
	// operands is how many words stand between its options and the command: the duration of timeout.
	operands int
	// environment: NAME=VALUE words before the command are assignments.
	environment bool
	// itself are options with which it runs no other command: "command -v".
	itself []string
	// unseen are options with which what it runs cannot be told: "sudo -i".
	unseen []string
	// named are options that are shown with the wrapper's name, because they change what the command runs under.
	named []string
	// disguise are options that tell the command another name for itself, by which some do other things.
	disguise []string
	// directory are options whose value is where the command runs.
	directory []string
	// guess: what is unseen most likely begins at the first word that is no option, after that many operands.
	guess bool
	// dialect is the language of a shell.
	dialect dialect
	// far is how a program is told what to run elsewhere.
	far *far
}

// shellOptions are those that bash, dash and their relatives have. "c" and "s" are looked at by the reader.
var shellOptions = options{
	flags: "abcefhiklmnprstuvxBCDEHIPTV", separate: "oO", plus: true,
	long: []string{"login", "noprofile", "norc", "noediting", "posix", "restricted", "verbose"},
}

// wrappers is the table of all that is seen through, or known to be opaque, by base name. It is never written to.
var wrappers = map[string]wrapper{
	// Shells.
	"sh":     {kind: runsShell, options: shellOptions, dialect: anyShell},
	"dash":   {kind: runsShell, options: shellOptions, dialect: anyShell},
	"ash":    {kind: runsShell, options: shellOptions, dialect: anyShell},
	"bash":   {kind: runsShell, options: shellOptions, dialect: bashOnly},
	"rbash":  {kind: runsShell, options: shellOptions, dialect: bashOnly},
	"zsh":    {kind: runsShell, options: shellOptions, dialect: otherShell},
	"ksh":    {kind: runsShell, options: shellOptions, dialect: otherShell},
	"mksh":   {kind: runsShell, options: shellOptions, dialect: otherShell},
	"ksh93":  {kind: runsShell, options: shellOptions, dialect: otherShell},
	"yash":   {kind: runsShell, options: shellOptions, dialect: otherShell},
	"fish":   {kind: runsShell, dialect: foreign},
	"csh":    {kind: runsShell, dialect: foreign},
	"tcsh":   {kind: runsShell, dialect: foreign},
	"nu":     {kind: runsShell, dialect: foreign},
	"pwsh":   {kind: runsShell, dialect: foreign},
	"xonsh":  {kind: runsShell, dialect: foreign},
	"elvish": {kind: runsShell, dialect: foreign},

	// Builtins.
	"eval":    {kind: runsLine},
	"trap":    {kind: runsHandler, options: options{flags: "lp"}, itself: []string{"l", "p"}},
	"exec":    {kind: runsOperands, options: options{flags: "cl", values: "a"}, disguise: []string{"a"}},
	"command": {kind: runsOperands, options: options{flags: "pvV"}, itself: []string{"v", "V"}},
	"builtin": {kind: runsOperands},
	// A keyword in bash, a program elsewhere. With -o it writes a file.
	"time": {kind: runsOperands, options: options{flags: "pvaqV", values: "of", long: []string{"portability", "verbose",
		"append", "quiet", "format=", "output=", "help", "version"}}, unseen: []string{"o", "output", "a", "append"}},
	"noglob":    {kind: runsOperands},
	"nocorrect": {kind: runsOperands},

	// Builtins that change what later words mean, or run code by another door.
	"source":   {kind: runsUnseen},
	".":        {kind: runsUnseen},
	"alias":    {kind: runsUnseen},
	"unalias":  {kind: runsUnseen},
	"hash":     {kind: runsUnseen},
	"enable":   {kind: runsUnseen},
	"bind":     {kind: runsUnseen},
	"complete": {kind: runsUnseen},
	"compgen":  {kind: runsUnseen},
	"fc":       {kind: runsUnseen},
	"zmodload": {kind: runsUnseen},

	// Builtins that set variables by name.
	"read":      {kind: assigns},
	"mapfile":   {kind: assigns},
	"readarray": {kind: assigns},
	"getopts":   {kind: assigns},
	"unset":     {kind: assigns},
	"let":       {kind: assigns},
	"export":    {kind: assigns},
	"readonly":  {kind: assigns},
	"declare":   {kind: assigns},
	"typeset":   {kind: assigns},
	"local":     {kind: assigns},
	"printf":    {kind: assigns},
	"wait":      {kind: assigns},
	"test":      {kind: assigns},
	"[":         {kind: assigns},
	"[[":        {kind: assigns},

	// Programs that run their operands.
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
	"doas":       {kind: runsOperands, options: options{flags: "LnPs", values: "aCu"}, unseen: []string{"L", "s", "C", "P"}},
	"timeout":    {kind: runsOperands, operands: 1, options: timeoutOptions},
	"gtimeout":   {kind: runsOperands, operands: 1, options: timeoutOptions},
	"nice":       {kind: runsOperands, options: options{values: "n", numeric: true, long: []string{"adjustment="}}},
	"nohup":      {kind: runsOperands},
	"stdbuf":     {kind: runsOperands, options: options{values: "ioe", long: []string{"input=", "output=", "error="}}},
	"setsid":     {kind: runsOperands, options: options{flags: "cfw", long: []string{"ctty", "fork", "wait"}}},
	"ionice":     {kind: runsOperands, options: options{flags: "t", values: "cn", long: []string{"ignore", "class=", "classdata="}}},
	"taskset":    {kind: runsOperands, operands: 1, options: options{flags: "ac", long: []string{"all-tasks", "cpu-list"}}},
	"caffeinate": {kind: runsOperands, options: options{flags: "dimsu", values: "t"}},
	"chronic":    {kind: runsOperands, options: options{flags: "ev"}},
	"unbuffer":   {kind: runsOperands, options: options{flags: "p"}},
	"busybox":    {kind: runsOperands},
	"toybox":     {kind: runsOperands},
	"xargs": {kind: runsAppended, options: options{flags: "0oprtx", values: "adEIJLnPRsS", attached: "eil", long: []string{
		"null", "no-run-if-empty", "verbose", "interactive", "exit", "open-tty", "arg-file=", "delimiter=", "max-args=",
		"max-procs=", "max-chars=", "max-lines[=", "replace[=", "eof[=", "process-slot-var=", "show-limits"}}},
	"git":  {kind: runsGit},
	"make": {kind: goes}, "gmake": {kind: goes}, "ninja": {kind: goes},
	"find":  {kind: runsAmong},
	"gfind": {kind: runsAmong},

	// Programs that run others elsewhere.
	"ssh":            {kind: runsFar, far: &hosts},
	"slogin":         {kind: runsFar, far: &hosts},
	"autossh":        {kind: runsFar, far: &hosts},
	"rsh":            {kind: runsFar, far: &hosts},
	"mosh":           {kind: runsFar, far: &hosts},
	"dbclient":       {kind: runsFar, far: &hosts},
	"adb":            {kind: runsFar, far: &devices},
	"docker":         {kind: runsFar, far: &containers},
	"podman":         {kind: runsFar, far: &containers},
	"nerdctl":        {kind: runsFar, far: &containers},
	"docker-compose": {kind: runsFar, far: &containers},
	"podman-compose": {kind: runsFar, far: &containers},
	"crictl":         {kind: runsFar, far: &containers},
	"buildah":        {kind: runsFar, far: &containers},
	"apptainer":      {kind: runsFar, far: &containers},
	"singularity":    {kind: runsFar, far: &containers},
	"toolbox":        {kind: runsFar, far: &toolboxes},
	"distrobox":      {kind: runsFar, far: &toolboxes},
	"kubectl":        {kind: runsFar, far: &clusters},
	"oc":             {kind: runsFar, far: &clusters},
	"k3s":            {kind: runsFar, far: &clusters},
	"lxc":            {kind: runsFar, far: &machines},
	"incus":          {kind: runsFar, far: &machines},
	"multipass":      {kind: runsFar, far: &machines},
	"limactl":        {kind: runsFar, far: &machines},
	"machinectl":     {kind: runsFar, far: &machines},

	// Programs that run others in ways that are not modelled.
	"su": {kind: runsUnseen, guess: true}, "runuser": {kind: runsUnseen, guess: true}, "sg": {kind: runsUnseen, guess: true},
	"pkexec": {kind: runsUnseen, guess: true}, "run0": {kind: runsUnseen, guess: true},
	"systemd-run": {kind: runsUnseen, guess: true}, "systemd-inhibit": {kind: runsUnseen, guess: true},
	"chroot": {kind: runsUnseen, guess: true, operands: 1}, "unshare": {kind: runsUnseen, guess: true},
	"nsenter": {kind: runsUnseen, guess: true}, "setpriv": {kind: runsUnseen, guess: true},
	"capsh": {kind: runsUnseen, guess: true}, "bwrap": {kind: runsUnseen, guess: true},
	"sshpass": {kind: runsUnseen, guess: true}, "lxc-attach": {kind: runsUnseen, guess: true},
	"firejail": {kind: runsUnseen, guess: true}, "proot": {kind: runsUnseen, guess: true},
	"fakeroot": {kind: runsUnseen, guess: true}, "strace": {kind: runsUnseen, guess: true},
	"ltrace": {kind: runsUnseen, guess: true}, "gdb": {kind: runsUnseen, guess: true},
	"lldb": {kind: runsUnseen, guess: true}, "rr": {kind: runsUnseen, guess: true, operands: 1},
	"perf": {kind: runsUnseen, guess: true, operands: 1}, "valgrind": {kind: runsUnseen, guess: true},
	"chrt": {kind: runsUnseen, guess: true, operands: 1}, "numactl": {kind: runsUnseen, guess: true},
	"prlimit": {kind: runsUnseen, guess: true}, "flock": {kind: runsUnseen, guess: true, operands: 1},
	"script": {kind: runsUnseen, guess: true}, "watch": {kind: runsUnseen, guess: true},
	"parallel": {kind: runsUnseen, guess: true}, "sem": {kind: runsUnseen, guess: true},
	"entr": {kind: runsUnseen, guess: true}, "rlwrap": {kind: runsUnseen, guess: true},
	"xvfb-run": {kind: runsUnseen, guess: true}, "dbus-run-session": {kind: runsUnseen, guess: true},
	"nsexec": {kind: runsUnseen, guess: true}, "arch": {kind: runsUnseen, guess: true},
	"setarch": {kind: runsUnseen, guess: true, operands: 1}, "linux32": {kind: runsUnseen, guess: true},
	"linux64": {kind: runsUnseen, guess: true}, "hyperfine": {kind: runsUnseen, guess: true},
	"cpulimit": {kind: runsUnseen, guess: true}, "tini": {kind: runsUnseen, guess: true},
	"dumb-init": {kind: runsUnseen, guess: true}, "gosu": {kind: runsUnseen, guess: true, operands: 1},
	"su-exec": {kind: runsUnseen, guess: true, operands: 1}, "setuidgid": {kind: runsUnseen, guess: true, operands: 1},
	"start-stop-daemon": {kind: runsUnseen}, "daemonize": {kind: runsUnseen, guess: true}, "dtach": {kind: runsUnseen},
	"abduco": {kind: runsUnseen}, "zellij": {kind: runsUnseen},
	"ld.so": {kind: runsUnseen, guess: true}, "ld-linux.so.2": {kind: runsUnseen, guess: true},
	"ld-linux-x86-64.so.2": {kind: runsUnseen, guess: true}, "ld-linux-aarch64.so.1": {kind: runsUnseen, guess: true},
	"ld-musl-x86_64.so.1": {kind: runsUnseen, guess: true}, "ld-musl-aarch64.so.1": {kind: runsUnseen, guess: true},
	"newgrp": {kind: runsUnseen}, "sudoedit": {kind: runsUnseen}, "expect": {kind: runsUnseen}, "at": {kind: runsUnseen},
	"batch": {kind: runsUnseen}, "crontab": {kind: runsUnseen}, "tmux": {kind: runsUnseen}, "screen": {kind: runsUnseen},
	"osascript": {kind: runsUnseen},
}

var timeoutOptions = options{flags: "fpv", values: "ks", long: []string{"foreground", "preserve-status", "verbose",
	"kill-after=", "signal="}}
