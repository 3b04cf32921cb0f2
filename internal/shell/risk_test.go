package shell_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/shell"
)

func TestRisky_DangerousOptions(t *testing.T) {
	for _, line := range []string{
		"git -c core.pager=x log", "git -ccore.pager=x log", "git --config-env=a=B log", "git --exec-path=/x log",
		"git --git-dir=/x status", "git --git-dir /x status", "git --work-tree=/x status", "git -p log", "git --paginate log",
		"git --namespace=x log", "git diff --output=f", "git diff --output f", "git diff --outp=f", "git log --ext-diff", "git log --ext-d",
		"git log --textconv", "git show --textc", "git ls-remote --upload-pack=x r", "git fetch --upload-pack x",
		"git grep -O x", "git grep -Oless x", "git grep -nOless x", "git grep --open-files-in-pager=x y", "git grep --open x",
		"git archive --output=x HEAD", "git cat-file --filters HEAD:a", "git -C /x push", "git push", "git commit -m x", "git rebase -x y",
		"git bisect run x", "git submodule foreach x", "git difftool", "git config a.b c", "git config --unset a", "git config -e", "git config --edit", "git remote show x", "git remote -v update", "git config set a b",
		"git branch -D x", "git branch x", "git branch --delete x", "git tag v1", "git tag -d v1", "git remote add a b", "git remote set-url a b",
		"git stash", "git stash pop", "git worktree add x", "git reflog expire --all", "git notes add x", "git foo", "git log --output=/etc/x",
		"find . -delete", "find . -exec rm {} ;", "find . -execdir a ;", "find . -ok a ;", "find . -okdir a ;", "find . -fprint x",
		"find . -fprint0 x", "find . -fprintf x y", "find . -fls x", "gfind . -delete", "fd -x rm", "fd a -X rm", "fd --exec rm", "fd --exec-b rm",
		"sort -o x y", "sort -ox y", "sort -uo x y", "sort --output=x", "sort --out x", "sort --compress-program=x", "shuf -o x",
		"tar xf a", "tar -xf a", "tar cf a b", "tar tf a --to-command=x", "tar tf a --checkpoint-action=exec=x", "tar -tIx -f a",
		"tar -t --use-compress-program=x -f a", "tar --checkpoint=1 -tf a", "tar -tFx -f a", "tar",
		"sed -i s/a/b/ f", "sed -i.bak s/a/b/ f", "sed --in-place s/a/b/ f", "sed --in s/a/b/ f", "sed -n -i p f", "sed -ni p f", "sed -f x y",
		"sed w/etc/x f", "sed 1e f", "sed -e p -e ex f", "sed s/a/b/e f", "sed s/a/b/w f", "sed s/a/b/gw f", "sed --expression=e f", "sed s/a/b/;e f",
		"sed 1r/x f", "sed -Ei p f", "sed -nf x y",
		"rg --pre x y", "rg --pre=x y", "rg --hostname-bin=x y", "ag --pager=x y", "bat --pager x y", "less -o x y", "less +!x y", "less x", "more x", "man x", "man -P x y",
		"xxd a b", "xxd -r a", "uniq a b", "uniq -c a b", "tree -o x", "tree -R", "tee x", "cp a b", "mv a b", "rm a", "dd if=a of=b", "split a",
		"csplit a 1", "install a b", "ln a b", "patch", "truncate -s0 a", "curl x", "curl -o x y", "curl -sSo x y", "curl -K x", "wget x", "ssh h ls",
		"scp a b", "rsync a b", "docker run x", "docker exec c rm", "date -s x", "date --set=x", "date 010203042026", "hostname x", "hostname -F x",
		"ip link set x up", "ip netns exec x y", "ip a a 1.2.3.4 dev x", "ip -batch f", "sysctl -w a=b", "sysctl a=b", "sysctl --system", "file -C -m x", "file -Z x", "file --uncompress x",
		"yq -i .a=1 f", "yq --inplace . f", "yq load(\"x\") f", "python x", "python3 -c x", "python3.12 x", "node -e x", "nodejs x", "perl -e x", "ruby x",
		"awk BEGIN{system(\"x\")}", "gawk x", "/usr/bin/awk x", "npm test", "npm run x", "npx x", "yarn x", "pnpm run x", "make", "make --eval=x", "go env -w A=b",
		"go vet -vettool=x", "go build -toolexec x", "go test -exec x", "go test -exec=x", "go build -o x", "go run .", "cargo build", "eslint --fix .", "eslint -c x .",
		"prettier --write .", "prettier -w .", "gofmt -w .", "black .", "pytest", "vim x", "ed x", "bash x", "sh -c ls", "env ls", "sudo ls", "xargs rm",
		"timeout 5 ls", "watch ls", "gdb --args ls", "eval ls", "source x", "sort -k2 -to", "diff -l a b", "sdiff -o x a b", "journalctl --vacuum-size=1", "SORT -o x",
		"git diff --no-index a b", "git grep --no-in x", "wc --files0-from=x", "wc --files0=x", "du --files0=x", "du --f x", "file -f x", "file --files=x", "file -bmx y",
		"find . -files0-from x", "sort --files0=x", "gofmt --w x", "gofmt --cpuprofile=x", "ip -b f", "ip --bat f",
	} {
		if why := shell.Risky(strings.Fields(line)); why == "" {
			t.Errorf("nothing is known against %q", line)
		}
	}
}

