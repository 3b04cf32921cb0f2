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

// Doubt says in words why a simple command is not what its names say where it runs: the program that a bare name means, its
// own or a wrapper's, lies in the workspace; git works on a repository that is not the one of a root, or on one that makes
// it run programs; or none of that is known. Empty: there is no such reason. A program that is named by its path is what it
// is called.
func Doubt(sub *permissionv1.SubCommand) string { return doubt(sub, false) }

// DoubtBeside is Doubt for a rule that takes programs of the workspace for what they are called: all but what such a
// program is, or runs.
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

// programs are the programs of a simple command, by the names that it has for them: its wrappers', and its own.
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

// comparesFolders says that git diff goes by no repository: outside of one, and for two paths of which one lies outside, it
// compares files and folders as they are on the disk, what git does not keep among them.
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
			arg = path.Join(sub.GetCwd(), arg) // with no folder of its own, it runs at the top or is not known to stay below it
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

// Strange is Doubt for what was seen by whoever looked: what makes a command another one than it reads, or may. What nobody
// looked at, or did not find, is not strange.
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

// ConfiguresGit reports whether a command changes what git is told by its settings: "git config core.fsmonitor x".
func ConfiguresGit(argv []string) bool {
	return len(argv) > 1 && isGit(argv[0]) && GitCommand(argv) == "config" && Risky(argv) != ""
}
