package adversary

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/wire"
)

// behindWalls are the flags of the ready policy under which every command runs, because the sandbox decides what processes write, read and
// reach.
var behindWalls = configured("permission: {policy: workspace}\nsandbox: {mode: enforce, reads: true, network: proxy, require: true}\n")

// openWalls starts an attacker whose commands run without a question, and begins a turn. Nobody allows what is asked.
func openWalls(t *testing.T, p *wire.Place) *fixture {
	t.Helper()
	needsSandbox(t)
	s := openFixtureAt(t, p, behindWalls)
	s.noPerson()
	s.prompt()
	return s
}

// sh runs a script in a terminal, which must be allowed, and returns its output.
func (s *fixture) sh(script string) string {
	s.t.Helper()
	s.File(s.t, "script", script)
	out, allowed := s.runs("sh ./script 2>&1", s.Work) // the gate does not see what the script does
	if !allowed {
		s.t.Fatalf("the command is not run: %s", script)
	}
	s.t.Logf("%s\n-> %s", script, out)
	return out
}

// looks has a person look at a repository with git, which must run nothing of the agent's.
func (s *fixture) looks(dir, what string) {
	s.t.Helper()
	for _, args := range [][]string{{"status"}, {"checkout", "-q", "-f", "HEAD"}, {"diff"}} {
		cmd := personsGit(s.Place, dir, args...)
		out, err := cmd.CombinedOutput()
		s.t.Logf("git %q: %v: %s", args, err, out)
	}
	sprung(s.t, s.Place, what)
}

// evil is a script that makes a repository that runs a trap in a folder.
func evil(p *wire.Place, dir string) string {
	return fmt.Sprintf(`git init -q %[1]s && cd %[1]s && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x
printf '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "%[2]s"\n' >.git/config
printf '#!/bin/sh\n%[2]s\n' >.git/hooks/post-checkout; chmod +x .git/hooks/post-checkout
ls -l .git/hooks/post-checkout; cd "$OLDPWD"
`, dir, trap(p))
}

// TestContainment_RepositoryInOwnFolders: the agent may write any file in its own folders, but a person's git must not
// find a repository there.
func TestContainment_RepositoryInOwnFolders(t *testing.T) {
	t.Parallel()
	for name, lead := range map[string]string{
		"moved":      `mv "$dir" sub`,
		"git file":   `mkdir sub; echo "gitdir: $dir/.git" >sub/.git`,
		"git link":   `mkdir sub; ln -s "$dir/.git" sub/.git`,
		"common dir": `git init -q sub; echo "$dir/.git" >sub/.git/commondir`,
		"hard links": `git init -q sub; ln "$dir/.git/hooks/post-checkout" sub/.git/hooks/; ln -f "$dir/.git/config" sub/.git/config`,
		"worktree":   `git init -q sub; (cd "$dir" && git worktree add -q "$OLDPWD/sub/w"); mv sub/w w; rm -r sub; mv w sub`,
	} {
		for _, own := range []string{"$TMPDIR", "${GOCACHE%/*}"} {
			t.Run(name+"/"+own, func(t *testing.T) {
				t.Parallel()
				s := openWalls(t, wire.NewPlace(t))
				s.sh("dir=" + own + "/evil\n" + evil(s.Place, `"$dir"`) + lead)
				s.looks(s.Path("sub"), name)
				s.finish()
			})
		}
	}
}

// TestContainment_OwnFolderReplacedByLink: the next start finds the agent's own folders by their names.
func TestContainment_OwnFolderReplacedByLink(t *testing.T) {
	t.Parallel()
	p := wire.NewPlace(t)
	s := openWalls(t, p)
	own := filepath.Join(p.Home, ".cache", "acphost-agents", "attacker")
	for _, h := range []*hand{s.hand, s.command()} {
		h.try("rename", own, own+".away")
		h.try("symlink", p.Home, own+"/link")
		h.try("exchange", own, own+"/link")
		h.try("remove", own+"/link")
		h.try("remove", own)
		h.refused("symlink", p.Home, own)
	}
	s.finish()
	s = openWalls(t, p)
	p.File(t, ".env", secret(1))
	for _, h := range []*hand{s.hand, s.command()} {
		h.refused("read", p.Path(".env"))
		h.refused("write", filepath.Join(p.Home, ".bashrc"), "x")
		h.refused("write", filepath.Join(p.Home, "outside"), "x")
	}
	for _, name := range []string{".bashrc", "outside"} {
		notWritten(t, filepath.Join(p.Home, name))
	}
	s.finish()
}

