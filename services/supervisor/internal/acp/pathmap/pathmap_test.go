package pathmap

import (
	"path"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp/transcode"
)

func mustMaps(t testing.TB, pairs ...string) *Maps {
	t.Helper()
	var all []Map
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, Map{Here: pairs[i], There: pairs[i+1]})
	}
	m, err := New(all)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMaps_ThereMapsByComponents(t *testing.T) {
	m := mustMaps(t, "/home/me/src", "/workspace", "/home/me/docs", "/mnt/docs")
	for _, c := range []struct{ name, path, want, refused string }{
		{"the folder itself", "/home/me/src", "/workspace", ""},
		{"with a slash at its end", "/home/me/src/", "/workspace/", ""},
		{"a file in it", "/home/me/src/a/b.go", "/workspace/a/b.go", ""},
		{"another map", "/home/me/docs/x", "/mnt/docs/x", ""},
		{"a folder with the same beginning of its name is another one", "/home/me/src2/x", "/home/me/src2/x", ""},
		{"a file called like the map", "/home/me/src.txt", "/home/me/src.txt", ""},
		{"a file in it called like the map", "/home/me/src/src", "/workspace/src", ""},
		{"the folder above it", "/home/me", "/home/me", ""},
		{"a path outside", "/etc/passwd", "/etc/passwd", ""},
		{"doubled slashes", "/home//me/src//a", "/workspace/a", ""},
		{"a dot", "/home/./me/src/./a", "/workspace/a", ""},
		{"up and down in it", "/home/me/src/a/../b", "/workspace/a/../b", ""},
		{"up out of it", "/home/me/src/../src2/x", "", "goes up"},
		{"up out of it and back", "/home/me/src/../src/x", "", "goes up"},
		{"deeper up out of it", "/home/me/src/a/../../../you/x", "", "goes up"},
		{"up out of it to the sidecar's name", "/home/me/src/../../../workspace/x", "", "goes up"},
		{"up into it", "/home/me/x/../src/a", "", "goes up (..) into"},
		{"up into the sidecar's name", "/tmp/../workspace/a", "", "is not a path of this session"},
		{"the sidecar's own name", "/workspace", "", "is not a path of this session: name files in /home/me/src"},
		{"a file by the sidecar's own name", "/workspace/a", "", "is not a path of this session"},
		{"the sidecar's name in another case", "/WorkSpace/a", "", "is not a path of this session"},
		{"the client's name in another case", "/home/me/SRC/a", "", "only in case"},
		{"a name with the same beginning as the sidecar's", "/workspace2/a", "/workspace2/a", ""},
		{"no path", "", "", ""},
		{"a relative path", "../a", "../a", ""},
		{"three dots are a name", "/home/me/src/.../a", "/workspace/.../a", ""},
		{"a name that ends in dots", "/home/me/src/a../b", "/workspace/a../b", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := m.SidecarPath(c.path)
			switch {
			case c.refused == "" && err != nil:
				t.Fatal(err)
			case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
				t.Fatalf("got %q, %v; want an error with %q", got, err, c.refused)
			case got != c.want:
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestMaps_HereMapsBackOrFails(t *testing.T) {
	m := mustMaps(t, "/home/me/src", "/workspace")
	for _, c := range []struct{ name, path, want, refused string }{
		{"the folder", "/workspace", "/home/me/src", ""},
		{"a file in it", "/workspace/a", "/home/me/src/a", ""},
		{"a name with the same beginning", "/workspace2/a", "/workspace2/a", ""},
		{"a file outside has the same name", "/etc/passwd", "/etc/passwd", ""},
		{"a folder of the sidecar that has the client's name", "/home/me/src/a", "", "another place"},
		{"one in another case", "/home/ME/src/a", "", "another place"},
		{"the sidecar's in another case", "/WORKSPACE/a", "", "another place"},
		{"up out of the folder", "/workspace/../etc/passwd", "/workspace/../etc/passwd", ""},
		{"up into the client's name", "/workspace/../home/me/src/a", "", "another place"},
		{"nothing", "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := m.ClientPath(c.path)
			if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) || got != c.want {
				t.Errorf("got %q, %v; want %q, %q", got, err, c.want, c.refused)
			}
		})
	}
}

// Whatever path an agent sends, the sidecar's path for it is the client's again.
func FuzzMaps_RoundTrip(f *testing.F) {
	for _, s := range []string{"/home/me/src/a", "/home/me/src/a/../b", "/workspace", "/home/me/src2", "/", "/home/me/./src", "//home/me/src", "/home/me/src/", "/HOME/me/src/..", "a"} {
		f.Add(s)
	}
	m := mustMaps(f, "/home/me/src", "/workspace", "/data", "/mnt/data")
	f.Fuzz(func(t *testing.T, name string) {
		there, err := m.SidecarPath(name)
		if err != nil {
			return
		}
		here, err := m.ClientPath(there)
		if err != nil {
			t.Fatalf("%q is %q there, which has no path here: %v", name, there, err)
		}
		if !strings.HasPrefix(name, "/") {
			if here != name {
				t.Fatalf("the relative %q became %q", name, here)
			}
			return
		}
		if got, want := clean(here), clean(name); got != want {
			t.Fatalf("%q is %q there, and %q here", name, there, here)
		}
		for _, f := range m.All() { // inside a map on one side is inside it on the other
			if in, out := under(f.Here, clean(name)), under(f.There, clean(there)); in != out {
				t.Fatalf("%q is %q there: only one of them lies in %v", name, there, f)
			}
		}
	})
}

func clean(name string) string { return "/" + strings.Trim(path.Clean(name), "/") }

func under(folder, name string) bool { return name == folder || strings.HasPrefix(name, folder+"/") }

func TestHereText_ReplacesPaths(t *testing.T) {
	m := mustMaps(t, "/home/me/src", "/workspace", "/home/me/w2", "/ws/deep")
	for text, want := range map[string]string{
		"":                                       "",
		"Resource not found: /workspace":         "Resource not found: /home/me/src",
		"Path escapes workspace: /workspace/a b": "Path escapes workspace: /home/me/src/a b",
		`open "/workspace/x": is a folder.`:      `open "/home/me/src/x": is a folder.`,
		"it leads to /workspace.":                "it leads to /home/me/src.",
		"/workspace and /ws/deep/x":              "/home/me/src and /home/me/w2/x",
		"/workspace2, /a/workspace, workspace/x, /workspace.d": "/workspace2, /a/workspace, workspace/x, /workspace.d",
		"path=/workspace:/workspace/bin":                       "path=/home/me/src:/home/me/src/bin",
		"//workspace":                                          "//workspace",
	} {
		if got := m.ClientText(text); got != want {
			t.Errorf("HereText(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestMaps_RejectMappedPathsInCommands(t *testing.T) {
	m := mustMaps(t, "/home/me/src", "/workspace")
	for _, c := range []struct {
		name    string
		command transcode.Command
		refused string // empty: it passes
	}{
		{"a path below the working directory", line("/home/me/src", "cat a/b.go && go test ./..."), ""},
		{"a path outside", line("/home/me/src", "cat /etc/hosts > /tmp/x"), ""},
		{"a folder that begins alike", line("/home/me/src", "cat /home/me/src2/a"), ""},
		{"a longer path that ends alike", line("/home/me/src", "cat /mnt/home/me/src/a"), ""},
		{"up and down in the folder", line("/home/me/src/a", "cat ../b"), ""},
		{"a range of commits", line("/home/me/src", "git diff HEAD~3..HEAD"), ""},
		{"an address", line("/home/me/src", "curl https://example.com/home/me/src"), ""},
		{"after a change of folder", line("/home/me/src", "cd a && cat ../b"), ""},
		{"where the policy does not know the folder either", line("/home/me/src/a", "cd .. && cd .. && ls"), ""},

		{"an operand", line("/home/me/src", "cat /home/me/src/a"), "the word /home/me/src/a names /home/me/src/a, but the sidecar sees /home/me/src as /workspace"},
		{"the folder", line("/home/me/src", "ls /home/me/src"), "but the sidecar sees"},
		{"with a slash at its end", line("/home/me/src", "ls /home/me/src/"), "but the sidecar sees"},
		{"in quotes", line("/home/me/src", `cat "/home/me"/src/a`), "but the sidecar sees"},
		{"with escapes", line("/home/me/src", `cat /home/me/s\rc/a`), "but the sidecar sees"},
		{"in ANSI-C quotes", line("/home/me/src", `cat $'/home/me/\x73rc/a'`), "but the sidecar sees"},
		{"with dots", line("/home/me/src", "cat /home/./me/x/../src/a"), "but the sidecar sees"},
		{"in another case", line("/home/me/src", "cat /home/me/SRC/a"), "but the sidecar sees"},
		{"after an option", line("/home/me/src", "gcc -I/home/me/src/include a.c"), "but the sidecar sees"},
		{"after an equals sign", line("/home/me/src", "make --directory=/home/me/src"), "but the sidecar sees"},
		{"in a list", line("/home/me/src", "java -cp /usr/x:/home/me/src/y"), "but the sidecar sees"},
		{"as a URL", line("/home/me/src", "curl file:///home/me/src/a"), "but the sidecar sees"},
		{"as an escaped URL", line("/home/me/src", "curl file:///home/me/%73rc/a"), "but the sidecar sees"},
		{"as a redirection", line("/home/me/src", "echo x >/home/me/src/a"), "but the sidecar sees"},
		{"as a program", line("/home/me/src", "/home/me/src/run.sh"), "but the sidecar sees"},
		{"as an assignment", line("/home/me/src", "X=/home/me/src make"), "but the sidecar sees"},
		{"in a nested shell", line("/home/me/src", `sh -c 'cat "/home/me/src/a"'`), "but the sidecar sees"},
		{"in code", line("/home/me/src", `python3 -c "print(open('/home/me/src/a').read())"`), "but the sidecar sees"},
		{"in a here-document", line("/home/me/src", "sh <<X\ncat /home/me/src/a\nX"), "but the sidecar sees"},
		{"in a line that cannot be read", line("/home/me/src", "cat /home/me/src/a '"), "but the sidecar sees"},
		{"in a substitution", line("/home/me/src", "cat $(echo /home/me/src/a)"), "but the sidecar sees"},
		{"as the start of a pattern", line("/home/me/src", "cat /home/me/src*/a"), "but the sidecar sees"},
		{"after a change of folder to it", line("/tmp", "cd /home/me/src && cat a"), "but the sidecar sees"},
		{"by a folder above that is not mapped", line("/home/me", "cat src/a"), "but the sidecar sees"},
		{"from beside it", line("/home/me/other", "cat ../src/a"), "but the sidecar sees"},

		{"the sidecar's own name", line("/home/me/src", "cat /workspace/a"), "which is no path of this session"},
		{"up out of the folder", line("/home/me/src", "cat ../docs/a"), "goes up (..) out of /home/me/src"},
		{"up out of it from below", line("/home/me/src/a", "cat ../../x"), "goes up"},
		{"up out of it by a change of folder", line("/home/me/src", "cd .. && ls"), "goes up"},
		{"up out of it in code", line("/home/me/src", `python3 -c "open('../x')"`), "goes up"},
		{"up out of it in an option", line("/home/me/src", "make -C../x"), "goes up"},

		{"an argument", transcode.Command{Command: "cat", Args: []string{"/home/me/src/a"}, Directory: "/home/me/src"}, "but the sidecar sees"},
		{"an argument with a blank", transcode.Command{Command: "cat", Args: []string{"/home/me/src/a b"}, Directory: "/home/me/src"}, "but the sidecar sees"},
		{"a line as an argument", transcode.Command{Command: "bash", Args: []string{"-lc", "cat /home/me/'src'/a"}, Directory: "/home/me/src"}, "but the sidecar sees"},
		{"a variable", transcode.Command{Command: "make", Variables: []string{"x", "/usr/bin:/home/me/src/bin"}, Directory: "/home/me/src"}, "environment variable 2 names /home/me/src/bin"},
		{"a variable that goes up", transcode.Command{Command: "make", Variables: []string{"../.."}, Directory: "/home/me/src"}, "goes up"},
		{"no folder is known", transcode.Command{Command: "cat ../a /home/me/src/x"}, "but the sidecar sees"},
		{"no folder is known, and no path", transcode.Command{Command: "cat ../a"}, ""},
		{"a very long line", line("/home/me/src", strings.Repeat("x ", 1<<17)+"/home/me/src/a"), "but the sidecar sees"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := m.CheckCommand(c.command)
			if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("got %v, want %q", err, c.refused)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func line(dir, text string) transcode.Command {
	return transcode.Command{Command: text, Directory: dir}
}

func TestNew_WithoutMapsIsNil(t *testing.T) {
	m, err := New(nil)
	if err != nil || m != nil || m.All() != nil {
		t.Fatalf("got %v, %v", m, err)
	}
	if Wrap(nil, m) != nil {
		t.Error("a connection without maps is wrapped")
	}
}

func TestMaps_NilMapsNothing(t *testing.T) {
	var m *Maps
	if got, err := m.SidecarPath("/w/a"); got != "/w/a" || err != nil {
		t.Errorf("There: got %q, %v", got, err)
	}
	if got, err := m.ClientPath("/w/a"); got != "/w/a" || err != nil {
		t.Errorf("Here: got %q, %v", got, err)
	}
}
