package command

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/paths"
)

// place is a folder by its real path with programs in it.
func place(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"bin", "other", "sub", "bin/folder"} {
		must(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	for name, mode := range map[string]os.FileMode{
		"bin/tool": 0o755, "other/tool": 0o755, "bin/two words": 0o755, "bin/data": 0o644, "sub/local": 0o755, "my prog": 0o755,
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), mode))
	}
	must(t, os.Symlink("/", filepath.Join(dir, "out")))
	must(t, os.Symlink("sub", filepath.Join(dir, "in")))
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestResolve_Command(t *testing.T) {
	dir := place(t)
	at := func(p string) string { return filepath.Join(dir, p) }
	inherited := []string{"PATH=" + at("bin")}
	for _, tt := range []struct {
		name    string
		req     Request
		args    []string
		shell   bool
		program string
	}{
		{"a name in PATH", Request{Command: "tool"}, []string{"tool"}, false, at("bin/tool")},
		{"a name with arguments", Request{Command: "tool", Args: []string{"a b", ""}}, []string{"tool", "a b", ""}, false, at("bin/tool")},
		{"a line", Request{Command: "tool --all"}, []string{"sh", "-c", "tool --all"}, true, "/bin/sh"},
		{"a whole name with a space, in PATH", Request{Command: "two words"}, []string{"two words"}, false, at("bin/two words")},
		{"a whole path with a space", Request{Command: at("my prog")}, []string{at("my prog")}, false, at("my prog")},
		{"a path from cwd", Request{Command: "./local", Cwd: at("sub")}, []string{"./local"}, false, at("sub/local")},
		{"no path without a slash", Request{Command: "local", Cwd: at("sub")}, []string{"sh", "-c", "local"}, true, "/bin/sh"},
		{"a file that cannot be executed is a line", Request{Command: "data"}, []string{"sh", "-c", "data"}, true, "/bin/sh"},
		{"a folder is no program", Request{Command: "folder"}, []string{"sh", "-c", "folder"}, true, "/bin/sh"},
		{"with arguments nothing is a line", Request{Command: "nope", Args: []string{"x"}}, []string{"nope", "x"}, false, ""},
		{"the request's own PATH", Request{Command: "tool", Env: []Variable{{"PATH", at("other")}}}, []string{"tool"}, false, at("other/tool")},
		{"a PATH entry that starts in cwd", Request{Command: "local", Env: []Variable{{"PATH", "sub"}}}, []string{"local"}, false, at("sub/local")},
		{"a decided program", Request{Command: "ignored", Decided: &Argv{Args: []string{"tool", "x"}}}, []string{"tool", "x"}, false, at("bin/tool")},
		{"a program that did not exist when it was decided", Request{Command: "tool", Decided: &Argv{Args: []string{"tool", "x"}, Missing: true}}, []string{"tool", "x"}, false, ""},
		{
			"a line that was decided",
			Request{Command: "tool", Decided: &Argv{Args: []string{"sh", "-c", "tool"}, Shell: true}},
			[]string{"sh", "-c", "tool"}, true, "/bin/sh",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.Roots = []string{dir}
			got, err := Resolve(Config{Environ: inherited}, tt.req)
			must(t, err)
			if !slices.Equal(got.Args, tt.args) || got.Shell != tt.shell || got.Program != tt.program {
				t.Errorf("got %q, shell %t, program %q\nwant %q, shell %t, program %q",
					got.Args, got.Shell, got.Program, tt.args, tt.shell, tt.program)
			}
			if err := got.Startable(); (err == nil) != (tt.program != "") || (err != nil && !errors.Is(err, ErrCannotStart)) {
				t.Errorf("got startable %v", err)
			}
		})
	}
}

func TestWorkingDirectory_IsInsideRoots(t *testing.T) {
	dir := place(t)
	at := func(p string) string { return filepath.Join(dir, p) }
	alias := filepath.Join(t.TempDir(), "alias")
	must(t, os.Symlink(dir, alias))
	for _, tt := range []struct {
		name, cwd string
		roots     []string
		real      string
		kind      error
		text      string
	}{
		{"none: the first root", "", []string{at("sub"), dir}, at("sub"), nil, ""},
		{"a root itself", dir, []string{dir}, dir, nil, ""},
		{"below a root", at("sub"), []string{dir}, at("sub"), nil, ""},
		{"a link that stays inside", at("in"), []string{dir}, at("sub"), nil, ""},
		{"in the spelling of the root", alias + "/sub", []string{alias}, at("sub"), nil, ""},
		{"by its real path where the root is a link", at("sub"), []string{alias}, at("sub"), nil, ""},
		{"dots that stay inside", dir + "/sub/../sub/.", []string{dir}, at("sub"), nil, ""},
		{"relative", "sub", []string{dir}, "", ErrInvalid, "not an absolute path"},
		{"outside", "/etc", []string{dir}, "", ErrInvalid, "Path escapes workspace: /etc"},
		{"dots that lead outside", dir + "/..", []string{dir}, "", ErrInvalid, "Path escapes workspace: " + dir + "/.."},
		{"a link that leads outside", at("out/etc"), []string{dir}, "", ErrInvalid, "Path escapes workspace: " + at("out/etc")},
		{"a neighbour with the same beginning of its name", dir + "x", []string{dir}, "", ErrInvalid, "Path escapes workspace: " + dir + "x"},
		{"missing", at("nope"), []string{dir}, "", ErrInvalid, "it is missing"},
		{"a file", at("bin/data"), []string{dir}, "", ErrInvalid, "is not a directory"},
		{"protected", at("other"), []string{dir}, "", ErrProtected, "belongs to acphost itself"},
		{"no roots", dir, nil, "", ErrInvalid, "no roots"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := Config{Protected: []string{at("other")}}
			got, err := Resolve(s, Request{Command: "true", Cwd: tt.cwd, Roots: tt.roots})
			if tt.kind == nil {
				must(t, err)
				if got.Folder.Path != tt.real {
					t.Errorf("got %q, want %q", got.Folder.Path, tt.real)
				}
				return
			}
			if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want %q", err, tt.text)
			}
			quiet(t, err)
		})
	}
}

