package git_test

import (
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/testkit"
)

const (
	initial = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n"
	cloned  = initial + "[remote \"origin\"]\n\turl = https://example.com/x.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n" +
		"[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n"
)

func TestHarmlessConfig_Accepts(t *testing.T) {
	for _, c := range []struct{ before, data string }{
		{"", initial},
		{initial, initial},
		{"", cloned},
		{initial, cloned},
		{cloned, cloned + "[branch \"topic\"]\nremote = origin\nmerge = refs/heads/topic\n"},
		{cloned + "[branch \"topic\"]\nremote = origin\nmerge = refs/heads/topic\n", cloned},
		{cloned + "[branch \"topic\"]\nremote = .\nmerge = refs/heads/main\n", cloned},
		{cloned, cloned + "[remote \"fork\"]\nurl = git@example.com:me/x.git\nfetch = +refs/heads/*:refs/remotes/fork/*\n"},
		{cloned, cloned + "[remote \"fork\"]\nurl = ssh://git@example.com:22/me/x.git\n"},
		{cloned, cloned + "[remote \"local\"]\nurl = ../x\n"},
		{cloned, cloned + "[remote \"local\"]\nurl = /srv/x.git\npushurl = file:///srv/x.git\n"},
		{initial, initial + "[submodule \"lib/x\"]\nactive = true\nurl = ../x\nupdate = rebase\n"},
		{initial, initial + "[submodule]\nactive = .\n"},
		{initial, initial + "[user]\nname = A B\nemail = a@example.com\nsigningkey = key::ssh-ed25519 AAAA\n[commit]\ngpgsign = true\n[gpg]\nformat = ssh\n"},
		{initial, initial + "[core]\nfsmonitor = true\n[pull]\nrebase = merges\n[rerere]\nenabled = 1\n[color \"diff\"]\nmeta = yellow bold\n[color]\nui = auto\n"},
		{initial, initial + "[extensions]\nworktreeConfig = true\n[core]\nsparseCheckout = true\n[advice]\ndetachedHead = false\n"},
		{"", initial + "[remote \"origin\"]\nurl = https://example.com/x\npromisor = true\npartialclonefilter = blob:none\n"},
		{initial, initial + "[lfs]\nrepositoryformatversion = 0\n[lfs \"https://example.com/x.git/info/lfs\"]\naccess = basic\n"},
		{cloned, cloned + "[remote \"origin\"]\nfetch = +refs/pull/*/head:refs/remotes/origin/pr/*\n"},
		{cloned + "[core]\nhooksPath = .githooks\n", cloned + "[core]\nhooksPath = .githooks\n[branch \"x\"]\nrebase = true\n"},
	} {
		var before []byte // nil: there is no file
		if c.before != "" {
			before = []byte(c.before)
		}
		if why := git.HarmlessConfig("/w/.git/config", []byte(c.data), before); why != "" {
			t.Errorf("%q after %q: %s", c.data, c.before, why)
		}
	}
	if why := git.HarmlessConfig("/a/config", []byte(initial+"[core]\nworktree = /w\n[index]\nthreads = true\n"), nil, "/v", "/w"); why != "" {
		t.Errorf("a work tree that is named: got %q", why)
	}
	if why := git.HarmlessConfig("/a/config", []byte(initial+"[core]\nworktree = /w/..\n"), nil, "/w"); why != "core.worktree" {
		t.Errorf("a work tree that is not named: got %q", why)
	}
	if why := git.HarmlessConfig("/w/.git/modules/lib/x/config", []byte(initial+"[core]\nworktree = ../../../../lib/x\n"), nil); why != "" {
		t.Errorf("the work tree of a submodule: %s", why)
	}
}

