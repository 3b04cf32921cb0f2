package shell

import (
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Doubt returns the reason why a simple command may not run the programs that its names suggest: the executable of a
// bare name, of the command or a wrapper, lies in the workspace; git uses a repository that is not that of a root, or
// one whose settings run programs; or this is unknown. Empty if there is no such reason. Programs named by a path are
// not checked.
func Doubt(sub *permissionv1.SubCommand) string { return doubt(sub, false) }

// DoubtBeside is Doubt for a rule that accepts programs of the workspace: it ignores the locations of programs.
func DoubtBeside(sub *permissionv1.SubCommand) string { return doubt(sub, true) }

func doubt(sub *permissionv1.SubCommand, workspace bool) string {
	if why := strange(sub, workspace); why != "" || len(sub.GetArgv()) == 0 {
		return why
	}
	for name, p := range programs(sub) {
		if why := unknownProgram(name, p, workspace); why != "" {
			return why
		}
	}
	if !isGit(sub.GetArgv()[0]) {
		return ""
	}
	if sub.GetRepository() == nil {
		return "which repository git works on is not known"
	}
	return comparesFolders(sub)
}

// programs returns the programs of a simple command with their names as written: its wrappers and its own program.
func programs(sub *permissionv1.SubCommand) iter.Seq2[string, *acpv1.Program] {
	return func(yield func(string, *acpv1.Program) bool) {
		for i, w := range sub.GetWrappers() {
			var p *acpv1.Program
			if i < len(sub.GetWrapperPrograms()) {
				p = sub.GetWrapperPrograms()[i]
			}
			name, _, _ := strings.Cut(w, " ")
			if !yield(name, p) {
				return
			}
		}
		if len(sub.GetArgv()) > 0 {
			yield(sub.GetArgv()[0], sub.GetProgram())
		}
	}
}

// comparesFolders returns a reason if git diff ignores the repository: outside of a repository, or with a path outside
// of it, it compares any files on the disk, including files that git does not track.
func comparesFolders(sub *permissionv1.SubCommand) string {
	const why = "git diff compares what lies in no repository, or not in the one that it runs in, so that it reads what git does not keep"
	if GitCommand(sub.GetArgv()) != "diff" {
		return ""
	}
	dir := sub.GetRepository().GetGitDir()
	if dir == "" {
		return why
	}
	top := path.Dir(dir)
	for i, arg := range sub.GetArgv() {
		if !path.IsAbs(arg) && !slices.Contains(strings.Split(arg, "/"), "..") {
			continue
		}
		if !path.IsAbs(arg) {
			arg = path.Join(sub.GetCwd(), arg) // without a known folder, it runs at the top or may leave it
		}
		inside := below(top, path.Clean(arg))
		for _, led := range sub.GetResolvedWords() {
			inside = inside || int(led.GetWord()) == i && below(top, led.GetResolvedPath())
		}
		if !inside {
			return why
		}
	}
	return ""
}

func below(dir, file string) bool {
	return file == dir || strings.HasPrefix(file, strings.TrimSuffix(dir, "/")+"/")
}

// Strange is Doubt limited to detected facts: reasons why a command runs, or may run, something else than it seems to.
// Missing facts are not a reason.
func Strange(sub *permissionv1.SubCommand) string { return strange(sub, false) }

func strange(sub *permissionv1.SubCommand, workspace bool) string {
	if len(sub.GetArgv()) == 0 {
		return ""
	}
	for name, p := range programs(sub) {
		if !workspace && p.GetInsideRoots() && !strings.Contains(name, "/") {
			return fmt.Sprintf("%s is %s, a program of the workspace", name, p.GetPath())
		}
	}
	for name, p := range programs(sub) {
		if why := unknownProgram(name, p, workspace); p.GetPath() != "" && why != "" {
			return why
		}
	}
	r := sub.GetRepository()
	switch {
	case !isGit(sub.GetArgv()[0]):
		return ""
	case r.GetDoubt() != "":
		return "it is not certain what git does: " + r.GetDoubt()
	case r.GetGitDir() == "":
		return ""
	case !r.GetAtRoot():
		return fmt.Sprintf("git works on %s, which is not the folder .git of a root of the session", r.GetGitDir())
	case len(r.GetSuspects()) > 0:
		return fmt.Sprintf("%s may have git run a program, look elsewhere or show a password: %s", r.GetGitDir(), strings.Join(r.GetSuspects(), ", "))
	}
	return ""
}

func unknownProgram(name string, p *acpv1.Program, workspace bool) string {
	switch {
	case strings.Contains(name, "/"), workspace && p.GetDoubtInsideRoots():
	case p.GetDoubt() != "":
		return fmt.Sprintf("it is not certain what %s runs: %s", name, p.GetDoubt())
	case !p.GetBuiltin() && !p.GetMissing() && p.GetPath() == "":
		return fmt.Sprintf("which program %s is, is not known", name)
	}
	return ""
}

func isGit(program string) bool { return strings.EqualFold(baseName(program), "git") }

// ConfiguresGit reports whether a command changes git's settings: "git config core.fsmonitor x".
func ConfiguresGit(argv []string) bool {
	return len(argv) > 1 && isGit(argv[0]) && GitCommand(argv) == "config" && Risky(argv) != ""
}
