package gate

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/reason"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
	"github.com/acphost/acphost/services/supervisor/internal/policy/leaveout"
)

// leaveOut ensures that a command or a search of the agent does not read files that the policy wants left out, if the policy returned Allow
// or Ask: no such files exist, or its programs get options that leave them out. Otherwise a person is asked, the action is denied if no one
// answers, and no remembered answer is used.
func (g *Gate) leaveOut(r Request, d *Decision, globs []string) {
	narrow := d.narrow && d.Verdict == Allow
	if d.Verdict == Deny || len(globs) == 0 && !narrow {
		return
	}
	d.kept = globs
	finder := leaveout.New(globs)
	finder.Elsewhere = r.Elsewhere
	var walking [][]string
	var commands []gitCommand
	tells := r.Argv != nil && !slices.ContainsFunc(r.Action.GetCommand().GetEnv(), leaveout.ChangesMeaning)
	tellable := tells
	for _, sub := range r.Action.GetCommand().GetSubCommands() {
		walks := false
		for _, f := range sub.GetFacts().GetFiles() {
			at := cmp.Or(f.GetResolvedPath(), f.GetPath())
			switch {
			case !f.GetRecursive() || f.GetMetadataOnly():
			case f.GetTracked() && len(sub.GetArgv()) > 0:
				commands = append(commands, gitCommand{sub, at})
			default:
				finder.Below(at)
				walks = true
			}
		}
		if walks && len(sub.GetArgv()) > 0 {
			walking = append(walking, sub.GetArgv())
			// After a "--" that the line contains as a variable or a pattern, an added option would not be an option.
			tellable = tellable && (sub.GetWritten() == "" || !slices.Contains(sub.GetArgv(), "--"))
		}
	}
	for _, p := range r.Action.GetPaths() {
		if p.GetRecursive() && r.Action.GetDoor() != permissionv1.Door_DOOR_KERNEL {
			finder.Below(cmp.Or(p.GetResolvedPath(), p.GetPath()))
		}
	}
	found := finder.Found()
	look := gitLook{tells: tells, changing: changesRepository(r.Action.GetCommand().GetSubCommands()), elsewhere: r.Elsewhere}
	if narrow {
		look.roots = slices.Concat(r.Action.GetResolvedRoots(), r.Action.GetRoots())
	}
	kept, why, detail := g.keptByGit(commands, globs, look)
	found.Git = kept.rewrites
	shown := found
	shown.Names, shown.Incomplete = slices.Concat(found.Names, kept.names), found.Incomplete || kept.incomplete
	switch {
	case why == "" && !found.Any():
	case why == "" && tellable && d.tell(walking, found):
		d.Reason = joined(d.Reason, reason.LeftOut.With(listed(shown)))
	default:
		if why == "" {
			why, detail = reason.ForbiddenRead.With(listed(shown)), "the command walks through a folder, and has no option to leave these files out"
		}
		d.kept, d.readsKept = nil, true // the user decides with this information
		if d.Verdict == Ask {
			d.Grantable, d.Unattended = false, Deny
			d.Reason, d.Detail = joined(d.Reason, why), joined(d.Detail, detail, "denied without an answer")
			return
		}
		d.Verdict, d.Rule, d.By, d.Grantable, d.Reason, d.Detail = Ask, RuleLeaveOut, ByPolicy, false, why, detail
	}
}

// joined joins the texts that are not empty, without the full stop of the first.
func joined(texts ...string) string {
	texts[0] = strings.TrimSuffix(texts[0], ".")
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), "; ")
}

// tell sets the command with options that leave out the found files; false: there are no such options.
func (d *Decision) tell(walking [][]string, found leaveout.Found) (ok bool) {
	d.argv, ok = leaveout.Tell(d.request.Argv, walking, found)
	return ok
}

// Rewritten returns the programs of an allowed command that start with other arguments than the agent gave, because
// acphost has them leave out files: the program that is executed, and the commands in the line of a shell. Nil: acphost
// changed no arguments.
func (d *Decision) Rewritten() []leaveout.Rewrite {
	if d.argv == nil {
		return nil
	}
	all := []leaveout.Rewrite{{Argv: d.request.Argv, Told: d.argv}}
	was, _ := shell.FromArgv(d.request.Argv)
	now, _ := shell.FromArgv(d.argv)
	if len(was) != len(now) {
		return all
	}
	for i := range was {
		if argv, told := was[i].GetArgv(), now[i].GetArgv(); !slices.Equal(argv, told) {
			all = append(all, leaveout.Rewrite{Argv: argv, Told: told})
		}
	}
	return all
}

// LeaveOutNow repeats the search for files that a command must not read, after the user has answered the question, because files may have
// appeared meanwhile. It sets Argv again. It returns false if the command would still read such files.
func (g *Gate) LeaveOutNow(d *Decision) bool {
	now := &Decision{Verdict: Allow, request: d.request}
	g.leaveOut(d.request, now, d.kept)
	d.argv = now.argv
	return now.Verdict == Allow
}

