package intent

import (
	"path"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// relinked clears the resolved names of commands that run after a command which may replace their files or links: in
// "git checkout x && cat f", cat reads the f of x. Their words are then known only at run time. Commands that run the
// project's own code are not changed, because such code can access any file.
func (p *paths) relinked(c *permissionv1.Command) {
	subs := c.GetSubCommands()
	relinks := func(sub *permissionv1.SubCommand) bool { return shell.Relinks(sub.GetArgv()) }
	first := slices.IndexFunc(subs, relinks)
	if first < 0 {
		return
	}
	if len(c.GetArgv()) > 0 || !shell.InOrder(c.GetText()) || slices.ContainsFunc(subs, repeated) {
		first = -1
	}
	others := 0
	for _, sub := range subs {
		if relinks(sub) {
			others++
		}
	}
	for i, sub := range subs {
		if i <= first || others == 1 && relinks(sub) {
			continue
		}
		for _, r := range sub.GetRedirections() {
			if r.GetPath() != "/dev/null" {
				r.Dynamic, r.Path, r.ResolvedPath = true, "", ""
			}
		}
		if !shell.RunsProject(sub.GetArgv()) && p.namesFiles(c, sub) {
			unknownNames(sub)
		}
	}
}

// repeated reports whether a command is inside another one that may run it more than once, or in a separate shell.
func repeated(sub *permissionv1.SubCommand) bool {
	return slices.ContainsFunc(sub.GetWrappers(), func(w string) bool {
		name, _, _ := strings.Cut(w, " ")
		return !slices.Contains([]string{"time", "timeout", "nice", "nohup", "env", "stdbuf", "command", "git"}, path.Base(name))
	})
}

// namesFiles reports whether a command may use a file by name: a file of its facts, or one that a word may name. The
// session's folders are not counted, because they cannot be replaced.
func (p *paths) namesFiles(c *permissionv1.Command, sub *permissionv1.SubCommand) bool {
	argv := sub.GetArgv()
	root := func(dir string) bool {
		return dir == c.GetCwd() || slices.Contains(p.session.Roots, dir) || slices.Contains(p.session.ResolvedRoots, dir)
	}
	switch {
	case len(argv) == 0:
		return false
	case sub.GetCwdUnknown() || sub.GetCwd() != "" && !root(p.directoryOf(c, sub)):
		return true
	case sub.GetFacts().GetKnown() && path.Base(argv[0]) != "git":
		return slices.ContainsFunc(sub.GetFacts().GetFiles(), func(f *permissionv1.FileUse) bool { return !root(f.GetPath()) })
	case path.Base(argv[0]) == "git": // git does not follow links in the paths of tracked files
		return slices.ContainsFunc(argv, namesFileToGit)
	}
	return slices.ContainsFunc(argv[1:], func(word string) bool { return !strings.HasPrefix(word, "-") || strings.Contains(word, "=") })
}

// namesFileToGit reports whether a word may be an option with which git reads a file: -F, -t, --file, --template,
// --pathspec-from-file, also combined with other short options, or abbreviated.
func namesFileToGit(word string) bool {
	if long, ok := strings.CutPrefix(word, "--"); ok {
		return strings.HasPrefix(long, "f") || strings.HasPrefix(long, "te") || strings.HasPrefix(long, "pathspec-f")
	}
	return strings.HasPrefix(word, "-") && strings.ContainsAny(word, "Ft")
}

// unknownNames marks all words of a command except the program's name as known only at run time, and its folder if the
// line changes it.
func unknownNames(sub *permissionv1.SubCommand) {
	sub.Dynamic, sub.DynamicWords, sub.TextWords, sub.PipedWords = true, nil, nil, nil
	for i := range sub.GetArgv()[1:] {
		sub.DynamicWords = append(sub.DynamicWords, uint32(i+1)) // #nosec G115 -- a line has far fewer words
	}
	if sub.GetCwd() != "" {
		sub.Cwd, sub.CwdUnknown = "", true
	}
	sub.Facts = &permissionv1.Facts{Unknown: "another command of the line may put other files in the place of those that it names"}
}
