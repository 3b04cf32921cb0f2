package paths

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestSeen_AgreesWithSystem makes random trees and resolves paths in them with one Seen. Its cached results must not
// change an answer.
func TestSeen_AgreesWithSystem(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	names := []string{"a", "b", "c", "d"}
	some := func() string {
		path := names[r.IntN(len(names))]
		for range r.IntN(4) {
			path = filepath.Join(path, names[r.IntN(len(names))])
		}
		return path
	}
	var there, missing, plain, executable int
	for range 60 {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		for range 12 { // what cannot be made, since a file is in its way, is left out
			switch path := filepath.Join(dir, some()); r.IntN(6) {
			case 0:
				_ = os.WriteFile(path, nil, []os.FileMode{0o600, 0o700}[r.IntN(2)])
			case 1, 2:
				_ = os.MkdirAll(path, 0o700)
			case 3:
				_ = os.Symlink(filepath.Join(dir, some()), path)
			case 4:
				_ = os.Symlink("../"+some(), path)
			case 5:
				_ = os.Symlink(some(), path)
			}
		}
		seen := NewSeen()
		for range 60 {
			path := dir + "/" + some() + []string{"", "", "/", "/../" + some()}[r.IntN(4)]
			if got, want := seen.Real(path), Real(path); got != want {
				t.Fatalf("Real(%s) = %s, want %s", path, got, want)
			}
			real, ok := seen.Existing(path)
			want, err := filepath.EvalSymlinks(path)
			if ok != (err == nil) || ok && real != want {
				t.Fatalf("Existing(%s) = %s, %v; the system: %s, %v", path, real, ok, want, err)
			}
			if got, want := seen.NoFolder(real), NoFolder(real); got != want {
				t.Fatalf("NoFolder(%s) = %v, want %v", real, got, want)
			}
			clean := filepath.Clean(path)
			to, is := seen.Readlink(clean)
			if want, err := os.Readlink(clean); is != (err == nil) || to != want {
				t.Fatalf("Readlink(%s) = %s, %v; the system: %s, %v", clean, to, is, want, err)
			}
			info, err2 := os.Stat(clean)
			if got, want := seen.Executable(clean), err2 == nil && info.Mode().IsRegular() && info.Mode()&0o100 != 0; got != want {
				t.Fatalf("Executable(%s) = %v, want %v", clean, got, want)
			} else if got {
				executable++
			}
			if seen.Plain(path) {
				if plain++; path != clean || err == nil && want != path {
					t.Fatalf("%s is plain, and leads to %s", path, want)
				}
				for at := path; at != "/"; at = filepath.Dir(at) {
					if info, err := os.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink != 0 {
						t.Fatalf("%s is plain, and %s is a link", path, at)
					}
				}
			} else if ok && want == path {
				t.Fatalf("%s is not plain, and leads where it reads", path)
			}
			if ok {
				there++
			} else if errors.Is(err, fs.ErrNotExist) {
				missing++
			}
		}
	}
	if there < 300 || missing < 300 || plain < 300 || executable < 20 {
		t.Errorf("of the paths, %d exist, %d do not, %d are plain and %d can be executed", there, missing, plain, executable)
	}
}

// TestSeen_LooksAtEachNameOnce: a Seen resolves each name once, and a new Seen resolves it again.
func TestSeen_LooksAtEachNameOnce(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link, program := filepath.Join(dir, "link"), filepath.Join(dir, "program")
	if err := errors.Join(os.Symlink("one", link), os.WriteFile(program, nil, 0o700)); err != nil {
		t.Fatal(err)
	}
	seen := NewSeen()
	look := func(s *Seen) (string, bool) { return s.Real(link + "/x"), s.Executable(program) }
	if real, is := look(seen); real != dir+"/one/x" || !is {
		t.Fatal(real, is)
	}
	if err := errors.Join(os.Remove(link), os.Symlink("two", link), os.Chmod(program, 0o600)); err != nil {
		t.Fatal(err)
	}
	if real, is := look(seen); real != dir+"/one/x" || !is {
		t.Errorf("the same question has looked again: %s, %v", real, is)
	}
	for _, next := range []*Seen{nil, NewSeen()} {
		if real, is := look(next); real != dir+"/two/x" || is {
			t.Errorf("the next question has not looked: %s, %v", real, is)
		}
	}
}

func TestSeen_NoFollowEndsAtLink(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	outside, to := filepath.Join(dir, "outside"), filepath.Join(dir, "link")
	made := errors.Join(os.Mkdir(outside, 0o700), os.WriteFile(filepath.Join(outside, "file"), nil, 0o600), os.Symlink(outside, to))
	if made != nil {
		t.Fatal(made)
	}
	for name, before := range map[string]func(*Seen){
		"first":              func(*Seen) {},
		"after a follow":     func(s *Seen) { s.Real(to) },
		"after a path below": func(s *Seen) { s.Real(filepath.Join(to, "file")) },
	} {
		t.Run(name, func(t *testing.T) {
			seen := NewSeen()
			before(seen)
			if seen.NamesItself(to) {
				t.Error("the path names the link before NoFollow")
			}
			seen.NoFollow(to)
			if got := seen.Real(to); got != to || !seen.NamesItself(to) || !seen.NoFolder(to) {
				t.Errorf("got %s, want the link %s itself", got, to)
			}
			if got := seen.Real(outside); got != outside {
				t.Errorf("another path leads to %s, want %s", got, outside)
			}
		})
	}
	seen := NewSeen()
	seen.NoFollow(outside)
	if got := seen.Real(outside); got != outside || seen.NoFolder(outside) {
		t.Errorf("a folder leads to %s, want %s, as a folder", got, outside)
	}
}
