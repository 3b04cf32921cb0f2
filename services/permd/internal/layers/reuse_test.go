//go:build linux

package layers

import (
	"os"
	"path/filepath"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"

	"github.com/acphost/acphost/internal/reuse"
)

const readsAll = "  - {id: all, effect: allow, on: [fs.read], path: [\"${root}/**\"]}\n"

// reading is a call that reads a file of the workspace.
func (b *bench) reading(name string) *permissionv1.Action {
	a := b.access(permissionv1.Door_DOOR_CALL, name)
	a.Kind, a.Paths[0].Access = "fs.read", permissionv1.Access_ACCESS_READ
	return a
}

func TestReuse_EndsWhenFilesChange(t *testing.T) {
	for name, tt := range map[string]func(b *bench){
		"the user's rules change":           func(b *bench) { b.write(b.path("user"), readsAll+"  - {id: x, effect: deny, path: [\"**/b\"]}\n") },
		"the user's rules are gone":         func(b *bench) { _ = os.Remove(b.path("user")) },
		"the administrator's appear":        func(b *bench) { b.write(b.path("admin"), readsAll) },
		"the workspace's appear":            func(b *bench) { b.write(b.workspace(), readsAll) },
		"the workspace's are a link":        func(b *bench) { _ = os.Symlink(b.path("nothing"), b.workspace()) },
		"the workspace's folder is removed": func(b *bench) { _ = os.Remove(filepath.Dir(b.workspace())) },
		"the workspace's folder is a link": func(b *bench) {
			_ = os.Remove(filepath.Dir(b.workspace()))
			_ = os.Symlink(b.dir, filepath.Dir(b.workspace()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write(b.path("user"), readsAll)
			f := b.load(&permissionv1.Settings{Policy: b.path("user"), AdminPolicy: b.path("admin")})
			r := f.DecideToReuse(b.reading("a")).GetReuse()
			if r == nil || r.GetView() != reuse.View() || !holds(r) {
				t.Fatalf("it holds for its action alone: %v", r)
			}
			tt(b)
			if holds(r) {
				t.Errorf("it holds still: %v", r)
			}
		})
	}
}

func holds(r *permissionv1.Reuse) bool {
	for _, file := range r.GetFiles() {
		if !reuse.IsStill(file) {
			return false
		}
	}
	return true
}

func TestReuse_ChangedFilesCoverOneAction(t *testing.T) {
	b := newBench(t)
	b.write(b.path("user"), readsAll)
	settings := &permissionv1.Settings{Policy: b.path("user")}
	f := b.load(settings)
	alone := func(why string) {
		t.Helper()
		if d := f.DecideToReuse(b.reading("a")); d.GetVerdict() != allow || d.GetReuse() != nil {
			t.Errorf("%s: %v", why, d)
		}
	}
	b.write(b.path("user"), readsAll+"  - {id: x, effect: deny, path: [\"**/b\"]}\n")
	alone("the old rules and the new ones count")
	f = b.load(settings)
	if d := f.DecideToReuse(b.reading("a")); d.GetReuse() == nil {
		t.Errorf("after it was loaded: %v", d)
	}
	if err := os.WriteFile(b.path("user"), []byte("version: 1\nrules: [{id: x, efect: allow}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	alone("the rules cannot be read, so the old ones count")
}

func TestReuse_ReturnedOnRequest(t *testing.T) {
	b := newBench(t)
	b.write(b.path("user"), readsAll)
	f := b.load(&permissionv1.Settings{Policy: b.path("user")})
	if r := f.Decide(b.reading("a")).GetReuse(); r != nil {
		t.Errorf("returned without a request: %v", r)
	}
	if r := f.DecideToReuse(b.access(permissionv1.Door_DOOR_CALL, "a")).GetReuse(); r != nil {
		t.Errorf("of a write: %v", r)
	}
}