// TestContainment_LinksInRepository: git follows symbolic links when it appends to its logs and writes its files.
func TestContainment_LinksInRepository(t *testing.T) {
	t.Parallel()
	p := wire.NewPlace(t)
	dir := repository(t, p, "repo")
	s := openWalls(t, p)
	s.sh(`cd repo && git branch 'a;evil' && rm -f .git/logs/HEAD .git/FETCH_HEAD .git/COMMIT_EDITMSG .git/packed-refs
for f in logs/HEAD FETCH_HEAD COMMIT_EDITMSG packed-refs; do ln -s ~/target-${f##*/} .git/$f; ln -s ~/target-${f##*/} l && mv l .git/$f; rm -f l; done
mv .git/logs/refs old; mkdir x; ln -s ~ x/heads; mv x .git/logs/refs`)
	for _, args := range [][]string{{"checkout", "-q", "a;evil"}, {"fetch", "-q", "."}, {"commit", "-q", "--allow-empty", "-m", "x"}, {"pack-refs", "--all"}, {"branch", "target-branch"}} {
		out, err := personsGit(p, dir, args...).CombinedOutput()
		t.Logf("git %q: %v: %s", args, err, out)
	}
	left, err := filepath.Glob(filepath.Join(p.Home, "target*"))
	if err != nil || len(left) > 0 {
		t.Errorf("ATTACK SUCCEEDED: git wrote %v (%v)", left, err)
	}
	s.finish()
}

// TestContainment_LinkedFoldersOfFilesThatRunLater replaces a folder of such files by a symbolic link.
func TestContainment_LinkedFoldersOfFilesThatRunLater(t *testing.T) {
	t.Parallel()
	for _, name := range []string{".vscode/tasks.json", ".cargo/config.toml", ".github/workflows/x.yml", ".husky/pre-commit", ".yarn/releases/yarn.cjs"} {
		for how, script := range map[string]string{
			"link":        `mkdir -p d/$sub; ln -s d $top; echo x >d/$rest`,
			"full link":   `mkdir -p d/$sub; echo x >d/$rest; ln -s d $top`,
			"moved link":  `mkdir -p d/$sub; echo x >d/$rest; ln -s d l; mv l $top`,
			"moved":       `mkdir -p d/$sub; echo x >d/$rest; mv d $top`,
			"outer":       `mkdir -p o/$top/$sub; echo x >o/$name`,
			"file link":   `mkdir -p $top/$sub; echo x >y; ln -s $PWD/y $name`,
			"unpacked":    `mkdir -p node_modules/x/$top/$sub; echo x >node_modules/x/$name; mv node_modules/x/$top .`,
			"hard link":   `mkdir -p $top/$sub; echo x >y; ln y $name`,
			"other case":  `mkdir -p $top/$sub; echo x >$top/$(echo $rest | tr a-z A-Z)`,
			"bind mount":  `mkdir -p $top d/$sub; unshare -rm sh -c "mount --bind d $top; echo x >$name"`,
			"linked back": `mkdir -p $top/$sub; ln -s $top/$sub l; echo x >l/${rest##*/}`,
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				s := openWalls(t, wire.NewPlace(t))
				top, rest, _ := strings.Cut(name, "/")
				sub := filepath.Dir(rest)
				s.sh(fmt.Sprintf("name=%s top=%s rest=%s sub=%s\n", name, top, rest, sub) + script)
				for _, file := range []string{name, "o/" + name} {
					if text, err := os.ReadFile(s.Path(file)); err == nil && len(text) > 0 {
						t.Errorf("ATTACK SUCCEEDED: %s is %q", file, text)
					}
				}
				s.finish()
			})
		}
	}
}