func TestRisky_AcceptsReadOnlyCommands(t *testing.T) {
	for _, argv := range [][]string{
		nil, {""}, {"ls", "-la"}, {"cat", "-n", "x"}, {"grep", "-rno", "x", "."}, {"grep", "--output", "x"},
		{"git"}, {"git", "status", "-s"}, {"git", "-C", "/x", "status"}, {"git", "--no-pager", "log", "-p"}, {"git", "diff", "--no-indent-heuristic", "a", "b"},
		{"git", "diff", "--text"}, {"git", "log", "--oneline", "-5"}, {"git", "grep", "-n", "x"}, {"git", "branch"}, {"git", "branch", "-a"},
		{"git", "branch", "--list", "x*"}, {"git", "tag", "-l", "v*"}, {"git", "tag"}, {"git", "remote", "-v"}, {"git", "remote", "get-url", "origin"},
		{"git", "stash", "list"}, {"git", "config", "--get", "user.name"}, {"git", "config", "-l"}, {"git", "worktree", "list"}, {"git", "reflog"},
		{"git", "ls-files", "--exclude-standard"}, {"git", "--version"}, {"git", "diff", "-O", "order"},
		{"find", ".", "-name", "*.go", "-type", "f", "-print0"}, {"fd", "-e", "go"}, {"sort", "-rnu", "x"}, {"sort", "-k2,3", "x"},
		{"tar", "tf", "x.tar"}, {"tar", "-tvzf", "x.tgz"}, {"tar", "--list", "--file=x"},
		{"sed", "-n", "10,20p", "f"}, {"sed", "s/a/b/g", "f"}, {"sed", "-E", `s|a\|b|c|`, "f"}, {"sed", "$d"}, {"sed", "-n", "/^func/p;/x/p", "f"}, {"sed", "-n", "-e", "1p", "f"},
		{"rg", "-n", "x"}, {"uniq", "-c", "x"}, {"uniq"}, {"xxd", "x"}, {"tree", "-L", "2"}, {"date", "+%s"}, {"date", "-u"}, {"hostname"},
		{"jq", ".a", "x"}, {"env"}, {"printenv", "HOME"}, {"column", "-t"}, {"cmp", "a", "b"}, {"diff", "-u", "a", "b"}, {"gofmt", "-l", "."}, {"prettier", "--check", "."},
		{"test", "-f", "x"}, {"echo", "-o", "x"}, {"ip", "route"}, {"ip", "-br", "addr"}, {"gofmt", "-d", "-s", "."},
		{"find", ".", "-name", "a", "-o", "-newer", "x"}, {"find", ".", "-not", "-user", "x", "-fstype", "y"}, {"wc", "-l", "--words", "x"},
		{"du", "-sh", "--exclude=x"}, {"file", "-bi", "--mime-type", "x"},
	} {
		if why := shell.Risky(argv); why != "" {
			t.Errorf("%q: %s", argv, why)
		}
	}
}

