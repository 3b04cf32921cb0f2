package files

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/paths"
)

func TestResolve_FollowsLinks(t *testing.T) {
	outer := workspace(t)
	ws := filepath.Join(outer, "ws")
	put(t, ws+"/a.txt", "a")
	put(t, ws+"/sub/b.txt", "b")
	put(t, outer+"/secret/key", "key")
	put(t, outer+"/ws-sibling/f", "f")
	link(t, "a.txt", ws+"/relative")
	link(t, ws+"/a.txt", ws+"/absolute")
	link(t, outer+"/secret/key", ws+"/out")
	link(t, outer+"/secret", ws+"/outdir")
	link(t, "../secret/nothing", ws+"/dangling-out")
	link(t, outer+"/secret/../ws/a.txt", ws+"/out-and-back")
	link(t, "missing/file", ws+"/dangling")
	link(t, "loop2", ws+"/loop1")
	link(t, "loop1", ws+"/loop2")
	link(t, "sub", ws+"/subdir")
	link(t, ws, outer+"/alias")
	link(t, "/proc/self/root", ws+"/magic")

	for name, c := range map[string]struct {
		path string
		want Kind
		real string
	}{
		"a file":                                       {ws + "/a.txt", 0, ws + "/a.txt"},
		"doubled slashes":                              {ws + "//sub///b.txt", 0, ws + "/sub/b.txt"},
		"single dots":                                  {ws + "/./sub/./b.txt", 0, ws + "/sub/b.txt"},
		"dots that stay inside":                        {ws + "/sub/../a.txt", 0, ws + "/a.txt"},
		"dots through an ancestor of the root":         {ws + "/../ws/a.txt", 0, ws + "/a.txt"},
		"a relative link":                              {ws + "/relative", 0, ws + "/a.txt"},
		"an absolute link inside":                      {ws + "/absolute", 0, ws + "/a.txt"},
		"a link that leaves and comes back":            {ws + "/out-and-back", 0, ws + "/a.txt"},
		"a folder through a link":                      {ws + "/subdir/b.txt", 0, ws + "/sub/b.txt"},
		"dots after a link go up from its target":      {ws + "/subdir/../a.txt", 0, ws + "/a.txt"},
		"dots take a missing name back":                {ws + "/nothing/../a.txt", 0, ws + "/a.txt"},
		"a missing file":                               {ws + "/nothing", Missing, ""},
		"a link to a missing file inside":              {ws + "/dangling", Missing, ""},
		"dots that leave":                              {ws + "/../secret/key", Escapes, ""},
		"dots above /":                                 {ws + strings.Repeat("/..", 40) + "/etc/passwd", Escapes, ""},
		"a path outside":                               {outer + "/secret/key", Escapes, ""},
		"a missing path outside":                       {outer + "/secret/nothing", Escapes, ""},
		"a folder whose name begins like the root's":   {outer + "/ws-sibling/f", Escapes, ""},
		"a link that leaves":                           {ws + "/out", Escapes, ""},
		"a folder link that leaves":                    {ws + "/outdir/key", Escapes, ""},
		"a folder link that leaves, then up":           {ws + "/outdir/../secret/key", Escapes, ""},
		"a missing file behind a link that leaves":     {ws + "/outdir/nothing", Escapes, ""},
		"a file as a folder behind a link that leaves": {ws + "/outdir/key/x", Escapes, ""},
		"a link to a missing file outside":             {ws + "/dangling-out", Escapes, ""},
		"a link of the kernel's own":                   {ws + "/magic/etc/passwd", Escapes, ""},
		"another spelling that the roots do not have":  {outer + "/alias/a.txt", Escapes, ""},
		"a detour that reveals a file outside":         {outer + "/secret/../ws/a.txt", Escapes, ""},
		"the same with nothing there":                  {outer + "/nothing/../ws/a.txt", Escapes, ""},
		"a loop":                                       {ws + "/loop1", Invalid, ""},
		"a file as a folder":                           {ws + "/a.txt/b", Invalid, ""},
		"a file as a folder, then up":                  {ws + "/a.txt/../a.txt", Invalid, ""},
		"a file with a slash":                          {ws + "/a.txt/", Invalid, ""},
		"a folder":                                     {ws + "/sub", Invalid, ""},
		"the root":                                     {ws, Invalid, ""},
		"an empty path":                                {"", Invalid, ""},
		"a relative path":                              {"a.txt", Invalid, ""},
		"a home path":                                  {"~/a.txt", Invalid, ""},
		"a URL":                                        {"file://" + ws + "/a.txt", Invalid, ""},
		"a NUL":                                        {ws + "/a\x00.txt", Invalid, ""},
		"a name of 256 bytes":                          {ws + "/" + strings.Repeat("n", 256), Invalid, ""},
		"a path of a megabyte":                         {ws + strings.Repeat("/n", 1<<19), Invalid, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := New()
			text, err := read(d, in(ws), c.path)
			wantKind(t, err, c.want)
			if err == nil && text.Path != c.real {
				t.Errorf("it led to %s, want %s", text.Path, c.real)
			}
			loc, err := d.Resolve(context.Background(), in(ws), c.path)
			if c.want == Escapes && (err != nil || loc.Inside) {
				t.Errorf("Resolve returned %+v, %v, want an answer that it is outside", loc, err)
			}
			if c.want == 0 && (err != nil || !loc.Inside || !loc.Exists || loc.Path != c.real || loc.Root != ws) {
				t.Errorf("Resolve returned %+v, %v, want %s inside %s", loc, err, c.real, ws)
			}
		})
	}
}

