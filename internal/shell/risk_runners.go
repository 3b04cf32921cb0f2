package shell

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/wordset"
)

// Programs that run a project's code have options and variables that make them run something else: "make SHELL=./x",
// "npm test --script-shell=./x". For programs with few such options, the table of dangers lists them. The other
// programs are here: each of their options that is not known to be harmless is a danger.

// riskyRunner returns the arguments of a program that change what it runs; nil if none is known.
func riskyRunner(name string, args []string) []string {
	name = strings.TrimSuffix(name, ".exe")
	switch {
	case assigning[name]:
		return riskyVariables(name, args)
	case name == "npm":
		words := operands(args)
		if len(words) == 0 || !npmInstalls[words[0]] {
			args = exactly(args, "-g", "--global")
		}
		return unknownOptions(name, args, npmOptions)
	case name == "pnpm" || name == "yarn" || name == "yarnpkg" || name == "bun":
		return riskyScriptRunner(name, args)
	case name == "mvn" || name == "mvnw" || name == "gradle" || name == "gradlew" || name == "cmake" || name == "dotnet":
		return riskyProperties(name, args)
	case name == "node" || name == "nodejs":
		return beforeOperand(name, args, danger{"-r --require --import --loader --experimental-loader --env-file --test-reporter", loads})
	case name == "deno":
		return beforeOperand(name, after(args, 1), danger{"-A --allow-all --allow-run --allow-ffi --allow-read --allow-write --allow-net --allow-env " +
			"--allow-sys --allow-import -c --config --import-map --preload --import --require", loads})
	}
	if inner := innerCommand(name, args); inner != nil {
		return Risks(inner)
	}
	return nil
}

// after returns the words after the first n.
func after(words []string, n int) []string { return words[min(n, len(words)):] }

// innerCommand returns the command that a program runs, if its purpose is to run another program of the project; nil
// otherwise.
func innerCommand(name string, args []string) []string {
	plain := unversioned(name)
	switch {
	case (plain == "python" || plain == "pypy") && len(args) > 1 && args[0] == "-m":
		return args[1:]
	case (plain == "uv" || plain == "poetry" || plain == "pdm" || plain == "pipenv" || plain == "hatch") && len(args) > 1 && args[0] == "run",
		plain == "bundle" && len(args) > 1 && args[0] == "exec":
		return args[1:]
	case plain == "npx" && len(args) > 0 && !strings.HasPrefix(args[0], "-"):
		return args
	}
	return nil
}

// assigning are the programs that read NAME=VALUE as a variable, which the lines that they run can use.
var assigning = wordset.Of("make gmake bmake remake just task rake")

// harmlessValue matches values that name no program and no file: a number, a boolean, and options of compilers that
// load nothing.
var harmlessValue = lazyregexp.New(`^([0-9]+(\.[0-9]+)*|y|n|yes|no|on|off|true|false|YES|NO|ON|OFF|TRUE|FALSE)?$|` +
	`^ *((-O[0-3sgz]?|-g[0-3]?|-W[a-z][a-z-]*(=[0-9]+)?|-D[A-Za-z_][A-Za-z0-9_]*(=[A-Za-z0-9_]*)?|-std=[a-z0-9+]+|-pedantic|-pthread|-race|-v) *)+$`)

// assignment matches the assignment of a variable with any operator of make.
var assignment = lazyregexp.New(`^([^=:+?!-][^=:+?!]*?)[ ]*(:{0,3}|[+?!])=(?s:(.*))$`)

func riskyVariables(name string, args []string) (all []string) {
	for _, arg := range args {
		parts := assignment.FindStringSubmatch(arg)
		if parts == nil || harmlessValue.MatchString(parts[3]) && parts[2] != "!" && !runsValue[strings.ToUpper(parts[1])] {
			continue
		}
		all = append(all, fmt.Sprintf("%s %s= changes what it runs", name, parts[1]))
	}
	return all
}

// runsValue are variables whose value make always runs, or reads options from.
var runsValue = wordset.Of("SHELL .SHELLFLAGS MAKE MAKEFLAGS MFLAGS GNUMAKEFLAGS MAKEFILES")

// npmOptions are options of npm that do not change which script runs, nor its shell and program. Options that end in
// "=" have a value, which may be the next word.
var npmOptions = wordset.Of(`-s --silent -q --quiet -d -dd -ddd --verbose --if-present --ignore-scripts --no-audit --audit --no-fund --fund
	--offline --prefer-offline --prefer-online --no-color --color --no-progress --progress -ws --workspaces --include-workspace-root
	--foreground-scripts --json --long -l --parseable -p --dry-run --production -D --save-dev -P --save-prod -E --save-exact -S --save
	--prod --dev --dry --package-lock-only -O --save-optional --no-save --no-package-lock --legacy-peer-deps --strict-peer-deps --no-optional --no-update-notifier
	--update-notifier -y --yes --all -a --version -v --help -h --workspace= -w= --loglevel= --depth= --omit= --include=`)