// TestContainment_ChangesLinksByTheirOwnPlace: a link that leads outside is removed and renamed without a question, and
// gives no access to the files there.
func TestContainment_ChangesLinksByTheirOwnPlace(t *testing.T) {
	t.Parallel()
	p := wire.NewPlace(t)
	outside := filepath.Join(p.Home, "outside")
	if err := os.Mkdir(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(outside, "kept")
	if err := os.WriteFile(kept, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := openWalls(t, p)
	out := s.sh(`mkdir -p venv/bin files
ln -s ~/outside/kept venv/bin/file; ln -s ~/outside venv/lib; ln -s ~/missing venv/missing; ln -s /usr/bin/env venv/env
ln -s ~/outside files/l; ln -s ~/outside next
mv venv/env files/env && mv venv/lib files/lib && mv -T next files/lib && rm files/env files/lib && rm -r venv &&
mv files moved && echo FREE
rm moved/l/kept; mv moved/l/kept .; mv moved/l/kept moved/l/other; echo x >moved/l/new; echo x >moved/l/kept
touch -h moved/l; mv moved/l/ taken; ln moved/l/kept mine; echo x >mine`)
	if !strings.Contains(out, "FREE") {
		t.Errorf("a link of the workspace cannot be removed or renamed:\n%s", out)
	}
	if text, err := os.ReadFile(kept); err != nil || string(text) != "kept" {
		t.Errorf("ATTACK SUCCEEDED: the file outside is %q (%v)", text, err)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 1 {
		t.Errorf("ATTACK SUCCEEDED: the folder outside has %v (%v), want one file", left, err)
	}
	s.finish()
}

// TestContainment_SocketsThatControlTheMachine: the program behind a socket acts outside of the sandbox.
func TestContainment_SocketsThatControlTheMachine(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	p := wire.NewPlace(t)
	docker, other := listens(t, filepath.Join(p.Home, ".colima"), "docker.sock"), listens(t, p.Home, "other.sock")
	inside := listens(t, p.Work, "docker.sock")
	link := p.Path("link")
	if err := os.Symlink(docker, link); err != nil {
		t.Fatal(err)
	}
	s := openFixtureAt(t, p, behindWalls)
	s.prompt()
	for _, h := range []*hand{s.hand, s.command()} {
		h.refused("sockets", docker)
		h.refused("sockets", link)
		h.worked("sockets", other, inside)
	}
	for range 2 { // one question for the stream, and one for datagrams
		s.answers(s.Expect("session/request_permission"), "allow_once")
	}
	s.hand.worked("sockets", docker)
	s.hand.worked("sockets", docker) // the answers count for the turn
	s.recorded(`"rule":"machine-sockets"`)
	s.finish()
}

// listens serves two unix sockets in a folder: NAME for streams, NAME.datagrams for datagrams. It returns the path of
// the first.
func listens(t *testing.T, dir, name string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	streams, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	datagrams, err := net.ListenPacket("unixgram", path+".datagrams")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = streams.Close(), datagrams.Close() })
	return path
}

// TestContainment_SpellingsOfSecrets reads files with secrets by other paths. The shell itself reads them, so that no
// command line names the file.
func TestContainment_SpellingsOfSecrets(t *testing.T) {
	t.Parallel()
	p := wire.NewPlace(t)
	files := []string{".env", "sub/.env.local", "conf/.aws/credentials", "keys/.ssh/id", "server.key"}
	for _, file := range files {
		p.File(t, file, "A="+secret(2)+"\n")
	}
	s := openWalls(t, p)
	for _, script := range []string{
		`show .env`, `show ./sub/../.env`, `show /proc/self/root$PWD/.env`, `show /proc/self/cwd/.env`, `show /proc/$$/cwd/.env`, `show /dev/fd/../cwd/.env`,
		`ln -s .env a; show a`, `ln -s $PWD b; show b/.env`, `ln .env c; show c`, `mv .env d; show d`, `mv sub e; show e/.env.local`,
		`mv conf/.aws conf/aws; show conf/aws/credentials`, `mv conf f; show f/aws/credentials; show f/.aws/credentials`, `mv keys/.ssh g; show g/id`,
		`mv server.key h; show h`, `cp server.key h.txt; show h.txt`, `mv .env .env.example; show .env.example`, `ln .env .env.example; show .env.example`,
		`ln -s .env .env.example; show .env.example`, `cp -r . "$TMPDIR/all"; show "$TMPDIR"/all/.env`, `mv .env "$TMPDIR/i"; show "$TMPDIR/i"`,
		`mv keys "${GOCACHE%/*}/k"; show "${GOCACHE%/*}"/k/.ssh/id`, `tar cf - . | tar xOf -`, `dd if=.env`, `exec 9<>.env; cat <&9`,
		`git init -q; git add -f .env && git show :.env; git hash-object -w --stdin-paths <names`, `. ./.env; echo $A`, `sh .env; sh -x .env`,
		`mkdir n; mv n/ keys/; mv keys/n .; ln -s ../.env n/x; show n/x`, `show .ENV`,
		`for i in $(seq 40); do show .env; show script; done 2>/dev/null | grep -v for | head -1`,
		`ln -s script flip; (for i in $(seq 40); do ln -sfn .env flip; ln -sfn script flip; done) & for i in $(seq 40); do show flip; done 2>/dev/null | grep A= ; wait`,
		`(for i in $(seq 40); do mv sub sub2; mv sub2 sub; done) 2>/dev/null & for i in $(seq 40); do show sub2/.env.local; done 2>/dev/null; wait`,
		`mv .env names; git stash -u; show names`, `mkdir -p o/.ssh; mv -T keys/.ssh o/x; show o/x/id`,
	} {
		out := s.sh("show() { while IFS= read -r line; do echo \"$line\"; done <\"$1\"; }\n" + script)
		if strings.Contains(out, secret(2)) {
			t.Errorf("ATTACK SUCCEEDED: %s", script)
		}
	}
	for _, h := range []*hand{s.hand, s.command()} {
		for _, file := range files {
			h.refused("read", p.Path(file))
			h.refused("link", p.Path(file), p.Path("linked"))
			h.refused("rename", p.Path(file), p.Path("renamed"))
			h.refused("exchange", p.Path(file), p.Path("script"))
		}
	}
	for _, file := range files {
		if text, err := os.ReadFile(p.Path(file)); err != nil || !strings.Contains(string(text), secret(2)) {
			t.Errorf("ATTACK SUCCEEDED: %s is %q (%v)", file, text, err)
		}
	}
	s.finish()
}

// TestContainment_ReadsOfOtherSessions: an answer that lets processes read all other files does not cover secrets in
// any session, neither before a session is open nor after a session with another folder was opened.
func TestContainment_ReadsOfOtherSessions(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	p := wire.NewPlace(t)
	p.File(t, ".env", secret(3))
	p.File(t, "other/.env", secret(3))
	s := openFixtureAt(t, p, behindWalls)
	s.noPerson()
	for _, root := range []string{"", p.Path("other")} {
		if root != "" {
			s.enter(root)
		}
		for _, h := range []*hand{s.hand, s.command()} {
			if got := h.try("read", "/etc/hostname"); got[0].Err != "" {
				t.Errorf("a harmless file: %s", got[0])
			}
			h.refused("read", p.Path(".env"))
			h.refused("read", p.Path("other/.env"))
			h.refused("read", filepath.Join(p.Home, "config", "config.yaml"))
		}
	}
	s.finish()
}

// TestContainment_WritesOutside: a write outside of the workspace and of the agent's own folders is asked about,
// whichever program writes.
func TestContainment_WritesOutside(t *testing.T) {
	t.Parallel()
	p := wire.NewPlace(t)
	dir := repository(t, p, "repo")
	s := openWalls(t, p)
	home := p.Home
	s.sh(`cd repo; git log -p >~/out; git diff --output=$HOME/out1; tee ~/out2 </dev/null; ln -s .. up; echo x >up/../../out3; cp a.txt ~/out4
mkdir ~/out5; mv a.txt ~/out6; ln a.txt ~/out7; git worktree add ~/out8; git config --global core.pager x; git init ~/out9
PAGER='sh -c "echo >$HOME/out10"' git -p log; GIT_EDITOR='sh -c "echo >$HOME/out11"' git commit --amend; echo x >~/.cache/out12`)
	for i := range 13 {
		name := fmt.Sprintf("out%d", i)
		if i == 0 {
			name = "out"
		}
		notWritten(t, filepath.Join(home, name))
	}
	for _, name := range []string{".cache/out12", ".gitconfig"} {
		notWritten(t, filepath.Join(home, name))
	}
	if _, err := os.Stat(filepath.Join(dir, "a.txt")); err != nil {
		t.Errorf("a refused move lost the file: %v", err)
	}
	s.finish()
}

// TestContainment_UnknownAgentHasOwnFolders: an agent without an entry has folders for its caches and its state, and no
// others of the user's.
func TestContainment_UnknownAgentHasOwnFolders(t *testing.T) {
	t.Parallel()
	p := wire.NewPlace(t)
	s := openWalls(t, p)
	for _, name := range []string{"XDG_CACHE_HOME", "XDG_STATE_HOME"} {
		folder := s.hand.worked("variable", name)[0].Got
		if below := filepath.Join(p.Home, ".cache", "acphost-agents", "attacker"); filepath.Dir(folder) != below {
			t.Errorf("%s is %s, want a folder in %s", name, folder, below)
		}
		s.hand.worked("mkdir", folder)
		s.hand.worked("write", filepath.Join(folder, "x"), "x")
	}
	s.hand.refused("write", filepath.Join(p.Home, ".cache", "x"), "x")
	s.finish()
}

// TestContainment_MissingSecrets: programs look for many files that do not exist. The user is not notified of these, and a
// file that is made afterwards is decided about.
func TestContainment_MissingSecrets(t *testing.T) {
	t.Parallel()
	p := wire.NewPlace(t)
	s := openWalls(t, p)
	env := p.Path(".env")
	for _, h := range []*hand{s.hand, s.command()} {
		for _, a := range h.refused("read", env) {
			if a.Err != "ENOENT" {
				t.Errorf("got %s, want ENOENT", a)
			}
		}
	}
	p.File(t, ".env", secret(1))
	for _, h := range []*hand{s.hand, s.command()} {
		for _, a := range h.refused("read", env) {
			if a.Err != "EACCES" {
				t.Errorf("got %s, want EACCES", a)
			}
		}
	}
	s.finish()
}

// TestContainment_RebaseInProgress: a person continues a rebase that the agent has begun.
func TestContainment_RebaseInProgress(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"appended":        `echo "exec $trap" >>$list`,
		"written":         `echo "exec $trap" >$list`,
		"by a rename":     `echo "x $trap" >l; cp l .git/rebase-merge/l.lock; mv .git/rebase-merge/l.lock $list; mv l $list`,
		"in place":        `sed -i "\$a exec $trap" $list`,
		"by git":          `GIT_SEQUENCE_EDITOR="sh -c 'echo exec $trap >>\$1; sed -i 1iexec\ $trap \$1' x" git rebase --edit-todo`,
		"a held file":     `echo noop >$list.lock; exec 3>>$list.lock; mv $list.lock $list; echo "exec $trap" >&3`,
		"a hard link":     `ln $list l; echo "exec $trap" >>l`,
		"a symbolic link": `echo "exec $trap" >l; rm $list; ln -s $PWD/l $list`,
		"a moved folder":  `cp -r .git/rebase-merge r; echo "exec $trap" >r/git-rebase-todo; mv .git/rebase-merge old; mv r .git/rebase-merge`,
		"its commands":    `git rebase --abort; git rebase -x "$trap" topic; echo y >f; git add f`,
		"another blank":   `printf 'exec\v%%s\nexec \r%%s\n' "$trap" "$trap" >$list.lock; mv $list.lock $list`,
		"a strategy":      `mkdir git-merge-x; printf '#!/bin/sh\n%s\n' "$trap" >git-merge-x/y; chmod +x git-merge-x/y; printf x/y >.git/rebase-merge/strategy`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := wire.NewPlace(t)
			dir := repository(t, p, "repo")
			s := openWalls(t, p)
			s.sh(fmt.Sprintf(`export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
cd repo; git checkout -q -b topic; for i in 1 2 3; do echo $i >f; git add f; git commit -qm $i; done; git checkout -q -b other HEAD~2
echo x >f; git commit -qam x; git rebase topic; echo "pick topic" >l.lock; cp l.lock .git/rebase-merge/l.lock; mv .git/rebase-merge/l.lock .git/rebase-merge/git-rebase-todo
echo y >f; git add f; list=.git/rebase-merge/git-rebase-todo; trap='%s'
%s; cat .git/rebase-merge/git-rebase-todo`, trap(p), script))
			out, err := personsGit(p, dir, "-c", "core.editor=true", "-c", "user.name=a", "-c", "user.email=a@b", "rebase", "--continue").CombinedOutput()
			t.Logf("git rebase --continue: %v: %s", err, out)
			sprung(t, p, name)
			s.finish()
		})
	}
}