// quiet fails if an error has words that agents take for "there is no such file".
func quiet(t *testing.T, err error) {
	t.Helper()
	for _, words := range []string{"not found", "ENOENT", "does not exist", "no such file"} {
		if strings.Contains(strings.ToLower(err.Error()), strings.ToLower(words)) {
			t.Errorf("the error is %q: %v", words, err)
		}
	}
}

func TestEnvironment_Merged(t *testing.T) {
	dir := place(t)
	host := []string{
		"HOME=/home/u", "PATH=/usr/bin", "PLUGIN_CLIENT_CERT=x", "ACPHOST_HANDLER_COOKIE=x", "OPENAI_API_KEY=k", "GH_TOKEN=t",
		"MY_SECRET=s", "TOKENIZERS_PARALLELISM=true", "AWS_SECRET_ACCESS_KEY=a", "PGPASSWORD=p", "GITHUB_PAT=p", "DATABASE_URL=postgres://u:p@h/db",
		"CACHE_URL=redis://h/1", "AWS_REGION=x", "PLAIN=one", "PLAIN=https://u:p@h", "TERM=dumb", "PAGER=less", "COLUMNS=80", "HOME=/home/v", "odd", "=x", Mark + "OUTER=1",
	}
	got, err := Resolve(Config{Environ: Inherit(host, Filter{})}, Request{
		Command: "true", Roots: []string{dir},
		Env: []Variable{{"GIT_EDITOR", "vi"}, {"NEW_TOKEN", "given"}, {"A", "1"}, {"A", "2"}},
	})
	must(t, err)
	want := []string{
		"HOME=/home/v", "PATH=/usr/bin", "TOKENIZERS_PARALLELISM=true", "CACHE_URL=redis://h/1", "AWS_REGION=x", "TERM=xterm-256color", "PAGER=", Mark + "OUTER=1", "GIT_PAGER=cat",
		"GIT_EDITOR=vi", "PWD=" + dir, "NEW_TOKEN=given", "A=2",
	}
	if !slices.Equal(got.Env, want) {
		t.Errorf("got  %q\nwant %q", got.Env, want)
	}
}

func TestEnvironment_InheritedByPatterns(t *testing.T) {
	host := []string{"GITHUB_TOKEN=g", "NPM_TOKEN=n", "MINE=m", "DB=https://u:p@h"}
	for _, tt := range []struct {
		filter Filter
		want   []string
	}{
		{Filter{}, []string{"MINE=m"}},
		{Filter{Allow: []string{"GITHUB_*"}}, []string{"GITHUB_TOKEN=g", "MINE=m"}},
		{Filter{Allow: []string{"DB"}}, []string{"MINE=m", "DB=https://u:p@h"}},
		{Filter{Deny: []string{"MI*"}}, []string{"GITHUB_TOKEN=g", "NPM_TOKEN=n", "DB=https://u:p@h"}},
		{Filter{Deny: []string{"*"}, Allow: []string{"NPM_TOKEN"}}, []string{"NPM_TOKEN=n"}},
		{Filter{KeepAll: true}, host},
	} {
		if got := Inherit(host, tt.filter); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: got %q, want %q", tt.filter, got, tt.want)
		}
	}
}

func TestResolve_RejectsInvalidVariables(t *testing.T) {
	for _, v := range []Variable{{"", "x"}, {"A=B", "x"}, {"A\x00", "x"}, {"A", "x\x00"}, {Mark + "X", "1"}} {
		_, err := Resolve(Config{}, Request{Command: "true", Roots: []string{t.TempDir()}, Env: []Variable{v}})
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: got %v, want an invalid variable", v, err)
		}
	}
}

func TestResolve_RejectsInvalidCommands(t *testing.T) {
	for _, r := range []Request{
		{Command: ""}, {Command: " \n"}, {Command: "a\x00b"}, {Command: "a", Args: []string{"\x00"}},
		{Command: "a", Decided: &Argv{}}, {Command: "a", Decided: &Argv{Args: []string{""}}},
	} {
		r.Roots = []string{t.TempDir()}
		if _, err := Resolve(Config{}, r); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q %q: got %v, want an invalid command", r.Command, r.Args, err)
		}
	}
}

func TestPattern_Matches(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"A", "A", true},
		{"A", "AB", false},
		{"*_TOKEN", "GH_TOKEN", true},
		{"*_TOKEN", "GH_TOKENS", false},
		{"AWS_*", "AWS_X", true},
		{"AWS_*", "XAWS_X", false},
		{"*A*B*", "xAyBz", true},
		{"*A*B*", "xByAz", false},
		{"A*A", "A", false},
		{"*", "", true},
		{"a*", "A", false},
	} {
		if got := match(tt.pattern, tt.name); got != tt.want {
			t.Errorf("match(%q, %q): got %t, want %t", tt.pattern, tt.name, got, tt.want)
		}
	}
}

func TestResolve_RejectsRemovedFolder(t *testing.T) {
	root := filepath.Join(place(t), "session")
	for _, cwd := range []string{"", root, filepath.Join(root, "sub")} {
		_, err := Resolve(Config{}, Request{Command: "true", Cwd: cwd, Roots: []string{root}})
		if want := paths.RootMissing(root); !errors.Is(err, ErrInvalid) || err.Error() != want {
			t.Errorf("cwd %q: got %v, want %q", cwd, err, want)
		}
	}
}
