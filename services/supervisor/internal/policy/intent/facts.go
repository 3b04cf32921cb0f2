package intent

import (
	"cmp"
	"iter"
	"path"

	"github.com/acphost/acphost/internal/facts"
	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/secretfile"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// maxUsed bounds the files of a command that are resolved in addition to those that its words name. If there are
// more, the facts of the command are unknown.
const maxUsed = 2048

// facts adds to each part of a line the facts about what it does.
func (p *paths) facts(c *permissionv1.Command) {
	var disk *facts.Disk
	looked := 0
	if p.session.Place != nil && c.GetUnparsed() == "" { // facts never allow an unparsed command
		names := func(dir string, above bool) ([]string, bool) {
			if !p.session.Local {
				return nil, false
			}
			return namesIn(dir, above)
		}
		oneGo := func(dir string) bool { return p.session.Local && oneGo(dir, installedGo()) }
		modules := func(dir string) bool { return p.session.Local && modulesAtHand(dir, modulesOfGo()) }
		disk = &facts.Disk{OneGo: oneGo, GoModules: modules, Names: names, Look: func(file string) facts.Place {
			at, seen := p.known[file]
			if !seen {
				if looked++; looked > maxUsed || len(file) > maxWord {
					return facts.Place{}
				}
				at = p.look(file)
				p.known[file] = at
				if at.Protected {
					p.protect(file, at)
				}
			}
			if p.session.Seen.OfProcess(file) {
				return facts.Place{} // the path resolves differently for the command than for this process
			}
			to := facts.Place{Resolved: at.Resolved, Inside: at.Inside, NoFolder: at.NoFolder}
			if at.Content != nil {
				to.Content = func(reads bool) secretfile.Verdict { return at.Content(reads && p.asksContent()) }
			}
			return to
		}}
	}
	files := 0
	for _, sub := range c.GetSubCommands() {
		dir := p.directoryOf(c, sub)
		if c.GetCwdDoubtful() {
			dir = ""
		}
		f := facts.Of(sub, dir, disk)
		if files += len(f.GetFiles()); files > maxPaths {
			f = &permissionv1.Facts{Unknown: "the line uses more files than are looked at"}
		}
		sub.Facts = f
	}
	p.gitInternal(c)
	p.relinked(c)
}

// gitInternal marks the facts of commands as unknown if the line writes files inside a git repository's metadata, or
// would create such metadata ("mkdir objects refs" beside a file HEAD), because git executes configuration from
// there.
func (p *paths) gitInternal(c *permissionv1.Command) {
	var written []string
	for file := range writtenBy(c) {
		written = append(written, cmp.Or(file.GetResolvedPath(), file.GetPath()))
	}
	together := len(written) > 1 && git.Completes(written...)
	for file, f := range writtenBy(c) {
		if f.GetKnown() && (together || p.known[file.GetPath()].GitInternal) {
			f.Known, f.Unknown = false, "it writes what is git's own: "+text(path.Base(file.GetPath()))
		}
	}
}

// writtenBy returns the files that the commands of a line write, with the facts that contain them.
func writtenBy(c *permissionv1.Command) iter.Seq2[*permissionv1.FileUse, *permissionv1.Facts] {
	return func(yield func(*permissionv1.FileUse, *permissionv1.Facts) bool) {
		for _, sub := range c.GetSubCommands() {
			for _, file := range sub.GetFacts().GetFiles() {
				if file.GetAccess() == permissionv1.Access_ACCESS_WRITE && !yield(file, sub.GetFacts()) {
					return
				}
			}
		}
	}
}