func TestRisky_DistinguishesOptionFromProgram(t *testing.T) {
	for _, lines := range [][2]string{
		{"curl", "curl -o x"}, {"go test", "go test -exec x"}, {"git push", "git -c a=b push"}, {"git branch x", "git branch -D x"},
		{"make", "make --eval=x"}, {"tar xf a", "tar xf a --to-command=x"}, {"eslint", "eslint --fix"}, {"ssh h", "ssh -oProxyCommand=x h"},
	} {
		if a, b := shell.Risky(strings.Fields(lines[0])), shell.Risky(strings.Fields(lines[1])); a == b {
			t.Errorf("%q and %q: both %q", lines[0], lines[1], a)
		}
	}
	if a, b := shell.Risky([]string{"sort", "-o"}), shell.Risky([]string{"sort", "-u", "-o", "x"}); a != b {
		t.Errorf("one danger, two reasons: %q and %q", a, b)
	}
}

func TestRisky_OptionsOfGoAreWholeWords(t *testing.T) {
	plain := shell.Risky([]string{"go", "test"})
	for _, line := range []string{"-run X", "-count=1", "-short", "-timeout 30s", "-cover", "-race -v", "--count 1", "-bench . -benchmem", "-coverpkg=./...",
		"-json", "-fuzz=X -fuzztime 10s", "-shuffle=on", "-tags foo", "-failfast -vet=off", "-mod=vendor", "-trimpath", "-work", "-args -update", "-test.run X", "-buildvcs=false"} {
		if why := shell.Risky(strings.Fields("go test " + line + " ./...")); why != plain {
			t.Errorf("go test %s: %s", line, why)
		}
	}
	for _, line := range []string{"test -o x", "test --o=x", "test -exec x", "test --exec=x", "build -toolexec=x", "build --toolexec x", "vet -vettool=x", "vet -fix", "vet -fixtool=x",
		"env -w A=b", "env -u A", "get -u x", "get --u=patch x", "test -coverprofile=x", "test --coverprofile x", "test -cpuprofile x", "test -trace=x", "test -outputdir x",
		"test . -args -test.cpuprofile=x", "test -test.outputdir x", "test --test.trace=x", "build -overlay=x", "build -modfile=x", "build --ldflags=x", "build --asmflags x",
		"build -C x", "-C x test", "build -debug-trace=x", "build -mod=mod", "build --mod mod", "build -pkgdir x"} {
		if why := shell.Risky(strings.Fields("go " + line)); why == plain {
			t.Errorf("go %s: %s, as without the option", line, why)
		}
	}
}

func TestInterpreter_ByNameAndPath(t *testing.T) {
	for _, program := range []string{"python", "python3", "python3.12", "/usr/bin/python3", "Python.exe", "node", "sh", "bash", "/bin/zsh", "fish", "perl", "ruby3.2",
		"lua5.4", "awk", "gawk", "php8", "deno", "bun", "vim", "osascript", "pwsh", "sqlite3", "./bash"} {
		if !shell.Interpreter(program) {
			t.Errorf("%s is taken for no interpreter", program)
		}
	}
	for _, program := range []string{"", "ls", "git", "cat", "7", "md5sum", "/"} {
		if shell.Interpreter(program) {
			t.Errorf("%q is taken for an interpreter", program)
		}
	}
}

