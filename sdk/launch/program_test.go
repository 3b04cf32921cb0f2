package launch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAProgramThatChangesWhileItStartsHasNoDigest(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, path string) error{
		"another file in its place": func(t *testing.T, path string) error {
			other := filepath.Join(t.TempDir(), "other")
			if err := os.WriteFile(other, []byte("same length"), 0o700); err != nil {
				return err
			}
			return os.Rename(other, path)
		},
		"written to, with its times put back": func(t *testing.T, path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			// The clock of change times may stand still for some milliseconds.
			for moved := false; !moved && err == nil; {
				if err = os.WriteFile(path, []byte("SAME LENGTH"), 0o700); err == nil {
					err = os.Chtimes(path, info.ModTime(), info.ModTime())
				}
				now, statErr := os.Stat(path)
				moved = statErr == nil && changeTime(now) != changeTime(info)
			}
			return err
		},
		"removed": func(_ *testing.T, path string) error { return os.Remove(path) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "program")
			if err := os.WriteFile(path, []byte("same length"), 0o700); err != nil {
				t.Fatal(err)
			}
			p, err := openProgram(path)
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			if err := p.same(); err != nil {
				t.Fatalf("unchanged: %v", err)
			}
			if err := change(t, path); err != nil {
				t.Fatal(err)
			}
			if digest, err := p.digest(); err == nil || digest != "" {
				t.Errorf("digest = %q, %v; want an error", digest, err)
			} else if !strings.Contains(err.Error(), "its program") {
				t.Errorf("error = %v", err)
			}
		})
	}
}