func TestRoots_MatchSpelledAndRealPath(t *testing.T) {
	outer := workspace(t)
	put(t, outer+"/private/tmp/ws/f", "f")
	link(t, "private/tmp", outer+"/tmp")
	link(t, "private", outer+"/again")
	cleaned, real := outer+"/tmp/ws", outer+"/private/tmp/ws"
	for _, root := range []string{cleaned, real, cleaned + "/", outer + "/again/tmp/../tmp/ws"} {
		for _, path := range []string{cleaned + "/f", real + "/f"} {
			if root == real && path == cleaned+"/f" {
				continue // a spelling that this session's roots do not have
			}
			if root == outer+"/again/tmp/../tmp/ws" && path == cleaned+"/f" {
				continue
			}
			text, err := read(New(), in(root), path)
			if err != nil || text.Path != real+"/f" {
				t.Errorf("root %s, path %s: %+v, %v", root, path, text, err)
			}
		}
	}
}

func TestRoots_InnermostDecides(t *testing.T) {
	ws := workspace(t)
	put(t, ws+"/vendor/lib/f", "f")
	link(t, "vendor", ws+"/also-vendor")
	b := Bounds{Roots: []Root{
		{Path: ws},
		{Path: ws + "/also-vendor", ReadOnly: true},
		{Path: ws + "/vendor/lib/writable"},
	}}
	d := New()
	for path, want := range map[string]Kind{
		ws + "/f":                        0,
		ws + "/vendor/lib/f":             Denied,
		ws + "/vendor/lib/new":           Denied,
		ws + "/vendor/lib/writable/x/y":  0,
		ws + "/vendor/lib/writable/../f": Denied,
	} {
		_, err := write(d, b, path, "new")
		if kindOf(err) != want {
			t.Errorf("%s: %v, want kind %d", path, err, want)
		}
	}
	if got := contentOf(t, ws+"/vendor/lib/f"); got != "f" {
		t.Errorf("a file below a read-only root became %q", got)
	}
	loc, err := d.Resolve(context.Background(), b, ws+"/vendor/lib/f")
	if err != nil || !loc.ReadOnly || loc.Root != ws+"/also-vendor" {
		t.Errorf("Resolve returned %+v, %v", loc, err)
	}
}

func TestRoots_ReadOnlyWinsOverEqual(t *testing.T) {
	ws := workspace(t)
	for _, roots := range [][]Root{{{ws, true}, {ws + "/", false}}, {{ws + "/", false}, {ws, true}}} {
		_, err := write(New(), Bounds{Roots: roots}, ws+"/f", "f")
		wantKind(t, err, Denied)
	}
}

func TestRoots_WholeFileSystem(t *testing.T) {
	ws := workspace(t)
	put(t, ws+"/f", "f")
	if _, err := read(New(), in("/"), ws+"/f"); err != nil {
		t.Error(err)
	}
	if _, err := New().List(context.Background(), in("/"), "/", 0); err != nil {
		t.Error(err)
	}
}

func TestRoots_MustBeAbsolute(t *testing.T) {
	for _, b := range []Bounds{{}, in("relative"), in(""), in("/a\x00")} {
		_, err := read(New(), b, "/etc/hostname")
		wantKind(t, err, Invalid)
	}
}

func TestRoots_UnresolvableDoesNotAffectOthers(t *testing.T) {
	ws := workspace(t)
	put(t, ws+"/good/f", "f")
	link(t, "loop", ws+"/loop")
	b := in(ws+"/loop", ws+"/nothing", ws+"/good")
	if _, err := read(New(), b, ws+"/good/f"); err != nil {
		t.Error(err)
	}
	_, err := read(New(), b, ws+"/nothing/f")
	wantKind(t, err, Missing)
	_, err = read(New(), b, ws+"/loop/f")
	wantKind(t, err, Invalid)
}

