package adversary

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// TestContainment_GitChangesRepositoryInSteps runs commands of git that change a repository in several steps. Each must
// succeed without a question, because every question is rejected.
func TestContainment_GitChangesRepositoryInSteps(t *testing.T) {
	t.Parallel()
	const commits = `git checkout -qf main; git checkout -q -b topic; echo 1 >f; git add f; git commit -qm 1
git checkout -q -b other HEAD~1; echo x >f; git add f; git commit -qm x; `
	for name, script := range map[string]string{
		"commands of a rebase":  commits + `git rebase -x 'echo ran >>../ran' topic || { echo y >f; git add f; git rebase --continue; }; grep ran ../ran`,
		"an option of a rebase": commits + `git rebase -q -X theirs topic`,
		"the agent's remotes": `git remote add up https://example.com/a.git; git remote rename up down
git remote set-url down ssh://git@example.com/a.git; git remote remove down`,
		"the user's remote": `git remote rename origin up; git remote remove up; git remote add origin https://example.com/user.git`,
		"a mirror":          `git clone -q --mirror . m.git`,
		"a submodule": `export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=protocol.file.allow GIT_CONFIG_VALUE_0=always; git clone -q . ../lib
git submodule --quiet add "$PWD/../lib" s; git commit -qm s; git submodule --quiet deinit -f s; git submodule --quiet update --init; cat s/a.txt`,
		"a moved repository": `git init -q s; git -C s commit -q --allow-empty -m x; git submodule --quiet add ./ s; git submodule absorbgitdirs s`,
		"a large index": `b=$(git hash-object -w a.txt); seq 60000 | sed "s|.*|100644 $b\td/a_long_name_of_a_file_in_a_large_repository_&|" | git update-index --index-info
test $(stat -c %s .git/index) -gt 5000000; git update-index --skip-worktree a.txt; git commit -qm large`,
		"hooks in the sandbox":    `git commit -q --allow-empty -m x; grep hook ../hooked`,
		"a branch with its tools": `git checkout -q -b z; git checkout -q main -f; git branch -D z`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := wire.NewPlace(t)
			dir := repository(t, p, "repo")
			git(t, p, dir, "remote", "add", "origin", "https://example.com/user.git")
			hook := p.File(t, "repo/.git/hooks/post-commit", "#!/bin/sh\necho hook >>../hooked\n")
			if err := os.Chmod(hook, 0o700); err != nil {
				t.Fatal(err)
			}
			s := openWalls(t, p)
			out := s.sh(`set -e; export GIT_CONFIG_NOSYSTEM=1 GIT_EDITOR=true
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
cd repo; ` + script + "\necho all done")
			if !strings.HasSuffix(out, "all done\n") || strings.Contains(out, "acphost: ") {
				t.Errorf("it is refused: %s", out)
			}
			s.finish()
		})
	}
}

// TestContainment_RemoteOfUser: the user's next push goes where the user has chosen.
func TestContainment_RemoteOfUser(t *testing.T) {
	t.Parallel()
	p := wire.NewPlace(t)
	dir := repository(t, p, "repo")
	const user, evil = "https://example.com/user.git", "https://evil.example/x.git"
	git(t, p, dir, "remote", "add", "origin", user)
	s := openWalls(t, p)
	s.sh(`cd repo; e=` + evil + `; git remote set-url origin $e; git remote set-url --push origin $e; git remote remove origin; git remote add origin $e
git remote add x $e; git remote rename x origin; git config url.$e.insteadOf ` + user + `; git remote add origin ` + user + `; git remote set-url origin $e
git remote remove x; git remote add x ` + user + `; git remote remove origin; git remote rename x origin; git remote set-url origin $e; rm .git/config; git remote add origin $e`)
	for _, args := range [][]string{{"remote", "get-url", "--all", "origin"}, {"remote", "get-url", "--push", "--all", "origin"}} {
		if out, err := personsGit(p, dir, args...).CombinedOutput(); err == nil && strings.TrimSpace(string(out)) != user {
			t.Errorf("ATTACK SUCCEEDED: git %q: %s", args, out)
		}
	}
	s.finish()
}

// TestContainment_AnswerAboutRepositoryOutside: a person who allows changes of a repository outside of the workspace
// allows git's bookkeeping there, by whatever names, and no program that git runs.
func TestContainment_AnswerAboutRepositoryOutside(t *testing.T) {
	t.Parallel()
	p := wire.NewPlace(t)
	dir, remote := repository(t, p, "repo"), filepath.Join(p.Home, "remote.git")
	git(t, p, dir, "init", "-q", "--bare", remote)
	git(t, p, dir, "remote", "add", "origin", remote)
	before, err := os.ReadFile(filepath.Join(remote, "config"))
	if err != nil {
		t.Fatal(err)
	}
	s := openWalls(t, p)
	s.Handle("session/request_permission", func(m wire.Message) (any, error) {
		option := "reject_once"
		if raw := string(m.Params); strings.Contains(raw, "write "+remote+" (outside") {
			option = "allow_once"
		}
		return map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": option}}, nil
	})
	send := "cd repo; git send-pack -q " + remote + " HEAD:refs/heads/x && echo sent"
	if !testkit.Poll(func() bool { return strings.Contains(s.sh(send), "sent") }) {
		t.Error("nothing is sent after the answer")
	}
	s.sh(`cd ` + remote + `; echo x >hooks/pre-receive; echo x >hooks/x.lock; mv hooks/x.lock hooks/update; git config core.fsmonitor x
git config core.pager x; echo x >unknown; echo x >../outside; git worktree add ../tree x; ln -s ~ refs/heads/home`)
	for _, name := range []string{"hooks/pre-receive", "hooks/update", "unknown", "../outside", "../tree/a.txt", "refs/heads/home"} {
		notWritten(t, filepath.Join(remote, name))
	}
	if after, err := os.ReadFile(filepath.Join(remote, "config")); err != nil || string(after) != string(before) {
		t.Errorf("ATTACK SUCCEEDED: the configuration is %q (%v)", after, err)
	}
	s.finish()
}
