package audit

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/ownfile"
)

func TestRepair_TornLastLine(t *testing.T) {
	first, err := format(record("a"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := format(record("b"))
	if err != nil {
		t.Fatal(err)
	}
	for _, meanwhile := range []bool{false, true} {
		for n := range len(second) + 1 {
			file := filepath.Join(t.TempDir(), "audit.jsonl")
			content := append(bytes.Clone(first), second[:n]...)
			o := Options{File: file}
			if meanwhile { // another supervisor tears it, while this one has the file open
				if err := os.WriteFile(file, first, 0o600); err != nil {
					t.Fatal(err)
				}
			} else if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
			l, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			if meanwhile {
				appendTo(t, file, string(second[:n]))
			}
			write(t, l, record("c"))
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			want := "a note c"
			switch n {
			case 0:
				want = "a c"
			case len(second) - 1:
				want = "a b note c"
			case len(second):
				want = "a b c"
			}
			if got := ids(readAll(t, file, Filter{})); got != want {
				t.Fatalf("%d of %d bytes, meanwhile %v: got %q, want %q", n, len(second), meanwhile, got, want)
			}
		}
	}
}

func TestRepair_NoteCountsLostBytes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(file, []byte(`{"time":"2026-`), 0o600); err != nil {
		t.Fatal(err)
	}
	l := open(t, Options{File: file, Now: func() time.Time { return time.Unix(0, 0) }})
	got := readAll(t, l.opts.File, Filter{})
	if len(got) != 1 || got[0].GetNote() != "the last line was torn by a crash; 14 bytes were cut off" ||
		got[0].GetSupervisor() != uint32(os.Getpid()) || got[0].GetTime().GetSeconds() != 0 || got[0].GetVerdict() != "" {
		t.Errorf("got %v", got)
	}
}

func TestWrite_RecreatesRemovedFile(t *testing.T) {
	l := open(t, Options{})
	write(t, l, record("a"))
	if err := os.Remove(l.opts.File); err != nil {
		t.Fatal(err)
	}
	write(t, l, record("b"))
	if got := ids(readAll(t, l.opts.File, Filter{})); got != "b" {
		t.Errorf("got %q", got)
	}
}

func TestWrite_HeldLockTimesOut(t *testing.T) {
	l := open(t, Options{})
	write(t, l, record("a"))
	held, err := ownfile.Append(l.opts.File)
	if err != nil {
		t.Fatal(err)
	}
	if err := ownfile.Lock(held, time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	// Those who wait behind one another do not wait one after another.
	const writers = 8
	started, errs := time.Now(), make(chan error, writers)
	for range writers {
		go func() { errs <- l.Write(record("b")) }()
	}
	for range writers {
		err := <-errs
		if !errors.Is(err, ownfile.ErrLocked) {
			t.Fatalf("got %v", err)
		}
		if text := err.Error(); !strings.Contains(text, l.opts.File) || !strings.Contains(text, "end it") || strings.Contains(text, "disk") {
			t.Errorf("it does not say what to do: %v", err)
		}
	}
	if took := time.Since(started); took > 3*ownfile.LockTimeout {
		t.Errorf("it took %v", took)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, l, record("c"))
	if got := ids(readAll(t, l.opts.File, Filter{})); got != "a c" {
		t.Errorf("got %q", got)
	}
}

func TestWrite_ConcurrentWritersKeepLinesWhole(t *testing.T) {
	l := open(t, Options{MaxBytes: MaxLine, Keep: 100})
	const writers, each = 8, 100
	errs := make(chan error, writers)
	for range writers {
		go func() {
			var err error
			for range each {
				err = errors.Join(err, l.Write(record("x")))
			}
			errs <- err
		}()
	}
	for range writers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if got := strings.Count(ids(readAll(t, l.opts.File, Filter{})), "x"); got != writers*each {
		t.Errorf("%d records, want %d", got, writers*each)
	}
}