func TestResolve_RealParentOfMissingFile(t *testing.T) {
	ws := workspace(t)
	put(t, ws+"/real/f", "")
	link(t, "real", ws+"/alias")
	loc, err := New().Resolve(context.Background(), in(ws), ws+"/alias/new/deep/../file")
	if err != nil || loc.Path != ws+"/real/new/file" || loc.Exists || !loc.Inside {
		t.Errorf("got %+v, %v", loc, err)
	}
}

func TestResolve_RejectsPathChangedSinceDecision(t *testing.T) {
	ws := workspace(t)
	put(t, ws+"/one", "1")
	put(t, ws+"/two", "2")
	link(t, "one", ws+"/link")
	d := New()
	b := in(ws)
	loc, err := d.Resolve(context.Background(), b, ws+"/link")
	if err != nil {
		t.Fatal(err)
	}
	b.Resolved = loc.Path
	if _, err := read(d, b, ws+"/link"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(ws + "/link"); err != nil {
		t.Fatal(err)
	}
	link(t, "two", ws+"/link")
	_, err = read(d, b, ws+"/link")
	wantKind(t, err, Changed)
	_, err = write(d, b, ws+"/link", "new")
	wantKind(t, err, Changed)
	_, err = d.List(context.Background(), b, ws, 0)
	wantKind(t, err, Changed)
	if contentOf(t, ws+"/one") != "1" || contentOf(t, ws+"/two") != "2" {
		t.Error("a refused write wrote")
	}
}

// TestOpenExact_RejectsLinks: openExact finds links that were swapped in after the path was resolved. Both
// implementations are tested.
func TestOpenExact_RejectsLinks(t *testing.T) {
	ws := workspace(t)
	put(t, ws+"/dir/sub/f", "f")
	link(t, "dir", ws+"/alias")
	link(t, "f", ws+"/dir/sub/link")
	for name, open := range map[string]func(string, int) (int, error){"at once": openExact, "folder by folder": openWalking} {
		t.Run(name, func(t *testing.T) {
			fd, err := open(ws+"/dir/sub/f", safeOpenFlags)
			if err != nil {
				t.Fatal(err)
			}
			closeFile(t, fd)
			for _, path := range []string{ws + "/alias/sub/f", ws + "/dir/sub/link"} {
				if fd, err := open(path, safeOpenFlags); err == nil {
					closeFile(t, fd)
					t.Errorf("%s was opened", path)
				} else if kind := kindOf(openError(&resolvedPath{requested: path}, err)); kind != Changed {
					t.Errorf("%s: %v became kind %d, want %d", path, err, kind, Changed)
				}
			}
			fd, err = open("/", searchOnly)
			if err != nil {
				t.Fatal(err)
			}
			closeFile(t, fd)
		})
	}
}

// FuzzResolve builds a small tree with links from the input and compares with filepath.EvalSymlinks. A read may succeed
// only if the path stays inside the root, and has to return the same file.
func FuzzResolve(f *testing.F) {
	f.Add("a/b", "../c", "/b/../x")
	f.Add("../..", "/", "/l1/etc/passwd")
	f.Add("OUT", "l1/../WS", "/l2/f")
	f.Add("OUT/secret", "d/l3", "/l1")
	f.Add("d/../../out/secret", ".", "/l2/l2/l1/../f")
	f.Add("l2", "l1", "/d/l3/d/f")
	f.Fuzz(func(t *testing.T, target1, target2, path string) {
		outer := workspace(t)
		ws, out := outer+"/ws", outer+"/out"
		put(t, ws+"/f", "inside")
		put(t, ws+"/d/f", "inside")
		put(t, out+"/secret", "outside")
		for name, target := range map[string]string{"l1": target1, "l2": target2, "d/l3": target2} {
			target = strings.NewReplacer("WS", ws, "OUT", out).Replace(target)
			if os.Symlink(target, ws+"/"+name) != nil {
				return // empty, a NUL, too long
			}
		}
		d := New()
		requested := ws + path
		text, err := read(d, in(ws), requested)
		loc, resolveErr := d.Resolve(context.Background(), in(ws), requested)
		real, refErr := filepath.EvalSymlinks(requested)
		if err == nil {
			if text.Content != "inside" || !paths.Below(ws, text.Path) {
				t.Fatalf("read of %q gave %q of %s", requested, text.Content, text.Path)
			}
			if refErr == nil && real != text.Path {
				t.Fatalf("%q led to %s, the reference returned %s", requested, text.Path, real)
			}
		}
		if resolveErr == nil && loc.Inside && !paths.Below(ws, loc.Path) {
			t.Fatalf("Resolve took %s for inside", loc.Path)
		}
		if refErr == nil && resolveErr == nil && loc.Path != real && paths.Below(ws, loc.Path) {
			t.Fatalf("Resolve of %q returned %s, the reference returned %s", requested, loc.Path, real)
		}
	})
}
