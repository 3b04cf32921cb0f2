package shell

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/wordset"
)

// Risky returns the first of Risks, the reason why a command may run, load or write something that its name does not
// suggest: "sort -o writes a file" for ["sort", "-o", "x"]. Empty if no danger is known.
func Risky(argv []string) (why string) {
	if risks := Risks(argv); len(risks) > 0 {
		return risks[0]
	}
	return ""
}

// Risks returns all reasons why a command may run, load or write something that its name does not suggest; nil if no
// danger is known.
//
// It is a list of known dangers, not a proof: an empty result does not mean that an unlisted program is harmless. It
// reads words literally, so the caller must exclude dynamic words first.
//
// The dangers of options come before those of the program as a whole, and the same danger always has the same text. An
// option that is given twice is listed twice, so that a rule that names a danger can be distinguished from one that
// only matches the command: see Names.
func Risks(argv []string) []string {
	if len(argv) == 0 || argv[0] == "" {
		return nil
	}
	name := strings.ToLower(baseName(argv[0]))
	if name == "gfind" {
		name = "find"
	}
	args := argv[1:]
	var all []string
	for _, danger := range dangers[name] {
		is := isOption
		switch {
		case wordy[name]:
			is = isWord
		case unabbreviated[name]:
			is = isWhole
		}
		for _, option := range danger.find(args, is) {
			all = append(all, fmt.Sprintf("%s %s %s", name, option, danger.does))
		}
	}
	if name == "git" {
		all = append(all, riskyGit(args)...)
	}
	all = append(all, riskyRunner(name, args)...)
	if check := checks[name]; check != nil {
		if why := check(args); why != "" {
			all = append(all, why)
		}
	}
	if why := riskyProgram(name); why != "" {
		all = append(all, why)
	}
	return all
}

// Names reports whether a rule whose words have the dangers named covers all dangers of a command: each as often as the
// command has it, so that one option does not cover a second one of the same kind.
func Names(named, risks []string) bool {
	left := slices.Clone(named)
	for _, risk := range risks {
		i := slices.Index(left, risk)
		if i < 0 {
			return false
		}
		left = slices.Delete(left, i, i+1)
	}
	return true
}

func riskyProgram(name string) string {
	plain := unversioned(name)
	w, wraps := wrappers[name]
	switch {
	case Interpreter(name):
		return name + " runs code that it is given"
	case packageManagers[plain]:
		return name + " installs or runs code from elsewhere"
	case networkClients[plain]:
		return name + " talks to other machines"
	case projectRunners[plain]:
		return name + " runs what the project's files say"
	case writers[name]:
		return name + " changes files or the system"
	case wraps && w.kind == runsUnseen:
		return name + " runs or changes what cannot be seen"
	case wraps && w.kind != assigns && w.kind != runsAmong && w.kind != runsSplit && w.kind != runsGit && w.kind != changesFolder:
		return name + " runs another command"
	}
	return ""
}

// writers are programs whose purpose is to change files, processes or settings.
var writers = wordset.Of(`
	tee cp mv rm rmdir ln install dd mkdir touch truncate shred mktemp chmod chown chgrp chattr setfacl unlink patch sponge
	mkfifo mknod link split csplit unzip zip gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lz4 7z 7za unrar cpio ar ranlib
	strip objcopy ld as cc gcc g++ c++ clang clang++ rustc javac ghc tic mount umount kill pkill killall reboot shutdown
	halt poweroff systemctl service launchctl initctl useradd usermod userdel groupadd passwd chpasswd chsh visudo
	iptables nft ufw modprobe insmod rmmod losetup mkfs fdisk parted swapon swapoff logger wall write xdg-open open
	defaults black isort autopep8 autoflake rustfmt goimports gofumpt dos2unix unix2dos rename mmv sqlcmd gpg gpg2 pass
	ssh-keygen ssh-add ssh-agent tmutil diskutil pbcopy xclip xsel wl-copy loginctl timedatectl hostnamectl history
	disown set shopt ulimit umask logout suspend`)

// danger is a set of options with one consequence.
type danger struct {
	// options are "-x", which is also found in clusters; "--long", which is also found abbreviated and with a value;
	// or, with several letters after one dash, whole words. They are separated by spaces.
	options string
	does    string
}

const (
	runs   = "runs a program"
	writes = "writes a file"
	loads  = "loads code or settings from a file"
	lists  = "reads the names of further files from a file"
	leaves = "follows links out of the folders that it is given"
)

// in returns the first option of d in args; empty if none exists. It may have false positives (an option's value), but
// no false negatives.
func (d danger) in(args []string) string {
	if found := d.find(args, isOption); len(found) > 0 {
		return found[0]
	}
	return ""
}