// npmInstalls are the commands of npm that change folders outside of the project with the option --global.
var npmInstalls = wordset.Of("install i in ins add ci update up upgrade uninstall un remove rm r unlink link ln rebuild prune dedupe")

// unknownOptions returns the options of a program, up to "--", that are not known.
func unknownOptions(name string, args []string, known map[string]bool) (all []string) {
	for _, arg := range args {
		option, _, attached := strings.Cut(arg, "=")
		switch {
		case arg == "--":
			return all
		case len(arg) < 2 || arg[0] != '-' || known[option+"="] || known[option] && !attached:
		default:
			all = append(all, fmt.Sprintf("%s %s may change what it runs", name, option))
		}
	}
	return all
}

// scriptRunnerOptions change which script runs, or how, at any position.
var scriptRunnerOptions = danger{"-C --dir --prefix --cwd --script-shell --node-options --config --shell --shell-emulator --userconfig --globalconfig " +
	"--use-yarnrc --preload --require --import --env-file --define --loader --modules-folder --global-dir", loads}

// riskyScriptRunner is for programs that pass the words after the name of a script to the script.
func riskyScriptRunner(name string, args []string) []string {
	own := args
	if i := slices.Index(args, "--"); i >= 0 {
		own = args[:i]
	}
	var all []string
	for _, option := range scriptRunnerOptions.find(own, isOption) {
		all = append(all, fmt.Sprintf("%s %s %s", name, option, scriptRunnerOptions.does))
	}
	for _, arg := range own {
		if option, _, _ := strings.Cut(arg, "="); strings.HasPrefix(option, "--config.") {
			all = append(all, fmt.Sprintf("%s %s may change what it runs", name, option))
		}
	}
	return all
}

// properties are the settings of build programs that do not change what they run; others may. All of them are harmless
// with a boolean or a number.
var properties = wordset.Of(`skipTests test maven.test.skip surefire.failIfNoSpecifiedTests failIfNoTests style.color CMAKE_BUILD_TYPE
	CMAKE_EXPORT_COMPILE_COMMANDS BUILD_TESTING BUILD_SHARED_LIBS Configuration`)

// propertyPrefixes begin the settings of a build program; wholeOptions are its other options that change what it runs.
var (
	propertyPrefixes = map[string][]string{
		"mvn": {"-D", "--define="}, "gradle": {"-D", "-P", "--system-prop=", "--project-prop="}, "cmake": {"-D"},
		"dotnet": {"-p:", "--property:", "-property:", "/p:", "/property:"},
	}
	wholeOptions = map[string]map[string]bool{
		"mvn": wordset.Of("-f --file -s --settings -gs --global-settings -t --toolchains -P --activate-profiles -l --log-file -D --define"),
		"gradle": wordset.Of(`-b --build-file -c --settings-file -I --init-script -p --project-dir -g --gradle-user-home --include-build
			--project-cache-dir -D -P --system-prop --project-prop`),
		"dotnet": wordset.Of(`-s --settings -a --test-adapter-path -e --environment -o --output --results-directory -r --artifacts-path --diag
			-d --logger -l`),
		"cmake": wordset.Of("-D -P -E -C"),
	}
)

func riskyProperties(name string, args []string) (all []string) {
	of := strings.TrimSuffix(name, "w")
	for _, arg := range args {
		option, _, _ := strings.Cut(arg, "=")
		if wholeOptions[of][option] {
			all = append(all, fmt.Sprintf("%s %s may change what it runs", name, option))
			continue
		}
		for _, prefix := range propertyPrefixes[of] {
			setting, is := strings.CutPrefix(arg, prefix)
			if !is {
				continue
			}
			key, value, _ := strings.Cut(setting, "=")
			key, _, _ = strings.Cut(key, ":") // the type for cmake
			if !harmlessValue.MatchString(value) && !properties[key] {
				all = append(all, fmt.Sprintf("%s %s%s may change what it runs", name, prefix, key))
			}
			break
		}
		if strings.HasPrefix(arg, "@") && of == "dotnet" {
			all = append(all, name+" reads options from a file")
		}
	}
	return all
}

// beforeOperand finds dangers among the options before the first operand: later options belong to the script.
func beforeOperand(name string, args []string, d danger) (all []string) {
	end := slices.IndexFunc(args, func(arg string) bool { return arg == "--" || !strings.HasPrefix(arg, "-") })
	if end < 0 {
		end = len(args)
	}
	for _, option := range d.find(args[:end], isOption) {
		all = append(all, fmt.Sprintf("%s %s %s", name, option, d.does))
	}
	return all
}