// TestHarmlessConfigSince: git fetches and pushes by itself to the remote of a branch, and fetches missing objects, also
// from remotes that an agent has added with an earlier change.
func TestHarmlessConfigSince(t *testing.T) {
	const fork = "[remote \"fork\"]\nurl = https://example.com/SECRET\n"
	toFork := strings.ReplaceAll(cloned, "remote = origin", "remote = fork") + fork
	for name, c := range map[string]struct{ accepted, data, why string }{
		"a new branch":            {cloned, cloned + fork + "[branch \"new\"]\nremote = fork\npushRemote = fork\n", ""},
		"a branch of the user's":  {cloned, toFork, "branch.main.remote"},
		"to a remote of the user": {cloned + fork, toFork, ""},
		"default for pushing":     {cloned, cloned + fork + "[remote]\npushDefault = fork\n", "remote.pushdefault"},
		"missing objects":         {cloned, cloned + fork + "[remote \"fork\"]\npromisor = true\n", "remote.fork.promisor"},
		"a filter":                {cloned, cloned + fork + "[remote \"fork\"]\npartialCloneFilter = blob:none\n", "remote.fork.partialclonefilter"},
		"a partial clone":         {cloned, cloned + fork + "[extensions]\npartialClone = fork\n", "extensions.partialclone"},
		"no remotes before":       {initial, initial + fork + "[remote \"fork\"]\npromisor = true\n", "remote.fork.promisor"},
		"storage of refs":         {cloned, cloned + fork + "[extensions]\nrefStorage = reftable\n", "extensions.refstorage"},
		"another address":         {cloned, initial + "[remote \"origin\"]\nurl = https://example.com/SECRET\n", "remote.origin.url"},
	} {
		t.Run(name, func(t *testing.T) {
			before := strings.TrimSuffix(c.accepted, fork) + fork // the agent has added it
			if name == "another address" {
				before = initial // the agent has moved the repository away, and made another one
			}
			if why := git.Addresses(nil).HarmlessConfigSince("/w/.git/config", []byte(c.data), []byte(before), []byte(c.accepted)); why != c.why {
				t.Errorf("got %q, want %q", why, c.why)
			}
		})
	}
	clone := cloned + "[remote \"origin\"]\npromisor = true\n"
	if why := git.Addresses(nil).HarmlessConfigSince("/w/.git/config", []byte(clone), []byte(cloned), nil); why != "" {
		t.Errorf("a new repository: %s", why)
	}
}