// find returns the options of d in args, each as often as it occurs.
func (d danger) find(args []string, is func(arg, option string) bool) (found []string) {
	for _, arg := range args {
		if arg == "" || arg[0] != '-' && arg[0] != '+' {
			continue
		}
		for option := range strings.FieldsSeq(d.options) {
			if is(arg, option) {
				found = append(found, option)
			}
		}
	}
	return found
}

func isOption(arg, option string) bool {
	if len(arg) < 2 || arg[0] != '-' && arg[0] != '+' {
		return false
	}
	name, _, _ := strings.Cut(arg, "=")
	switch {
	case strings.HasPrefix(option, "--"):
		return len(name) > 2 && strings.HasPrefix(name, "--") && strings.HasPrefix(option, name)
	case len(option) == 2:
		return arg[0] == option[0] && arg[1] != '-' && strings.IndexByte(arg, option[1]) > 0
	}
	return name == option
}

// wordy are the programs whose options are whole words after one dash or two, never clusters: programs that use Go's
// package flag, and ip. Their dangers are listed with one dash, and with each accepted length.
var wordy = wordset.Of("go gofmt ip")

// isWord is isOption for the programs in wordy. It also finds the options of a test binary with the prefix "test.".
func isWord(arg, option string) bool {
	name, isOption := strings.CutPrefix(arg, "-")
	name, _, _ = strings.Cut(strings.TrimPrefix(name, "-"), "=")
	return isOption && "-"+strings.TrimPrefix(name, "test.") == option
}

// unabbreviated are the programs that accept long options only by their whole names: "jest --coverage" is not
// --coverageDirectory.
var unabbreviated = wordset.Of("jest vitest mocha pytest cargo tsc")

// isWhole is isOption for the programs in unabbreviated. Some of them accept "--global-setup" for --globalSetup.
func isWhole(arg, option string) bool {
	if !strings.HasPrefix(option, "--") {
		return isOption(arg, option)
	}
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "")) }
	name, _, _ := strings.Cut(arg, "=")
	return strings.HasPrefix(name, "--") && plain(name) == plain(option)
}

