package git_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/git"
)

// TestSuspects_AcceptsFreshRepositories makes repositories with git, and with the settings that other common programs
// write.
func TestSuspects_AcceptsFreshRepositories(t *testing.T) {
	r := newRepository(t)
	base := filepath.Dir(r.dir)
	r.git(t, base, "-c", "protocol.file.allow=always", "clone", "--quiet", "--recurse-submodules", "--origin", "up", r.dir, "clone")
	r.git(t, base, "clone", "--quiet", "--no-local", "--depth", "1", "file://"+r.dir, "shallow")
	r.git(t, base, "init", "--quiet", "empty")
	for _, c := range []struct{ name, in, settings string }{
		{"init", "empty", ""},
		{"clone", "clone", "remote.up.url=https://example.com/x.git remote.up.pushurl=git@example.com:x.git"},
		{"a shallow clone", "shallow", "remote.origin.url=ssh://git@example.com/x.git"},
		{"a clone that is not partial", "clone", "remote.up.promisor=false"},
		{"what a company asks for", "clone", "http.proxy=http://proxy.example:3128 http.sslVerify=false http.sslCAInfo=/etc/ssl/ca.pem " +
			"http.https://example.com/.sslCAInfo=/etc/ssl/ca.pem http.postBuffer=524288000"},
		{"formats", "empty", "extensions.worktreeConfig=true extensions.preciousObjects=false rebase.autoStash=true fetch.prune=true " +
			"blame.ignoreRevsFile=.git-blame-ignore-revs maintenance.auto=false maintenance.strategy=incremental transfer.fsckObjects=true"},
		{"settings of one's own", "empty", "user.name=n user.email=e@example.com user.signingkey=x pull.rebase=true core.autocrlf=input " +
			"remote.pushDefault=up push.autoSetupRemote=true commit.gpgsign=true gpg.format=ssh rerere.enabled=true core.notesRef=refs/notes/x " +
			"credential.https://github.com.username=me log.date=iso pretty.short=format:%h protocol.version=2 submodule.s.update=rebase"},
		{"branches", "clone", "branch.main.rebase=true branch.autoSetupMerge=always branch.main.pushRemote=up"},
		{"GitHub's and GitLens' and VS Code's", "clone", "remote.up.gh-resolved=base branch.x.gh-merge-base=main branch.x.vscode-merge-base=up/main " +
			"branch.x.github-pr-owner-number=a#b#1 branch.x.github-pr-base-branch=a#b#main remote.up.github-pr-remote=true " +
			"branch.x.gk-merge-target=main branch.x.gk-last-accessed=2026"},
		{"git flow", "empty", "gitflow.branch.master=main gitflow.branch.develop=develop gitflow.prefix.feature=feature/ gitflow.path.hooks=/x/.git/hooks"},
		{"prompts and windows", "empty", "oh-my-zsh.hide-dirty=1 bash.showDirtyState=false gui.wmstate=normal gui.geometry=1x1"},
		{"tools that looking does not run", "empty", "diff.tool=vscode difftool.vscode.cmd=code merge.tool=x mergetool.x.cmd=x"},
		{"git lfs install --local", "clone", "lfs.repositoryformatversion=0 filter.lfs.required=true filter.lfs.process=LFS-filter-process lfs.https://example.com/x.git/info/lfs.access=basic"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(base, c.in)
			before := read(t, dir+"/.git/config")
			defer func() { write(t, dir+"/.git/config", before, 0o600) }()
			for setting := range strings.FieldsSeq(c.settings) {
				key, value, _ := strings.Cut(setting, "=")
				r.git(t, dir, "config", "--local", key, strings.ReplaceAll(value, "LFS-", "git-lfs "))
			}
			for _, quiet := range []bool{true, false} {
				if got := suspectsOf(git.Find(dir), git.Use{Command: "status", Looks: true, Quiet: quiet, SystemPath: true}); len(got) > 0 {
					t.Errorf("quiet %t: suspected: %q", quiet, got)
				}
			}
		})
	}
}

