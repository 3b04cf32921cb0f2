package shell_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/shell"
)

// as reports whether a rule for the words covers the line, considering options only: the line has no doubt that the
// words do not have.
func as(words, line string) bool {
	why := shell.Risky(strings.Fields(line))
	return why == "" || why == shell.Risky(strings.Fields(words))
}

func TestGitOptions_CoverCommonCommands(t *testing.T) {
	for _, line := range []string{
		"git status --short --branch", "git status -sb --porcelain=v2", "git diff --stat HEAD~3", "git diff --cached --name-only -- a b",
		"git log --oneline --graph --all -20", "git log --since=yesterday --format=%h%x09%an --author=x", "git log -p --follow x.go",
		"git log --pretty=format:%H --no-merges -n 3", "git show --stat HEAD", "git show HEAD:x", "git blame -L 1,20 -w x", "git diff -U0 --no-ext-diff",
		"git rev-parse --abbrev-ref HEAD", "git rev-parse --show-toplevel", "git ls-files --others --exclude-standard", "git describe --tags --always --dirty",
		"git rev-list --count HEAD", "git diff-tree --no-commit-id --name-only -r HEAD", "git stash list", "git branch --show-current", "git branch -a",
		"git branch --list x", "git tag -l", "git remote -v", "git remote get-url origin", "git config --get user.name", "git grep -n foo::bar",
		"git diff --word-diff=color --ignore-all-space", "git log -S std::x --source", "git merge-base --is-ancestor a b", "git diff --submodule=log",
		"git for-each-ref --format=%(refname) refs/heads", "git worktree list --porcelain", "git shortlog -sne", "git ls-tree -r --name-only HEAD",
		"git --no-pager log -1", "git cat-file -p HEAD", "git reflog -5",
	} {
		if why := shell.Risky(strings.Fields(line)); why != "" {
			t.Errorf("%s: %s", line, why)
		}
	}
	for line, words := range map[string]string{
		"git add -A": "git add", "git add -p x": "git add", "git commit -am x": "git commit", "git commit --amend --no-edit": "git commit",
		"git commit -m x --author=y": "git commit", "git commit -q --allow-empty -m-S": "git commit", "git checkout -b x": "git checkout",
		"git checkout -- a": "git checkout", "git switch -c x": "git switch", "git restore --staged a": "git restore", "git stash push -u -m x": "git stash push",
		"git stash pop --index": "git stash pop", "git fetch --all --prune": "git fetch", "git pull --rebase": "git pull", "git push -u origin x": "git push",
		"git push --force-with-lease": "git push", "git clone --depth 1 https://h/x": "git clone", "git rebase --continue": "git rebase",
		"git lfs ls-files --size": "git lfs", "git submodule update --init --recursive": "git submodule", "git fetch origin": "git fetch",
	} {
		if !as(words, line) {
			t.Errorf("a rule for %q does not cover %q: %s", words, line, shell.Risky(strings.Fields(line)))
		}
	}
}

func TestGitOptions_OmitOptionsThatRunPrograms(t *testing.T) {
	for line, words := range map[string]string{
		"git log --show-signature": "git log", "git log --format=%G?": "git log", "git log --pretty=tformat:%GK": "git log", "git diff --ext-diff": "git diff",
		"git diff --textconv": "git diff", "git diff --submodule=diff": "git diff", "git log -p --submodule=diff": "git log", "git blame --contents x y": "git blame",
		"git grep -O x": "git grep", "git grep -Ovi x": "git grep", "git grep --open-files-in-pager x": "git grep", "git diff --output=x": "git diff",
		"git cat-file --filters x": "git cat-file", "git cat-file --textconv x": "git cat-file", "git tag -v x": "git tag", "git cat-file --text x": "git cat-file", "git cat-file --filter x": "git cat-file",
		"git checkout --recurse x": "git checkout", "git clone --recursive x": "git clone", "git checkout-index --prefix=/x/": "git checkout-index", "git tag --verify x": "git tag -l",
		"git for-each-ref --format=%(signature:grade)": "git for-each-ref", "git log --frobnicate": "git log",
		"git init --template=x": "git init", "git init --separate-git-dir=x": "git init", "git clone --template x y": "git clone",
		"git clone -c core.fsmonitor=x y": "git clone", "git clone --config core.fsmonitor=x y": "git clone", "git clone -u x y": "git clone",
		"git clone -qcx=y z": "git clone", "git clone ext::sh%20-c%20x y": "git clone", "git remote add x ext::sh": "git remote add",
		"git remote set-url x foo::y": "git remote", "git fetch --upload-pack=x": "git fetch", "git fetch --upload-pac x y": "git fetch",
		"git fetch -- ext::sh": "git fetch", "git clone -q -- foo::x y": "git clone", "git ls-remote -- foo::x": "git ls-remote",
		"git fetch ext::sh": "git fetch", "git pull -s x": "git pull", "git push --receive-pack=x": "git push", "git push --exec x": "git push",
		"git push --signed": "git push", "git archive --remote=x --exec=y": "git archive", "git archive --remote=ext::x HEAD": "git archive",
		"git archive -o x HEAD": "git archive", "git ls-remote --exec=x y": "git ls-remote", "git rebase -x make": "git rebase",
		"git rebase --exec make": "git rebase", "git rebase -iSx": "git rebase", "git merge -s x": "git merge", "git merge --strategy=x": "git merge",
		"git commit -S": "git commit", "git commit -aS": "git commit", "git commit --gpg-sign=x": "git commit", "git commit -t x": "git commit",
		"git checkout --recurse-submodules x": "git checkout", "git --exec-path=x status": "git status", "git -c x=y status": "git status",
		"git --git-dir=x status": "git status", "git submodule add foo::x": "git submodule", "git send-email --smtp-server=./x": "git send-email",
		"git difftool x": "git", "git bisect run x": "git", "git daemon": "git", "git maintenance run": "git", "git frobnicate": "git",
	} {
		if as(words, line) {
			t.Errorf("a rule for %q covers %q", words, line)
		}
	}
}

// TestGitOptions_ListOptionsOfInstalledGit lists the long options of reading commands that are omitted on purpose.
func TestGitOptions_ListOptionsOfInstalledGit(t *testing.T) {
	left := map[string]bool{
		"--ext-diff": true, "--textconv": true, "--output": true, "--contents": true, "--recurse-submodules": true, "--filters": true,
		"--open-files-in-pager": true, "--ext-grep": true, "--delete": true, "--set-upstream-to": true, "--move": true, "--copy": true,
		"--edit-description": true, "--verify": true, "--sign": true, "--local-user": true,
	}
	for _, command := range strings.Fields("status diff log show blame ls-files ls-tree shortlog describe merge-base rev-list diff-tree show-ref grep " +
		"cat-file for-each-ref name-rev branch tag") {
		out, err := exec.Command("git", command, "--git-completion-helper-all").Output()
		if err != nil {
			t.Skipf("this git does not state which options it has: %v", err)
		}
		for option := range strings.FieldsSeq(string(out)) {
			option = strings.TrimSuffix(option, "=")
			why := shell.Risky([]string{"git", command, option})
			if strings.HasSuffix(why, "is not known to be harmless") && !left[option] {
				t.Errorf("git %s %s: %s", command, option, why)
			}
		}
	}
}