// TestContainment_SetUserIDPrograms: in a folder that several users share, such a program gives one user's rights to another.
func TestContainment_SetUserIDPrograms(t *testing.T) {
	t.Parallel()
	s := openWalls(t, wire.NewPlace(t))
	s.sh(`cp "$(command -v cat)" a; chmod u+s a; cp a b; chmod g+s b; install -m 6755 a c; mkdir d; chmod g+s d`)
	for _, name := range []string{"a", "b", "c"} {
		if info, err := os.Stat(s.Path(name)); err == nil && info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
			t.Errorf("ATTACK SUCCEEDED: the mode of %s is %v", name, info.Mode())
		}
	}
	if info, err := os.Stat(s.Path("d")); err != nil || info.Mode()&os.ModeSetgid == 0 {
		t.Errorf("a folder that passes on its group: got %v, %v", info, err)
	}
	s.recorded(`"rule":"acphost/sandbox"`, "a set-user-ID or set-group-ID bit on a file")
	s.finish()
}

// behindOneWall are flags under which commands are decided by their lines, and the sandbox decides what processes write
// and start.
var behindOneWall = configured("permission: {policy: workspace}\nsandbox: {mode: enforce, reads: false, network: open, require: true}\n")

// TestSandbox_GitLeavesOutTrackedSecrets runs commands that acphost changes, so that git leaves out the secrets that the repository holds.
func TestSandbox_GitLeavesOutTrackedSecrets(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	p := wire.NewPlace(t)
	p.File(t, "sub/b.txt", "b\n")
	p.File(t, ".env", "A="+secret(4)+"\n")
	repository(t, p, "")
	git(t, p, p.Work, "add", "-f", ".")
	git(t, p, p.Work, "commit", "-q", "-m", "second")
	p.File(t, ".env", "A="+secret(4)+"\nB="+secret(4)+"\n")
	p.File(t, "a.txt", "three\n")
	s := openFixtureAt(t, p, behindOneWall)
	s.noPerson()
	s.prompt()
	for _, line := range []string{
		"git log -p", "git diff", "git show", "git grep -n t", "git log -p | cat",
		"cd sub && git log -p -- ..", "git -C sub log -p", "git diff HEAD && git show HEAD", "for i in 1 2; do git show; done",
	} {
		out, allowed := s.runs(line, s.Work)
		if !allowed || !strings.Contains(out, "two") && !strings.Contains(out, "three") {
			t.Errorf("%s: allowed %t, got %q; want what the repository holds", line, allowed, out)
		}
		if strings.Contains(out, secret(4)) {
			t.Errorf("ATTACK SUCCEEDED: %s shows %q", line, out)
		}
	}
	const exclude = "':(top,exclude,icase,glob)**/.env'"
	for _, line := range []string{
		"git log -p -- " + exclude, "git diff --no-index -- a.txt " + exclude, "git -C / diff --no-index -- $PWD/a.txt $PWD/.env",
		"git show HEAD:.env", "git cat-file -p HEAD:.env", "git log -p --all --stdin", "git grep --no-index TOKEN",
	} {
		if out, _ := s.runs(line, s.Work); strings.Contains(out, secret(4)) {
			t.Errorf("ATTACK SUCCEEDED: %s shows %q", line, out)
		}
	}
	s.finish()
}