// TestSuspects_SettingsThatNamePrograms changes settings that are accepted as harmless by one word each.
func TestSuspects_SettingsThatNamePrograms(t *testing.T) {
	r := newRepository(t)
	config := read(t, r.dir+"/.git/config")
	write(t, r.home+"/x", "x\n", 0o600)
	symlink(t, r.home, r.dir+"/out")
	for _, c := range []struct {
		setting, value string
		use            git.Use
	}{
		{"filter.lfs.process", "git-lfs filter-process", git.Use{Command: "status"}}, // PATH has a folder of the workspace
		{"filter.lfs.process", "./git-lfs filter-process", git.Use{Command: "status", SystemPath: true}},
		{"filter.lfs.clean", "git-lfs clean -- %f; x", git.Use{Command: "status", SystemPath: true}},
		{"filter.x.clean", "git-lfs clean -- %f", git.Use{Command: "status", SystemPath: true}},
		{"lfs.extension.x.clean", "x", git.Use{Command: "status", SystemPath: true}},
		{"lfs.customtransfer.x.path", "x", git.Use{Command: "status", SystemPath: true}},
		{"core.hooksPath", ".husky/_", git.Use{Command: "status"}},
		{"core.sshCommand", "ssh -i x", git.Use{Command: "status"}},
		{"credential.https://github.com.helper", "!x", git.Use{Command: "status"}},
		{"branch.x.mergeoptions", "--strategy=x", git.Use{Command: "merge"}},
		{"pull.twohead", "x", git.Use{Command: "pull"}},
		{"submodule.s.update", "!x", git.Use{Command: "status"}},
		{"difftool.x.cmd", "x", git.Use{Command: "difftool"}},
		{"mergetool.x.cmd", "x", git.Use{Command: "mt"}}, // which may be an alias
		{"difftool.x.cmd", "x", git.Use{}},
		{"gpg.program", "x", git.Use{Command: "log"}},
		{"remote.origin.uploadpack", "x", git.Use{Command: "fetch"}},
		{"remote.origin.vcs", "x", git.Use{Command: "fetch"}},
		{"remote.pushDefault", "x::y", git.Use{Command: "push"}},
		{"branch.main.remote", "x::y", git.Use{Command: "fetch"}},
		{"branch.main.pushRemote", "x::y", git.Use{Command: "push"}},
		{"http.cookieFile", "/home/me/.bashrc", git.Use{Command: "fetch"}},
		{"http.saveCookies", "true", git.Use{Command: "fetch"}},
		{"http.https://example.com/.cookieFile", "/home/me/.bashrc", git.Use{Command: "fetch"}},
		{"http.https://example.com/.saveCookies", "true", git.Use{Command: "fetch"}},
		{"http.sslKey", "/home/me/.key", git.Use{Command: "fetch"}},
		{"http.sslKeyType", "ENG", git.Use{Command: "fetch"}},
		{"http.sslCert", "/home/me/.cert", git.Use{Command: "fetch"}},
		{"http.proxySSLKey", "/home/me/.key", git.Use{Command: "fetch"}},
		{"http.proxyAuthMethod", "negotiate", git.Use{Command: "fetch"}},
		{"http.delegation", "always", git.Use{Command: "fetch"}},
		{"http.curloptResolve", "github.com:443:127.0.0.1", git.Use{Command: "fetch"}},
		{"fetch.bundleURI", "https://example.com/x", git.Use{Command: "fetch"}},
		{"transfer.bundleURI", "true", git.Use{Command: "fetch"}},
		{"maintenance.repo", "/elsewhere", git.Use{Command: "maintenance"}},
		{"blame.ignoreRevsFile", "/home/me/.netrc", git.Use{Command: "blame"}},
		{"blame.ignoreRevsFile", "~/.netrc", git.Use{Command: "blame"}},
		{"blame.ignoreRevsFile", "../x", git.Use{Command: "blame"}},
		{"blame.ignoreRevsFile", "out/x", git.Use{Command: "blame"}},
		{"rebase.instructionFormat", "%s%nexec x", git.Use{Command: "rebase"}},
		{"format.suffix", "/../../x", git.Use{Command: "format-patch"}},
		{"commit.template", "/home/me/.netrc", git.Use{Command: "commit"}},
		{"extensions.refStorage", "reftable:///elsewhere", git.Use{Command: "log"}},
		{"extensions.submodulePathConfig", "true", git.Use{Command: "status"}},
	} {
		write(t, r.dir+"/.git/config", config, 0o600)
		cmd := exec.Command("git", "config", "--local", c.setting, c.value)
		cmd.Dir, cmd.Env = r.dir, r.environ()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", c.setting, err, out)
		}
		if got := suspectsOf(git.Find(r.dir), c.use); !slices.ContainsFunc(got, func(s string) bool { return strings.EqualFold(s, c.setting) }) {
			t.Errorf("%s=%s for %+v: suspected: %q", c.setting, c.value, c.use, got)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestSuspects_PasswordInRemoteURL: only git remote and git config print addresses of remotes, with passwords.
func TestSuspects_PasswordInRemoteURL(t *testing.T) {
	for _, setting := range []string{
		"[remote \"o\"]\n\turl = https://me:hunter22@example.com/x\n",
		"[remote \"o\"]\n\tpushurl = https://ghp_0123456789abcdefghijABCDEFGHIJ012345@example.com/x\n",
		"[url \"https://me:hunter22@example.com/\"]\n\tinsteadOf = gh:\n",
	} {
		dir := t.TempDir()
		write(t, dir+"/.git/HEAD", "ref: refs/heads/main\n", 0o600)
		write(t, dir+"/.git/config", "[core]\n\tbare = false\n"+setting, 0o600)
		for command, shows := range map[string]bool{"remote": true, "config": true, "status": false, "log": false} {
			got := suspectsOf(git.Find(dir), git.Use{Command: command, Looks: true, Quiet: true})
			if (len(got) > 0) != shows || strings.Contains(strings.Join(got, ""), "hunter22") || len(got) > 1 {
				t.Errorf("git %s with %s: suspected: %q, want some: %t", command, setting, got, shows)
			}
		}
	}
}