func TestHarmlessConfig_Rejects(t *testing.T) {
	for _, c := range []struct{ before, data, why string }{
		{"", "[include]\npath = x\n", "include.path"},
		{"", "[includeIf \"gitdir:/\"]\npath = x\n", "includeif.gitdir:/.path"},
		{"", "[core]\nfsmonitor = ./x\n", "core.fsmonitor"},
		{"", "[core]\nhooksPath = h\n", "core.hookspath"},
		{"", "[core]\nsshCommand = x\n", "core.sshcommand"},
		{"", "[core]\neditor = x\n", "core.editor"},
		{"", "[core]\npager = x\n", "core.pager"},
		{"", "[core]\naskPass = x\n", "core.askpass"},
		{"", "[core]\ngitProxy = x\n", "core.gitproxy"},
		{"", "[core]\nworktree = /\n", "core.worktree"},
		{"", "[core]\nattributesFile = x\n", "core.attributesfile"},
		{"", "[core]\nexcludesFile = x\n", "core.excludesfile"},
		{"", "[alias]\nst = !x\n", "alias.st"},
		{"", "[filter \"x\"]\nclean = x\n", "filter.x.clean"},
		{"", "[filter \"lfs\"]\nclean = git-lfs clean -- %f\n", "filter.lfs.clean"},
		{"", "[credential]\nhelper = x\n", "credential.helper"},
		{"", "[diff \"x\"]\ntextconv = x\n", "diff.x.textconv"},
		{"", "[diff]\nexternal = x\n", "diff.external"},
		{"", "[merge \"x\"]\ndriver = x\n", "merge.x.driver"},
		{"", "[http]\nproxy = x\n", "http.proxy"},
		{"", "[http]\nsslVerify = false\n", "http.sslverify"},
		{"", "[url \"https://evil.example/\"]\ninsteadOf = https://github.com/\n", "url.https://evil.example/.insteadof"},
		{"", "[uploadpack]\npackObjectsHook = x\n", "uploadpack.packobjectshook"},
		{"", "[receive]\ndenyCurrentBranch = x\n", "receive.denycurrentbranch"},
		{"", "[sequence]\neditor = x\n", "sequence.editor"},
		{"", "[gpg]\nprogram = x\n", "gpg.program"},
		{"", "[gpg \"ssh\"]\nprogram = x\n", "gpg.ssh.program"},
		{"", "[gpg]\nformat = x\n", "gpg.format"},
		{"", "[submodule \"x\"]\nupdate = !x\n", "submodule.x.update"},
		{"", "[submodule \"x\"]\nurl = ext::x\n", "submodule.x.url"},
		{"", "[branch \"x\"]\nmergeoptions = --strategy=x\n", "branch.x.mergeoptions"},
		{"", "[branch \"x\"]\nremote = https://evil.example/x\n", "branch.x.remote"},
		{"", "[pager]\nlog = x\n", "pager.log"},
		{"", "[core]\nsharedRepository = 0666\n", "core.sharedrepository"},
		{"", "[core]\nsplitIndex = true\n", "core.splitindex"}, // whose index HarmlessIndex rejects
		{"", "[index]\nthreads = 2\n", "index.threads"},
		{"", "[unknown]\nx = y\n", "unknown.x"},
		{"", "[core]\nunknown = y\n", "core.unknown"},
		{cloned, initial, "remote.origin.url"},
		{cloned, initial + "[remote \"origin\"]\n\turl = https://evil.example/x.git\n", "remote.origin.url"},
		{cloned, cloned + "[remote.Origin]\n\turl = https://evil.example/x.git\n", "remote.origin.url"},
		{cloned, cloned + "[remote \"origin\"]\n\tpushurl = https://evil.example/x.git\n", "remote.origin.pushurl"},
		{cloned, cloned + "[remote \"origin\"]\n\tfetch = +refs/heads/*:refs/heads/*\n", "remote.origin.fetch"},
		{cloned, cloned + "[remote \"origin\"]\n\tmirror = true\n", "remote.origin.mirror"},
		{cloned, cloned + "[remote \"origin\"]\n\tuploadpack = x\n", "remote.origin.uploadpack"},
		{cloned, cloned + "[remote \"origin\"]\n\tproxy = x\n", "remote.origin.proxy"},
		{cloned, cloned + "[remote \"origin\"]\n\tvcs = x\n", "remote.origin.vcs"},
		{cloned + "[core]\nhooksPath = .githooks\n", cloned, "core.hookspath"},
		{cloned, "[core\n", "the new configuration is not well-formed"},
		{"[core\n", cloned, "the present configuration is not well-formed"},
	} {
		if why := git.HarmlessConfig("/w/.git/config", []byte(c.data), []byte(c.before)); why != c.why {
			t.Errorf("%q: got %q, want %q", c.data, why, c.why)
		}
	}
	for _, url := range []string{
		"ext::x", "fd::7", "-x", "--upload-pack=x", "ssh://-oProxyCommand=x/y", "ssh://a@-oProxyCommand=x/y", "-oProxyCommand=x:y", "a@-o:y", "git://x/y",
		"http://x/y", "https://x/\ty", "foo://x/y", "foo::https://x/y", "ssh://%2doProxyCommand/x", "", " x", "https://", "user@host:-x", "x:y:z",
	} {
		if why := git.HarmlessConfig("", []byte("[remote \"x\"]\nurl = \""+url+"\"\n"), nil); why == "" {
			t.Errorf("%q is accepted as the address of a remote", url)
		}
	}
	for file, tree := range map[string]string{
		"": "../x", "/w/.git/config": "../x", "/w/.git/modules/x/config": "../../../..", "/w/.git/modules/y/config": "/w/y",
		"/w/.git/modules/z/config": "../../hooks", "/w/.git/modules/a/config": "../../../../v/a",
	} {
		if why := git.HarmlessConfig(file, []byte("[core]\nworktree = "+tree+"\n"), nil); why != "core.worktree" {
			t.Errorf("%s with work tree %s: got %q", file, tree, why)
		}
	}
}

// TestHarmlessConfig_TimeIsLinear checks contents that have many values of one setting, or much white space.
func TestHarmlessConfig_TimeIsLinear(t *testing.T) {
	many := "[remote \"x\"]\n" + strings.Repeat("fetch = a\n", 100_000)
	blank := "[user]\nname = a" + strings.Repeat(" ", 1_000_000) + "b\n"
	testkit.TakesAtMost(t, 2*time.Second, "judging two configurations", func() {
		if why := git.HarmlessConfig("", []byte(many+"[user]\nname = x\n"), []byte(many)); why != "" {
			t.Error(why)
		}
		if why := git.HarmlessConfig("", []byte(blank), nil); why != "" {
			t.Error(why)
		}
	})
}