// TestContainment_GitWorks: rules against attacks must not reject ordinary use of git, and nothing is asked.
func TestContainment_GitWorks(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	p := wire.NewPlace(t)
	repository(t, p, "repo")
	s := openWalls(t, p)
	out := s.sh(`set -e; export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
cd repo; echo z >z; git stash -qu; git stash pop -q; git commit -qam second; git checkout -q -b topic; echo x >b; git add b; git commit -qm b
git checkout -q main; echo y >c; git add c; git commit -qm c; git checkout -q topic; git rebase -q main; git checkout -q main; git merge -q topic
git branch -d topic; git tag v1; git gc -q; git pack-refs --all; git worktree add -q ../tree; git worktree remove --force ../tree
git clone -q . ../copy; (cd ../copy && git config pull.rebase true && git pull -q); git clone -q . "$TMPDIR/copy"; cd "$TMPDIR/copy"; git config user.name b; git commit -q --allow-empty -m d; git checkout -q -b e
git init -q --bare "$TMPDIR/bare.git"; git remote add bare "$TMPDIR/bare.git"; git fetch -q bare
git init -q "${GOCACHE%/*}/mine"; cd "$OLDPWD"; mv "${GOCACHE%/*}/mine" ../mine; ln -s copy ../link
git -c protocol.file.allow=always submodule add -q "$TMPDIR/copy" module; git commit -qm module; mkdir lib; ln -s lib lib64; mv lib64 lib32
echo all is done`)
	if !strings.Contains(out, "all is done") {
		t.Errorf("refused: %s", out)
	}
	s.finish()
}

