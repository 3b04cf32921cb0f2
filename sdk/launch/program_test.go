package launch

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestDigest_EmptyIfProgramChangesDuringStart(t *testing.T) {
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
			// The clock of change times may not advance for some milliseconds.
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
			if err := p.checkUnchanged(); err != nil {
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

// TestStart_RunsOpenedProgram replaces a folder above a program after the program was opened, and restores it when the
// program runs. The program's own file does not change by that.
func TestStart_RunsOpenedProgram(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("programs are executed by their paths here")
	}
	program := func(folder, from string) {
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.Mkdir(folder, 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, "program"), data, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	top := t.TempDir()
	ours, theirs := filepath.Join(top, "ours"), filepath.Join(top, "theirs")
	program(ours, "/bin/true")
	program(theirs, "/bin/false")
	s := Spec{Name: "test", Command: []string{filepath.Join(ours, "program")}}
	if err := s.complete(); err != nil {
		t.Fatal(err)
	}
	opened, err := openProgram(s.Command[0])
	if err != nil {
		t.Fatal(err)
	}
	defer opened.close()
	swap := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	swap(ours, ours+".away")
	swap(theirs, ours)
	p := newProcess(s, opened)
	if err := p.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	swap(ours, theirs)
	swap(ours+".away", ours)
	<-p.exited
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the program that was not opened ran: exit status %d", code)
	}
	if err := opened.checkUnchanged(); err != nil {
		t.Errorf("the swap is seen (%v): this test is of nothing", err)
	}
}