// dangers are the dangerous options of otherwise harmless programs, by name. It is read-only.
var dangers = byName(map[string][]danger{
	"find": {{"-delete", "removes files"}, {"-exec -execdir -ok -okdir", runs}, {"-fprint -fprint0 -fprintf -fls", writes},
		{"-L -follow", leaves}, {"-files0-from", lists}},
	"fd fdfind":              {{"-x -X --exec --exec-batch", runs}, {"-L --follow", leaves}},
	"grep egrep fgrep zgrep": {{"-R --dereference-recursive", leaves}},
	"du":                     {{"-L --dereference", leaves}, {"--files0-from", lists}}, "wc": {{"--files0-from", lists}},
	"sort": {{"-o --output", writes}, {"--compress-program", runs}, {"--files0-from", lists}},
	"shuf": {{"-o --output", writes}},
	"sed":  {{"-i --in-place", writes}, {"-f --file", loads}},
	"rg":   {{"--pre --hostname-bin", runs}, {"-L --follow", leaves}},
	"ag":   {{"--pager", runs}, {"-f --follow", leaves}}, "ack": {{"--pager --ackrc", runs}, {"--follow", leaves}},
	"bat batcat delta": {{"--pager", runs}},
	"diff":             {{"-l --paginate", runs}},
	"sdiff":            {{"-o --output --diff-program", writes}}, "diff3": {{"--diff-program", runs}},
	"tree": {{"-o", writes}, {"-R", writes}, {"-l", leaves}}, "iconv": {{"-o --output", writes}},
	"date": {{"-s --set", "sets the clock"}},
	"file": {{"-C --compile", writes}, {"-z -Z --uncompress --uncompress-noreport", runs}, {"-f --files-from", lists},
		{"-m -M --magic-file", loads}},
	"yq": {{"-i --inplace -s --split-exp", writes}}, "base64": {{"-o --output", writes}},
	"sysctl":   {{"-w --write -p --load --system", "changes the system's settings"}},
	"hostname": {{"-F --file -b --boot", "changes the system's settings"}},
	"ip":       {{"-b -ba -bat -batc -batch", runs}},
	"tar": {{"--to-command --checkpoint-action -I --use-compress-program -F --info-script --new-volume-script " +
		"--rsh-command --rmt-command", runs}},
	"zip": {{"-TT --unzip-command", runs}}, "rsync": {{"-e --rsh --rsync-path", runs}},
	"less":  {{"-o -O --log-file --LOG-FILE", writes}, {"-k --lesskey-file --lesskey-src --lesskey-content", loads}},
	"man":   {{"-P --pager -H --html -X --gxditview -T --troff-device", runs}, {"-C --config-file", loads}},
	"gofmt": {{"-w -cpuprofile", writes}}, "shfmt": {{"-w --write", writes}},
	"eslint": {{"--fix --fix-dry-run -o --output-file --cache --init", writes},
		{"-c --config --rulesdir --plugin --parser -f --format --resolve-plugins-relative-to", loads}},
	"prettier": {{"-w --write", writes}, {"--plugin --config --plugin-search-dir", loads}},
	"ruff":     {{"--fix --add-noqa -o --output-file", writes}, {"--config", loads}}, "stylelint": {{"--fix -o --output-file", writes}},
	"clang-format": {{"-i", writes}}, "clang-tidy": {{"--fix -fix --export-fixes -load --load", writes}},
	"mypy": {{"--install-types --python-executable", runs}, {"--config-file --custom-typeshed-dir", loads}, {"--html-report --xml-report --junit-xml --txt-report", writes}},
	"curl": {{"-o -O --output --remote-name --remote-name-all --output-dir -c --cookie-jar -D --dump-header --trace " +
		"--trace-ascii --stderr --etag-save --hsts --alt-svc --libcurl", writes}, {"-K --config --engine", loads},
		{"-T --upload-file -d --data --data-binary --data-raw --data-urlencode -F --form --json -X --request", "sends data"}},
	"wget": {{"--use-askpass", runs}, {"-e --execute --config -i --input-file", loads},
		{"--post-data --post-file --body-data --body-file --method", "sends data"}},
	"go": {{"-toolexec -exec -vettool -fixtool", runs},
		{"-o -w -u -fix -cpuprofile -memprofile -blockprofile -mutexprofile -coverprofile -trace -outputdir -artifacts -pkgdir " +
			"-debug-actiongraph -debug-trace -debug-runtime-trace -gocoverdir -testlogfile -fuzzcachedir", writes},
		{"-overlay -modfile -ldflags -gcflags -asmflags -gccgoflags -compiler -C", loads}},
	"cargo": {{"--config -Z --manifest-path -C --target --lockfile-path", loads}, {"--target-dir --artifact-dir --out-dir", writes}},
	"pytest": {{"-p -c --config-file --rootdir --confcutdir -o --override-ini", loads},
		{"--basetemp --junitxml --junit-xml --log-file --report-log --result-log --html --pastebin", writes}},
	"make gmake bmake remake": {{"--eval -E -f --file --makefile -C --directory -I --include-dir -e --environment-overrides", loads}},
	"ninja samu":              {{"-f -C", loads}},
	"rake":                    {{"-f --rakefile -r --require -I --libdir -R --rakelibdir", loads}, {"-e -E -p --execute --execute-print --execute-continue", runs}},
	"just":                    {{"-f --justfile -d --working-directory --dotenv-path --dotenv-filename", loads}, {"--shell --shell-arg --set -c --command --chooser", runs}},
	"task":                    {{"-t --taskfile -d --dir -g --global --init", loads}},
	"tox":                     {{"-c --conf --workdir --root -x --override --installpkg", loads}},
	"nox":                     {{"-f --noxfile --envdir", loads}},
	"invoke":                  {{"-c --collection -r --search-root -f --config", loads}},
	"cmake":                   {{"--toolchain", loads}, {"--install", writes}},
	"ctest": {{"-S --script -D --dashboard --build-and-test --test-command --build-makeprogram --build-options", runs},
		{"--overwrite -O --output-log --output-junit", writes}, {"--test-dir", loads}},
	"jest": {{"-c --config --globalSetup --globalTeardown --runner --testRunner --testEnvironment --setupFiles --setupFilesAfterEnv " +
		"--transform --rootDir --roots --projects --resolver --preset --filter --snapshotSerializers --testResultsProcessor " +
		"--testSequencer --moduleNameMapper --modulePaths --moduleDirectories --watchPlugins --prettierPath --dependencyExtractor", loads},
		{"--outputFile --coverageDirectory --cacheDirectory", writes}},
	"vitest": {{"-c --config -r --root --dir --globalSetup --environment --pool --runner --setupFiles --workspace --execArgv", loads},
		{"--outputFile", writes}},
	"mocha":   {{"-r --require --config --package --opts -u --ui --file --loader --import --experimental-loader --node-option", loads}},
	"rspec":   {{"-r --require -I -O --options", loads}, {"-o --out", writes}},
	"phpunit": {{"-c --configuration --bootstrap --printer --extension --loader --include-path -d", loads}},
	"tsc":     {{"--outDir --outFile --declarationDir --tsBuildInfoFile --generateTrace --generateCpuProfile --init", writes}},
	"ssh":     {{"-o -F", runs}}, "scp": {{"-o -F -S", runs}}, "sftp": {{"-o -F -S -b", runs}},
	"ps": nil, "xxd": {{"-r -revert", writes}}, "fzf": {{"--bind --preview --listen", runs}},
	"journalctl": {{"--rotate --flush --sync --vacuum-size --vacuum-time --vacuum-files --update-catalog --setup-keys", writes}},
	"dmesg":      {{"-C -c --clear --read-clear -D -E -n --console-off --console-on --console-level", "changes the system's settings"}},
	"gh":         {{"--editor -e", runs}},
	"jq":         {{"-L --library-path -f --from-file", "reads a program from a file"}},
	"ss":         {{"-K --kill", "closes connections"}},
})

