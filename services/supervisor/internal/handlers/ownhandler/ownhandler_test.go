package ownhandler_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/handlers/ownhandler"
)

func TestPrograms_FindsHandlerBesideElseInside(t *testing.T) {
	dir := t.TempDir()
	self := filepath.Join(dir, "acphost")
	beside := filepath.Join(dir, "permd")
	if err := os.Symlink("nowhere", beside); err != nil { // what is there is not passed over, even if it cannot be started
		t.Fatal(err)
	}
	alone, carrying := ownhandler.Programs{Dir: dir}, ownhandler.Programs{Dir: dir, Self: self}
	for _, c := range []struct {
		programs ownhandler.Programs
		command  []string
		want     []string
	}{
		{alone, []string{"fsd", "-x"}, []string{filepath.Join(dir, "fsd"), "-x"}},
		{alone, []string{"/abs/fsd"}, []string{"/abs/fsd"}},
		{carrying, []string{"fsd", "-x"}, []string{self, "fsd", "-x"}},
		{carrying, []string{"permd"}, []string{beside}},
		{carrying, []string{"/abs/fsd"}, []string{"/abs/fsd"}},
		{carrying, []string{"acme"}, []string{filepath.Join(dir, "acme")}},
	} {
		if got := c.programs.Command(c.command); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q is started as %q, want %q", c.programs, c.command, got, c.want)
		}
	}
}