func TestGeneralisable_PrefixOfCommand(t *testing.T) {
	for line, want := range map[string]string{
		"git status -s": "git status", "git status": "git status", "git log --oneline": "git log", "ls -la": "ls", "ls": "ls", "/bin/ls -l x": "/bin/ls",
		"cat x": "cat", "find . -name x": "find", "grep -r x .": "grep", "sort -u x": "sort", "sed -n 1p x": "sed",
	} {
		if prefix, ok := shell.Generalisable(strings.Fields(line)); !ok || !slices.Equal(prefix, strings.Fields(want)) {
			t.Errorf("%q: got %q, %v, want %q", line, prefix, ok, want)
		}
	}
	for _, line := range []string{
		"", "npm test", "npm run x", "yarn", "pnpm i", "pip install x", "cargo test", "go test ./...", "brew install x", "python x.py", "node x", "bash x.sh", "sh -c ls",
		"sudo ls", "env ls", "timeout 5 ls", "xargs ls", "rm x", "git push", "git push origin main", "git commit -m x", "git -C x status", "git -c a=b status", "git",
		"git branch x", "git checkout x", "curl x", "wget x", "ssh h", "docker ps", "make test", "find . -delete", "sort -o x", "tee x", "./ls", "/tmp/ls", "~/bin/ls",
		"deploy --staging", "mkdir x", "sed -i p x", "gdb x", "less x", "watch ls", "git diff --output=x", "awk 1 x",
	} {
		if prefix, ok := shell.Generalisable(strings.Fields(line)); ok || prefix != nil {
			t.Errorf("%q may be generalised to %q", line, prefix)
		}
	}
}

func TestHarmlessVariable_AcceptsFew(t *testing.T) {
	for _, entry := range []string{"LANG=C", "LC_ALL=de_DE.UTF-8", "LC_ALL=", "LC_CTYPE=C.utf8", "LANG=en_US", "LANGUAGE=de:en", "TZ=Europe/Berlin", "TERM=xterm", "NO_COLOR=1", "CI=true", "PAGER=cat", "PAGER=", "GIT_PAGER=cat",
		"GIT_TERMINAL_PROMPT=0", "COLUMNS=80", "NODE_ENV=test"} {
		if !shell.HarmlessVariable(entry) {
			t.Errorf("%q is not harmless", entry)
		}
	}
	for _, entry := range []string{"", "LANG", "PATH=/x", "LD_PRELOAD=x", "LD_LIBRARY_PATH=x", "DYLD_INSERT_LIBRARIES=x", "BASH_ENV=x", "ENV=x", "IFS=x", "PS4=x", "SHELLOPTS=xtrace",
		"BASHOPTS=x", "GIT_SSH=x", "GIT_SSH_COMMAND=x", "GIT_DIR=x", "GIT_CONFIG_COUNT=1", "GIT_EXTERNAL_DIFF=x", "PAGER=less", "GIT_PAGER=x", "EDITOR=x", "VISUAL=x", "NODE_OPTIONS=x",
		"PYTHONPATH=x", "PYTHONSTARTUP=x", "PERL5OPT=x", "PERL5LIB=x", "RUBYOPT=x", "JAVA_TOOL_OPTIONS=x", "GOFLAGS=x", "CGO_CFLAGS=x", "CC=x", "HOME=/x", "CDPATH=/", "PROMPT_COMMAND=x",
		"LESSOPEN=|x", "BROWSER=x", "SHELL=/x", "TMPDIR=/x", "GIT_TERMINAL_PROMPT=1", "lang=C", "LANG=/etc/x", "TZ=/etc/x", "TZ=../../x", "CI=$(x)", "PAGER=cat\nx", "MAKEFLAGS=x", "LANG =C", "LC_ALL=zh_CN.GBK", "LANG=zh_TW",
		"LC_CTYPE=ja_JP.SJIS", "LC_ALL=en_US.BIG5", "LC_ALL=zh_CN.UTF-8@x", "LC_ALL=../C.UTF-8"} {
		if shell.HarmlessVariable(entry) {
			t.Errorf("%q is taken for harmless", entry)
		}
	}
}