// leaveOutAnswered asks the policy again about a command that the user allowed when the agent requested it. If the policy now denies the
// command, the gate does too. Otherwise the command leaves out the files that the policy forbids. If its program has no option for that, a
// person is asked, unless the earlier question mentioned these files.
func (g *Gate) leaveOutAnswered(ctx context.Context, r Request, d *Decision) error {
	if d.Verdict != Allow || len(g.opts.Chain) == 0 || !walksFolders(r.Action.GetCommand()) {
		return nil
	}
	said, err := g.ask(ctx, r.Action)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && d.active:
		d.Verdict, d.By, d.Reason = Deny, ByAcphost, noDecisionReason(err)
	case err == nil && said.Verdict == Deny:
		d.Verdict, d.Rule, d.By, d.Grantable, d.Reason = Deny, said.Rule, ByPolicy, false, said.Reason
		d.Detail = said.Detail
		d.person, d.placed, d.digest, d.plugin = false, ruleAt{said.Rule, said.Place}, said.PolicyDigest, said.plugin
	case err == nil:
		left := &Decision{Verdict: Allow, Reason: d.Reason, request: r}
		if g.leaveOut(r, left, said.GetLeaveOut()); left.Verdict == Allow {
			d.Reason, d.argv = left.Reason, left.argv
		} else if !d.readsKept {
			d.Verdict, d.Rule, d.By, d.Grantable, d.Reason = left.Verdict, left.Rule, left.By, false, left.Reason
			d.Detail = left.Detail
			d.person, d.readsKept = false, true
		}
	}
	return nil
}

// noDecisionReason returns the reason of a denial because no policy could decide.
func noDecisionReason(err error) string {
	return reason.PolicyFailed.With(err)
}

// walksFolders reports whether a command reads the files below a folder.
func walksFolders(c *permissionv1.Command) bool {
	return slices.ContainsFunc(c.GetSubCommands(), func(sub *permissionv1.SubCommand) bool {
		return slices.ContainsFunc(sub.GetFacts().GetFiles(), func(f *permissionv1.FileUse) bool { return f.GetRecursive() && !f.GetMetadataOnly() })
	})
}

// gitCommand is a git command that shows contents of files, with the folder that it runs in; or another command, with the path of git
// objects that it reads.
type gitCommand struct {
	sub *permissionv1.SubCommand
	dir string
}

// keptFiles are the forbidden files in repositories that commands would show.
type keptFiles struct {
	names      []string
	incomplete bool
	rewrites   []leaveout.Rewrite // of all commands; nil: nothing has to be left out
}

// gitLook configures the check of a line's git commands.
type gitLook struct {
	tells     bool // the commands can be changed to leave files out
	changing  bool // the line may change the contents of the repositories
	elsewhere bool // the commands run where repositories may not be visible to the supervisor
	// roots are the folders of which alone the commands may show files; nil: they may show all that their repositories keep.
	roots []string
}

// larger returns the part of a repository in which a command may show files, as a path from the top of the repository. It returns false if
// the repository lies in the roots. dir is the folder in which the command runs.
func (l *gitLook) larger(gitDir, dir string) (part string, larger bool) {
	top := filepath.Dir(gitDir)
	if l.roots == nil || slices.ContainsFunc(l.roots, func(root string) bool { return paths.Below(root, top) }) {
		return "", false
	}
	for _, root := range l.roots {
		if paths.Below(top, root) && paths.Below(root, dir) {
			dir = root
		}
	}
	part, err := filepath.Rel(top, dir)
	return part, err != nil || part != "."
}

// keptByGit checks which forbidden files of their repositories git commands show. why is the reason to ask a person; empty: none.
func (g *Gate) keptByGit(commands []gitCommand, globs []string, look gitLook) (kept keptFiles, why, detail string) {
	for _, c := range commands {
		argv := c.sub.GetArgv()
		if path.Base(argv[0]) != "git" {
			before, _, _ := strings.Cut(c.dir+"/", "/.git/")
			if k := g.repositories.Kept(before+"/.git", globs, true, false); len(k.Names) > 0 {
				return kept, reason.ForbiddenRead.With(listed(leaveout.Found{Names: k.Names})), shell.Quote(argv) + " reads the objects of git"
			}
			continue
		}
		shows := git.ContentsOf(argv)
		dir := c.sub.GetRepository().GetGitDir()
		if c.sub.GetRepository() == nil {
			dir = git.Find(c.dir).Dir
		}
		if dir == "" {
			if !look.elsewhere || c.sub.GetRepository() != nil {
				continue // git fails
			}
			dir = filepath.Join(c.dir, ".git")
		}
		if _, err := os.Stat(dir); err != nil && look.elsewhere {
			return kept, reason.ForbiddenShown.String(), shell.Quote(argv) + " shows a repository that cannot be read from here"
		}
		if why, detail := g.objects(shows, dir, c.dir, globs); why != "" {
			return kept, why, shell.Quote(argv) + " " + detail
		}
		if _, larger := look.larger(dir, c.dir); larger && !git.CanNarrow(argv) {
			return kept, reason.CommandOutside.String(), shell.Quote(argv) + " " + showsMore
		}
		now := argv
		if shows.Index || shows.History {
			if now, why, detail = g.withoutKept(c, dir, globs, look, &kept); why != "" {
				return kept, why, shell.Quote(argv) + " " + detail
			}
		}
		kept.rewrites = append(kept.rewrites, leaveout.Rewrite{Argv: argv, Told: now})
	}
	if !slices.ContainsFunc(kept.rewrites, func(r leaveout.Rewrite) bool { return len(r.Told) > len(r.Argv) }) {
		kept.rewrites = nil
	}
	for i, n := range slices.Backward(kept.names) {
		if slices.Contains(kept.names[:i], n) {
			kept.names = slices.Delete(kept.names, i, i+1)
		}
	}
	return kept, "", ""
}

