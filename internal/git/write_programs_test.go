package git_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/git"
)

// trap is a set of files, each of which is written in turn. "MARK" in a text is a program that leaves a trace.
type trap struct {
	files []string // as of tree
	from  string   // the folder in which git is called
	args  []string // git status, if nil
}

const (
	monitor = "[core]\nrepositoryformatversion = 0\nfsmonitor = MARK\n"
	head    = "HEAD = ref: refs/heads/main\n"
)

var traps = map[string]trap{
	"a configuration":         {files: []string{".git/objects/", ".git/refs/", ".git/" + head, ".git/config = " + monitor}},
	"the configuration first": {files: []string{".git/config = " + monitor, ".git/objects/", ".git/refs/", ".git/" + head}},
	"a hook": {files: []string{".git/objects/", ".git/refs/", ".git/" + head, ".git/hooks/post-index-change = #!/bin/sh\nMARK\n"},
		args: []string{"add", "f"}},
	"hooks elsewhere": {files: []string{"h/post-index-change = #!/bin/sh\nMARK\n", ".git/hooks -> ../h", ".git/objects/", ".git/refs/", ".git/" + head},
		args: []string{"add", "f"}},
	"a bare repository":                {files: []string{head, "objects/", "refs/", "config = " + monitor + "worktree = .\n"}, args: []string{"--work-tree=.", "status"}},
	"a bare repository, backwards":     {files: []string{"config = " + monitor, "refs/", "objects/", head}, args: []string{"--work-tree=.", "status"}},
	"a bare repository's hook":         {files: []string{"hooks/post-index-change = #!/bin/sh\nMARK\n", head, "refs/", "objects/"}, args: []string{"--work-tree=.", "add", "f"}},
	"a .git file":                      {files: []string{"x/" + head, "x/objects/", "x/refs/", "x/config = " + monitor, ".git = gitdir: x\n"}},
	"a .git file first":                {files: []string{".git = gitdir: x\n", "x/config = " + monitor, "x/" + head, "x/objects/", "x/refs/"}},
	"a .git file to a folder in refs":  {files: []string{".git = gitdir: w/.git/refs/x\n", "w/.git/refs/x/" + head, "w/.git/refs/x/config = " + monitor, "w/.git/refs/x/refs/", "w/.git/refs/x/objects/"}},
	"a link .git":                      {files: []string{".git -> x", "x/" + head, "x/objects/", "x/refs/", "x/config = " + monitor}},
	"a commondir":                      {files: []string{"x/objects/", "x/refs/", "x/config = " + monitor, ".git/commondir = ../x\n", ".git/" + head}},
	"a commondir, backwards":           {files: []string{"x/config = " + monitor, ".git/" + head, ".git/commondir = ../x\n", "x/refs/", "x/objects/"}},
	"a commondir of an unnamed folder": {files: []string{"x/config = " + monitor, "x/refs/", "x/objects/", "y/" + head, "y/commondir = ../x\n", ".git = gitdir: y\n"}},
	"hooks of a commondir": {files: []string{"x/hooks/post-index-change = #!/bin/sh\nMARK\n", "x/refs/", "x/objects/", ".git/" + head, ".git/commondir = ../x\n"},
		args: []string{"add", "f"}},
	"a worktree's configuration": {files: []string{"x/objects/", "x/refs/", "x/config = [core]\nrepositoryformatversion = 1\n[extensions]\nworktreeConfig = true\n",
		"y/config.worktree = [core]\nfsmonitor = MARK\n", "y/" + head, "y/commondir = ../x\n", ".git = gitdir: y\n"}},
	"attributes": {files: []string{".git/objects/", ".git/refs/", ".git/" + head, ".git/info/attributes = f filter=x\n"}, args: []string{"-c", "filter.x.clean=MARK", "add", "f"}},
	"an include": {files: []string{"more = " + monitor, ".git/objects/", ".git/refs/", ".git/" + head, ".git/config = [include]\npath = ../more\n"}},
}

// TestWriteOf_RejectsWritesThatRunPrograms writes files that make git run a program, and expects that WriteOf or
// HarmlessConfig rejects one of the writes. Git runs the program if all writes are made, which shows that the case is
// an attack.
func TestWriteOf_RejectsWritesThatRunPrograms(t *testing.T) {
	for name, c := range traps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := tree(t, "f = x\n", "w/.git/refs/")
			mark := top + "/mark"
			write(t, mark, "#!/bin/sh\necho ran >"+top+"/ran\nexit 1\n", 0o700)
			refused := ""
			for _, file := range c.files {
				file = strings.ReplaceAll(file, "MARK", mark)
				if !accepted(t, top, file) && refused == "" {
					refused = file
				}
				place(t, top, file)
			}
			args := c.args
			if args == nil {
				args = []string{"status"}
			}
			cmd := exec.Command("git", strings.Split(strings.ReplaceAll(strings.Join(args, "\x00"), "MARK", mark), "\x00")...)
			cmd.Dir = filepath.Join(top, c.from)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + top, "GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES=" + filepath.Dir(top)}
			out, _ := cmd.CombinedOutput() // some fail, and have run it
			if _, err := os.Stat(top + "/ran"); err != nil {
				t.Errorf("git ran nothing: this is no trap\n%s", out)
			}
			if refused == "" {
				t.Error("each write was accepted")
			}
		})
	}
}

// accepted reports whether a file of tree is made of folders, State, and harmless configurations, each made before the next.
func accepted(t *testing.T, top, file string) bool {
	t.Helper()
	name, _, isLink := strings.Cut(file, " -> ")
	name, text, _ := strings.Cut(name, " = ")
	ok := true
	for i := range name {
		if folder := filepath.Join(top, name[:i]); name[i] == '/' {
			if _, err := os.Lstat(folder); err != nil {
				ok = ok && git.WriteOf(git.Change{Path: folder, Folder: true}) <= git.State
				if err := os.Mkdir(folder, 0o700); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if strings.HasSuffix(name, "/") {
		return ok
	}
	file = filepath.Join(top, name)
	switch git.WriteOf(git.Change{Path: file}) {
	case git.NotGit, git.State:
		return ok
	case git.Config:
		return ok && !isLink && git.HarmlessConfig(file, []byte(text), nil) == ""
	}
	return false
}

func place(t *testing.T, top, file string) {
	t.Helper()
	name, target, isLink := strings.Cut(file, " -> ")
	name, text, _ := strings.Cut(name, " = ")
	switch {
	case isLink:
		symlink(t, target, filepath.Join(top, name))
	case !strings.HasSuffix(name, "/"):
		write(t, filepath.Join(top, name), text, 0o700)
	}
}