// checks examine more than options, by name. A check returns "" if it finds no danger.
var checks = map[string]func(args []string) string{
	"sed":    riskySed,
	"tar":    riskyTar,
	"bsdtar": riskyTar,
	"diff":   riskyDiff,
	"go": func(args []string) string {
		for i, arg := range args {
			name, value, attached := strings.Cut(arg, "=")
			if !attached && i+1 < len(args) {
				value = args[i+1]
			}
			if (name == "-mod" || name == "--mod") && value == "mod" {
				return "go -mod=mod " + writes
			}
		}
		return ""
	},
	"ls": func(args []string) string {
		if (danger{"-R --recursive", leaves}).in(args) != "" && (danger{"-L --dereference", leaves}).in(args) != "" {
			return "ls -RL " + leaves
		}
		return ""
	},
	"uniq":     func(args []string) string { return atMost("uniq", args, 1) },
	"xxd":      func(args []string) string { return atMost("xxd", args, 1) },
	"hostname": func(args []string) string { return atMost("hostname", args, 0) },
	"less":     riskyPager("less"),
	"more":     riskyPager("more"),
	"man":      func([]string) string { return "man opens a pager, which can run programs" },
	"date": someOperand("date sets the clock when it is given one", func(operand string) bool {
		return !strings.HasPrefix(operand, "+") && strings.Trim(operand, "0123456789.") == ""
	}),
	"sysctl": someOperand("sysctl NAME=VALUE changes the system's settings", func(operand string) bool {
		return strings.Contains(operand, "=")
	}),
	"ip": someOperand("ip changes the network, or runs a program in another", func(operand string) bool {
		verbs := []string{"add", "append", "change", "replace", "delete", "set", "flush", "exec", "save", "restore", "attach",
			"detach"}
		return slices.ContainsFunc(verbs, func(verb string) bool { return strings.HasPrefix(verb, operand) })
	}),
	"env": func(args []string) string {
		if len(args) > 0 {
			return "env runs another command"
		}
		return ""
	},
	"yq": func(args []string) string {
		all := strings.Join(args, " ")
		if strings.Contains(all, "load") || strings.Contains(all, "env") || strings.Contains(all, "system") {
			return "yq reads files, variables or programs that its expression names"
		}
		return ""
	},
}

// someOperand returns a check that finds the danger why if does returns true for an operand.
func someOperand(why string, does func(operand string) bool) func(args []string) string {
	return func(args []string) string {
		if slices.ContainsFunc(operands(args), does) {
			return why
		}
		return ""
	}
}

// operands returns the words that are not options. An option's value counts as an operand.
func operands(args []string) []string {
	var of []string
	for i, arg := range args {
		if arg == "--" {
			return append(of, args[i+1:]...)
		}
		if arg == "-" || !strings.HasPrefix(arg, "-") {
			of = append(of, arg)
		}
	}
	return of
}

// atMost finds operands after the first n, which name written files.
func atMost(name string, args []string, n int) string {
	if len(operands(args)) <= n {
		return ""
	}
	return fmt.Sprintf("%s writes what its operand %d names", name, n+1)
}

func riskyPager(name string) func(args []string) string {
	return func(args []string) string {
		for _, arg := range args {
			if strings.HasPrefix(arg, "+") {
				return name + " runs the commands after a plus"
			}
		}
		return name + " is a pager, which can run programs"
	}
}

// riskyDiff finds folders: diff follows links in them, unless an option prevents it.
func riskyDiff(args []string) string {
	if !slices.Contains(args, "--no-dereference") && (danger{"-r --recursive", leaves}).in(args) != "" {
		return "diff -r " + leaves
	}
	return ""
}

// tarLists are the long options of tar that may accompany --list.
var tarLists = wordset.Of("--file --verbose --gzip --bzip2 --xz --zstd")

// riskyTar accepts only a listing as harmless.
func riskyTar(args []string) string {
	mode := ""
	for i, arg := range args {
		switch {
		case strings.HasPrefix(arg, "--"):
			switch name, _, _ := strings.Cut(arg, "="); {
			case name == "--list":
				mode += "t"
			case !tarLists[name]:
				return "tar has options other than those for listing"
			}
		case strings.HasPrefix(arg, "-") || i == 0:
			mode += arg
		}
	}
	if !strings.Contains(mode, "t") || strings.Trim(mode, "-tfvzjJ") != "" {
		return "tar changes files, unless it only lists"
	}
	return ""
}
