package files

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// allowing is a call that is held to a root, and may open one file outside of it.
func allowing(root, file string) Bounds {
	b := in(root)
	b.Allowed, b.Resolved = file, file
	return b
}

func TestAllowed_ReadsAndWritesFileOutsideRoots(t *testing.T) {
	outer := workspace(t)
	ws := outer + "/ws"
	put(t, ws+"/f", "inside")
	put(t, outer+"/out/f", "old")
	link(t, "../out/f", ws+"/link")
	link(t, outer+"/out", outer+"/alias")
	for name, c := range map[string]struct{ path, file, holds string }{
		"by its name":              {outer + "/out/f", outer + "/out/f", "old"},
		"by a link of the root":    {ws + "/link", outer + "/out/f", "old"},
		"by a link outside":        {outer + "/alias/f", outer + "/out/f", "old"},
		"by going up":              {ws + "/../out/f", outer + "/out/f", "old"},
		"a new one, in new folder": {outer + "/out/new/g", outer + "/out/new/g", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, b := New(), allowing(ws, c.file)
			if c.holds != "" {
				text, err := read(d, b, c.path)
				if err != nil || text.Content != c.holds || text.Path != c.file {
					t.Fatalf("read: %+v, %v", text, err)
				}
			}
			if _, err := write(d, b, c.path, "new"); err != nil {
				t.Fatal(err)
			}
			if got := contentOf(t, c.file); got != "new" {
				t.Errorf("the file holds %q", got)
			}
			put(t, outer+"/out/f", "old")
			// The next call may not.
			_, err := write(d, in(ws), c.path, "again")
			wantKind(t, err, Escapes)
		})
	}
}

func TestAllowed_OpensNoOtherFile(t *testing.T) {
	outer := workspace(t)
	ws := outer + "/ws"
	put(t, ws+"/f", "inside")
	put(t, outer+"/out/f", "old")
	put(t, outer+"/out/other", "other")
	put(t, outer+"/repo/.git/config", "[core]")
	put(t, outer+"/own/policy", "rules")
	put(t, outer+"/own-too", "x")
	if err := os.Link(outer+"/own/policy", outer+"/out/hard"); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(outer+"/out/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	link(t, outer+"/out/other", outer+"/out/swapped")
	link(t, outer+"/out/other", ws+"/swapped")
	link(t, outer+"/out", outer+"/parent")
	d := New()
	if err := d.Configure(Config{Protected: []string{outer + "/own", outer + "/own-too"}}, false); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path, allowed string
		read, write   Kind
	}{
		"another file":                            {outer + "/out/other", outer + "/out/f", Changed, Changed},
		"a link that leads elsewhere by now":      {ws + "/swapped", outer + "/out/f", Changed, Changed},
		"the file was replaced by a link":         {outer + "/out/swapped", outer + "/out/swapped", Changed, Changed},
		"a folder on its way was replaced by one": {outer + "/parent/f", outer + "/parent/f", Changed, Changed},
		"a folder":                            {outer + "/out", outer + "/out", Invalid, Invalid},
		"a file in an allowed folder":         {outer + "/out/f", outer + "/out", Changed, Changed},
		"a path with .. in an allowed folder": {outer + "/out/f", outer + "/out/../out/f", Changed, Changed},
		"a FIFO":                              {outer + "/out/fifo", outer + "/out/fifo", Invalid, Invalid},
		"a device":                            {"/dev/null", "/dev/null", Escapes, Escapes},
		"a process":                           {"/proc/self/mem", "/proc/self/mem", Escapes, Escapes},
		"the environment of a process":        {"/proc/1/environ", "/proc/1/environ", Escapes, Escapes},
		"git's own, which is read":            {outer + "/repo/.git/config", outer + "/repo/.git/config", 0, Protected},
		"acphost's own":                       {outer + "/own/policy", outer + "/own/policy", Protected, Protected},
		"acphost's own file":                  {outer + "/own-too", outer + "/own-too", Protected, Protected},
		"a second hard link to a file of acphost's": {outer + "/out/hard", outer + "/out/hard", Protected, Protected},
	} {
		t.Run(name, func(t *testing.T) {
			b := allowing(ws, c.allowed)
			for _, b.Resolved = range []string{b.Resolved, ""} { // the one does not need the other
				_, err := read(d, b, c.path)
				wantKind(t, err, c.read)
				_, err = write(d, b, c.path, "written")
				wantKind(t, err, c.write)
			}
			if _, err := d.List(context.Background(), b, c.path, 0); kindOf(err) != Escapes {
				t.Errorf("a list is %v", err)
			}
		})
	}
	for path, want := range map[string]string{"/out/f": "old", "/out/other": "other", "/own/policy": "rules", "/repo/.git/config": "[core]"} {
		if got := contentOf(t, outer+path); got != want {
			t.Errorf("%s holds %q", path, got)
		}
	}
}

func TestAllowed_WriteKeepsOtherHardLinks(t *testing.T) {
	outer := workspace(t)
	ws := outer + "/ws"
	put(t, ws+"/f", "inside")
	put(t, outer+"/elsewhere/rc", "old")
	if err := os.MkdirAll(outer+"/out", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{outer + "/out/f", ws + "/too"} {
		if err := os.Link(outer+"/elsewhere/rc", name); err != nil {
			t.Fatal(err)
		}
	}
	done, err := write(New(), allowing(ws, outer+"/out/f"), outer+"/out/f", "new")
	if err != nil || len(done.Notes) != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	for name, want := range map[string]string{"/out/f": "new", "/elsewhere/rc": "old", "/ws/too": "old"} {
		if got := contentOf(t, outer+name); got != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
}

func TestAllowed_ReadOnlyRootTakesPrecedence(t *testing.T) {
	outer := workspace(t)
	put(t, outer+"/ws/f", "old")
	link(t, "ws/f", outer+"/detour")
	b := Bounds{Roots: []Root{{Path: outer + "/ws", ReadOnly: true}}, Allowed: filepath.Join(outer, "ws/f")}
	if _, err := read(New(), b, outer+"/detour"); err != nil {
		t.Error(err)
	}
	_, err := write(New(), b, outer+"/detour", "new")
	wantKind(t, err, Denied)
}

func TestAllowed_SwappedFileIsRejected(t *testing.T) {
	outer := workspace(t)
	ws := outer + "/ws"
	put(t, ws+"/f", "inside")
	victim := put(t, outer+"/victim/f", "victim")
	put(t, outer+"/out/f", "old")
	d, b := New(), allowing(ws, outer+"/out/f")
	done, swapped := make(chan struct{}), make(chan struct{})
	go func() { // swaps the file for a link, and its folder for another
		defer close(swapped)
		for {
			select {
			case <-done:
				return
			default:
			}
			_ = os.Symlink(victim, outer+"/link")
			_ = os.Rename(outer+"/link", outer+"/out/f")
			_ = os.Rename(outer+"/out", outer+"/away")
			_ = os.Symlink(outer+"/victim", outer+"/out")
			_ = os.Remove(outer + "/out")
			_ = os.Rename(outer+"/away", outer+"/out")
			_ = os.Remove(outer + "/out/f")
			_ = os.WriteFile(outer+"/out/f", []byte("old"), 0o600)
		}
	}()
	for range 3000 {
		if text, err := read(d, b, outer+"/out/f"); err == nil && text.Content == "victim" {
			t.Fatal("the victim was read")
		}
		_, _ = write(d, b, outer+"/out/f", "new")
	}
	close(done)
	<-swapped
	if got := contentOf(t, victim); got != "victim" {
		t.Errorf("the victim holds %q", got)
	}
}