// TestContainment_CommittedFilesThatRunLater: git can put files that run later in place as commits from before the session have them. An
// agent that plays git, or makes commits, must get nothing else there.
func TestContainment_CommittedFilesThatRunLater(t *testing.T) {
	t.Parallel()
	const good, other = "{\"good\": 1}\n", "{\"other\": 1}\n"
	p := wire.NewPlace(t)
	person := func(args ...string) {
		t.Helper()
		if out, err := personsGit(p, p.Work, args...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	person("init", "-q", "-b", "main")
	p.File(t, "a", "a")
	p.File(t, "fixture.json", other)
	person("add", ".")
	person("-c", "user.name=p", "-c", "user.email=p@example.org", "commit", "-qm", "1")
	person("switch", "-qc", "editor")
	p.File(t, ".vscode/tasks.json", good)
	person("add", ".")
	person("-c", "user.name=p", "-c", "user.email=p@example.org", "commit", "-qm", "2")
	person("switch", "-q", "main")

	s := openWalls(t, p)
	tasks := filepath.Join(p.Work, ".vscode", "tasks.json")
	expect := func(what, want string) {
		t.Helper()
		if got, _ := os.ReadFile(tasks); string(got) != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	s.sh("git switch -q editor && cat .vscode/tasks.json")
	expect("a commit of the person's", good)
	s.sh("git switch -q main; ls -A .vscode")
	if _, err := os.Lstat(tasks); err == nil {
		t.Error("the file is there on a branch without it")
	}
	for what, script := range map[string]string{
		"a program named git":           `cp /bin/sh git && mkdir -p .vscode && ./git -c 'echo evil >.vscode/tasks.json'`,
		"content of another path":       `cp /bin/sh git && mkdir -p .vscode && ./git -c 'cat fixture.json >.vscode/tasks.json'`,
		"a commit of the agent's":       `git switch -qc x && mkdir -p .vscode && b=$(echo evil | git hash-object -w --stdin) && git update-index --add --cacheinfo 100644,$b,.vscode/tasks.json && git -c user.name=a -c user.email=a@b commit -qm x && git checkout -- .vscode/tasks.json; git switch -qf main`,
		"a moved ref":                   `git update-ref refs/heads/editor x; git checkout editor -- .vscode/tasks.json; git reset -q`,
		"a descriptor that stays":       `cp /bin/sh git && mkdir -p .vscode && ./git -c 'exec 3>.vscode/tasks.json; git show HEAD:fixture.json >&3; exec 4>>/proc/self/fd/3 3>&-; echo evil >&4'`,
		"a folder that becomes another": `cp /bin/sh git && mkdir -p d && ./git -c 'exec 3>d/tasks.json; echo evil >&3; mv d .vscode; exec 3>&-'; rm -rf .vscode`,
	} {
		s.sh(script)
		if got, err := os.ReadFile(tasks); err == nil && string(got) != good {
			t.Errorf("%s: got %q", what, got)
		}
		_ = os.RemoveAll(filepath.Join(p.Work, ".vscode"))
	}
	s.finish()
}
