package leaveout_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/services/supervisor/internal/policy/leaveout"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// secrets are globs as policies have them.
var secrets = []string{"**/.env", "**/.env.*", "**/*.{pem,key}", "**/.ssh/**", "**/[ab]x", "/nowhere/**"}

func folder(t *testing.T, files ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("TOKEN of "+name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func below(dir string) leaveout.Found {
	f := leaveout.New(secrets)
	f.Below(dir)
	return f.Found()
}

func TestForbidden_FoundByNameAndFolder(t *testing.T) {
	dir := folder(t, "main.go", "a/.env", "a/b/.ENV.local", "k/server.pem", "h/.ssh/config", "h/.ssh/more/id", "bx", "environment")
	if err := os.Symlink("/etc", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	got := below(dir)
	slices.Sort(got.Names)
	if want := []string{".ENV.local", ".env", ".ssh", "bx", "server.pem"}; !slices.Equal(got.Names, want) || got.Incomplete || got.Whole {
		t.Errorf("got %q, incomplete %t, whole %t, want %q", got.Names, got.Incomplete, got.Whole, want)
	}
	if got := below(filepath.Join(dir, "a/b")); !slices.Equal(got.Names, []string{".ENV.local"}) {
		t.Errorf("below a folder: got %q", got.Names)
	}
	if got := below(folder(t, "main.go", "x/y")); got.Any() {
		t.Errorf("where there is none: got %v", got)
	}
	if got := below(filepath.Join(dir, "none")); got.Any() {
		t.Errorf("of a folder that is not there: got %v", got)
	}
	if got := below(filepath.Join(dir, "h/.ssh")); !got.Whole {
		t.Error("a forbidden folder itself is not said to be one")
	}
}

func TestForbidden_UnreadableFolderIsIncomplete(t *testing.T) {
	dir := folder(t, "closed/x")
	if err := os.Chmod(filepath.Join(dir, "closed"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "closed"), 0o700) })
	if _, err := os.ReadDir(filepath.Join(dir, "closed")); err == nil {
		t.Skip("who runs this test can read every folder")
	}
	if got := below(dir); !got.Incomplete {
		t.Error("nothing is said")
	}
}

func TestPatterns_CoverGlobs(t *testing.T) {
	dir := folder(t, "main.go")
	got := below(dir).Patterns
	want := []string{".[Ee][Nn][Vv]", ".[Ee][Nn][Vv].*", "*.[Pp][Ee][Mm]", "*.[Kk][Ee][Yy]", ".[Ss][Ss][Hh]", "[ab][Xx]", "[Nn][Oo][Ww][Hh][Ee][Rr][Ee]"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for _, odd := range []string{"**", "/w/**/", "**/{a", `**/\*`} {
		f := leaveout.New([]string{odd})
		if got := f.Found().Patterns; !slices.Equal(got, []string{"*"}) {
			t.Errorf("%s: got %q, want all", odd, got)
		}
	}
}

// commands are those of programs that walk through folders.
func commands(programs []string) (all [][]string) {
	for _, program := range programs {
		all = append(all, []string{program, "-r", "x"})
	}
	return all
}

// Each program is run as it is told to, in a folder with secrets.
func TestRewrite_ProgramsLeaveOutSecrets(t *testing.T) {
	other := folder(t, "main.go")
	for _, c := range []struct {
		argv, walking []string
	}{
		{[]string{"grep", "-r", "TOKEN", "."}, []string{"grep"}},
		{[]string{"grep", "-rn", "--include=*.go", "--include=.*", "--include=*.pem", "TOKEN"}, []string{"grep"}},
		{[]string{"grep", "-r", "--", "TOKEN", "."}, []string{"grep"}},
		{[]string{"grep", "-r", "TOKEN", ".", "*x"}, []string{"grep"}},
		{[]string{"grep", "-rve", "--", "."}, []string{"grep"}},
		{[]string{"grep", "-r", "--exclude", "--", "TOKEN", "."}, []string{"grep"}},
		{[]string{"grep", "-r", "--label", "--", "--", "TOKEN", "."}, []string{"grep"}},
		{[]string{"diff", "--no-dereference", "-rN", "-L", "--", other, "."}, []string{"diff"}},
		{[]string{"sh", "-c", "grep -rv -e -- ."}, []string{"grep"}},
		{[]string{"grep", "-rv", "-e", "--", "."}, []string{"grep"}},
		{[]string{"grep", "-r", "--label", "--", "TOKEN", "."}, []string{"grep"}},
		{[]string{"sh", "-c", "grep -r TOKEN ./* --include=*.go --include=.*"}, []string{"grep"}},
		{[]string{"rg", "--hidden", "--no-ignore", "TOKEN"}, []string{"rg"}},
		{[]string{"rg", "-uu", "-g", ".env", "-g", "*.pem", "-g", "*", "TOKEN"}, []string{"rg"}},
		{[]string{"rg", "-uu", "--iglob", ".ENV", "--iglob", "*", "TOKEN"}, []string{"rg"}},
		{[]string{"diff", "--no-dereference", "-rN", other, "."}, []string{"diff"}},
		{[]string{"sh", "-c", "grep -r TOKEN . | grep -v none; ls"}, []string{"grep"}},
		{[]string{"sh", "-c", "grep -r TOKEN . 2>/dev/null && echo $(grep -rl -- TOKEN .)"}, []string{"grep", "grep"}},
		{[]string{"bash", "-lc", "for d in .; do grep -r TOKEN $d; done"}, []string{"grep"}},
	} {
		for _, incomplete := range []bool{false, true} {
			dir := folder(t, "main.go", "a/.env", "k/server.pem", "h/.ssh/config", "ax", "we[i]rd*/.env.a'b $(c)")
			found := below(dir)
			if found.Incomplete = incomplete; incomplete {
				found.Names = nil
			}
			argv, ok := leaveout.Tell(c.argv, commands(c.walking), found)
			if !ok {
				t.Errorf("%q cannot be told", c.argv)
				continue
			}
			if _, err := exec.LookPath(argv[0]); err != nil {
				t.Logf("%s is not installed: how it takes its options is not seen here", argv[0])
				continue
			}
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Dir = dir
			out, _ := cmd.CombinedOutput()
			if !strings.Contains(string(out), "main.go") && c.argv[0] != "diff" || strings.Contains(string(out), "unrecognized") {
				t.Errorf("%q finds nothing:\n%s", argv, out)
			}
			for _, secret := range []string{"of a/.env", "server.pem\n+", "of k/server.pem", "of h/.ssh", "of ax", "of we"} {
				if strings.Contains(string(out), secret) {
					t.Errorf("%q shows what it was told to leave out (%s):\n%s", argv, secret, out)
				}
			}
		}
	}
}

func TestRewrite_UncertainCommandsAreNotRewritten(t *testing.T) {
	found := below(folder(t, ".env"))
	whole := found
	whole.Whole = true
	for _, c := range []struct {
		name          string
		argv, walking []string
		found         leaveout.Found
	}{
		{"another program", []string{"ag", "x"}, []string{"ag"}, found},
		{"another program in the line", []string{"sh", "-c", "grep -r x .; ag x"}, []string{"grep", "ag"}, found},
		{"behind a wrapper", []string{"sh", "-c", "timeout 5 grep -r x ."}, []string{"grep"}, found},
		{"in a line within", []string{"sh", "-c", "sh -c 'grep -r x .'"}, []string{"grep"}, found},
		{"a wrapper", []string{"timeout", "5", "grep", "-r", "x"}, []string{"grep"}, found},
		{"another shell", []string{"zsh", "-c", "grep -r x ."}, []string{"grep"}, found},
		{"a forbidden folder itself", []string{"grep", "-r", "x", ".ssh"}, []string{"grep"}, whole},
		{"no command", nil, []string{"grep"}, found},
		{"an option that is not in the table", []string{"grep", "--fancy", "--", "-r", "x"}, []string{"grep"}, found},
		{"a word that may end the options", []string{"sh", "-c", "grep -r x * ."}, []string{"grep"}, found},
		{"a variable that may end the options", []string{"sh", "-c", `for f in *; do grep -r x "$f" .; done`}, []string{"grep"}, found},
		{"a name that is no text", []string{"grep", "-r", "x"}, []string{"grep"}, leaveout.Found{Names: []string{".env.\xff"}}},
		{"a name with a line's end", []string{"grep", "-r", "x"}, []string{"grep"}, leaveout.Found{Names: []string{".env.\nx"}}},
		{"a name that ends in a blank", []string{"grep", "-r", "x"}, []string{"grep"}, leaveout.Found{Names: []string{".env.x "}}},
		{"not a line", []string{"sh", "-c", "grep -r 'x"}, []string{"grep"}, found},
	} {
		if argv, ok := leaveout.Tell(c.argv, commands(c.walking), c.found); ok {
			t.Errorf("%s: told as %q", c.name, argv)
		}
	}
	ended := [][]string{{"grep", "-r", "x", "--", "."}} // as the program gets it
	if argv, ok := leaveout.Tell([]string{"sh", "-c", "for f in -- a; do grep -r x $f .; done"}, ended, found); ok {
		t.Errorf("a value that ends the options: told as %q", argv)
	}
	t.Setenv("POSIXLY_CORRECT", "1")
	if _, ok := leaveout.Tell([]string{"grep", "-r", "x"}, [][]string{{"grep", "-r", "x"}}, found); ok {
		t.Error("options behind operands count for nothing here")
	}
}