const showsMore = "shows a repository that is larger than the session's folders, and git has no option to limit it to these"

// withoutKept returns a git command that shows contents of its repository, told to leave out what it must not show, and adds that to kept.
// why is the reason to ask a person, if it cannot be told; else empty.
func (g *Gate) withoutKept(c gitCommand, gitDir string, globs []string, look gitLook, kept *keptFiles) (told []string, why, detail string) {
	told = c.sub.GetArgv()
	shows := git.ContentsOf(told)
	exists := func(word string) bool { _, err := os.Lstat(filepath.Join(c.dir, word)); return err == nil }
	if part, larger := look.larger(gitDir, c.dir); larger {
		now, ok := git.Narrow(told, part, exists)
		if !ok || !look.tells {
			return nil, reason.CommandOutside.String(), showsMore
		}
		told, kept.names = now, append(kept.names, "files outside of the session's folders")
	}
	k := g.repositories.Kept(gitDir, globs, shows.History, look.changing)
	if len(k.Specs) == 0 || !look.tells && len(k.Names) == 0 && !look.changing {
		return told, "", "" // files deep in a long history, which a quick search does not find, are left out if that causes no question
	}
	now, ok := git.Pathspecs(told, k.Specs, exists)
	if shows.Untold || k.Odd || !ok || !look.tells {
		names := listed(leaveout.Found{Names: k.Names, Incomplete: k.Incomplete})
		return nil, reason.ForbiddenRead.With(names), "shows contents of the repository, and has no option to leave these files out"
	}
	kept.names, kept.incomplete = append(kept.names, k.Names...), kept.incomplete || k.Incomplete
	return now, "", ""
}

// changesRepository reports whether a line may change a repository before it shows its contents: "git add -f .; git diff --cached".
func changesRepository(subs []*permissionv1.SubCommand) bool {
	return slices.ContainsFunc(subs, func(sub *permissionv1.SubCommand) bool {
		argv, f := sub.GetArgv(), sub.GetFacts()
		return len(argv) > 0 && path.Base(argv[0]) == "git" && (!f.GetKnown() || f.GetChanges())
	})
}

// objects returns the reason why a git command shows forbidden files that it names other than by a path; empty: it does not. gitDir is the
// repository's git folder, dir the folder that git runs in.
func (g *Gate) objects(shows git.Contents, gitDir, dir string, globs []string) (why, detail string) {
	const unnamed = "shows objects by their ids, and the files to which these belong are not known"
	if shows.Nameless {
		return reason.ForbiddenShown.String(), unnamed
	}
	for _, file := range shows.Named {
		if leaveout.Matches(globs, filepath.Join(filepath.Dir(gitDir), file)) || leaveout.Matches(globs, filepath.Join(dir, file)) {
			return reason.ForbiddenRead.With(intent.Excerpt(file)), "names this file"
		}
	}
	for _, id := range shows.Objects {
		_, common := git.Folders(gitDir)
		types, err := git.NewHistory(common).Types(id)
		if err != nil || slices.ContainsFunc(types, func(t string) bool { return t == "blob" || t == "tree" && !shows.TreesAreNames }) {
			return reason.ForbiddenShown.String(), unnamed
		}
	}
	return "", ""
}

// listed names the found files, shortened.
func listed(found leaveout.Found) string {
	const most = 3
	var names []string
	for _, n := range found.Names[:min(most, len(found.Names))] {
		names = append(names, intent.Excerpt(n))
	}
	text := strings.Join(names, ", ")
	switch more := len(found.Names) - most; {
	case len(names) == 0:
		return "more files than acphost counts"
	case more > 0 && !found.Incomplete:
		return fmt.Sprintf("%s and %d more", text, more)
	case found.Incomplete:
		return text + " and perhaps others"
	}
	return text
}
