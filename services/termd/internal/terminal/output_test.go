package terminal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/acphost/acphost/services/termd/internal/command"
	"github.com/acphost/acphost/services/termd/internal/ring"
)

func TestTerminal_HasNoInput(t *testing.T) {
	s := bench(t, Options{})
	for _, tt := range []struct{ name, line, want string }{
		{"a size", "stty size <&1 2>/dev/null || stty -F $(readlink /proc/self/fd/1) size", "30 120\n"},
		{"stdout and stderr are terminals", "test -t 1 && test -t 2 && echo both", "both\n"},
		{"stdin is at its end", "test -t 0 || cat; echo end", "end\n"},
		{"no controlling terminal", "(exec </dev/tty) 2>/dev/null || echo none", "none\n"},
		{"TERM, PAGER, GIT_PAGER and GIT_EDITOR", "echo $TERM,$PAGER,$GIT_PAGER,$GIT_EDITOR", "xterm-256color,,cat,:\n"},
		{"its own session", "ps -o sid= -p $$ | tr -d ' ' | grep -qx $$ && echo leader", "leader\n"},
		{"the working directory", `test "$PWD" = "$(pwd -P)" && echo here`, "here\n"},
		{"no open files of ours", "ls -l /proc/self/fd | grep -c -e ptmx -e pidfd -e eventpoll", "0\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if status, got := wait(t, create(t, s, line(t, tt.line))); got != tt.want {
				t.Errorf("%s\n got %q (%v)\nwant %q", tt.line, got, status, tt.want)
			}
		})
	}
}

func TestExitStatus_OfCommand(t *testing.T) {
	s := bench(t, Options{})
	for _, tt := range []struct {
		line   string
		code   int
		signal string
	}{
		{"exit 0", 0, ""},
		{"exit 7", 7, ""},
		{"exit 255", 255, ""},
		{"kill -TERM $$", -1, "SIGTERM"},
		{"kill -KILL $$", -1, "SIGKILL"},
		{"ulimit -c 0; kill -SEGV $$", -1, "SIGSEGV"},
		{"yes | head -n 1 >/dev/null", 0, ""},
	} {
		if got, _ := wait(t, create(t, s, line(t, tt.line))); got.Code != tt.code || got.Signal != tt.signal {
			t.Errorf("%s: got %+v, want code %d, signal %q", tt.line, got, tt.code, tt.signal)
		}
	}
}

func TestOutput_OfShortCommandsIsComplete(t *testing.T) {
	s := bench(t, Options{})
	for i := range 200 {
		want := fmt.Sprintf("run %d\nlast", i)
		term := create(t, s, line(t, fmt.Sprintf("echo run %d; printf last", i)))
		if status, got := wait(t, term); got != want || status.Code != 0 {
			t.Fatalf("got %q (%v), want %q", got, status, want)
		}
		must(t, s.Release(scopeA, term.ID()))
	}
}

func TestOutput_20MiBIsComplete(t *testing.T) {
	const size = 20 << 20
	file := t.TempDir() + "/data"
	rnd := rand.NewChaCha8([32]byte{1})
	raw := make([]byte, size*3/4)
	_, _ = rnd.Read(raw)
	text := []byte(hex.EncodeToString(raw)[:size])
	for i := 99; i < len(text); i += 100 {
		text[i] = '\n'
	}
	must(t, os.WriteFile(file, text, 0o600))

	s := bench(t, Options{Limits: &Limits{PerScope: 1, Output: 32 << 20, Total: 96 << 20, Grace: time.Second}})
	term, err := s.Create(scopeA, line(t, "cat "+file), 32<<20)
	must(t, err)
	known := sha256.New()
	watched := make(chan error, 1)
	go func() {
		watched <- term.Watch(t.Context(), func(e Event) error {
			if e.Dropped > 0 {
				return fmt.Errorf("%d bytes dropped", e.Dropped)
			}
			known.Write(bytes.ReplaceAll(e.Data, []byte{'\r'}, nil))
			return nil
		})
	}()
	status, got := wait(t, term)
	if status.Code != 0 || got != string(text) {
		t.Errorf("got %d bytes of text (%v), want %d, the same", len(got), status, len(text))
	}
	must(t, <-watched)
	if want := sha256.Sum256(text); !bytes.Equal(known.Sum(nil), want[:]) {
		t.Error("the watched output differs from the written output")
	}
}

func TestOutput_KeepsNewestWholeCharacters(t *testing.T) {
	s := bench(t, Options{})
	term := create(t, s, line(t, `i=0; while [ $i -lt 300 ]; do printf 'zeile %d: äöü€🎉\n' $i; i=$((i+1)); done; printf Ende`))
	_, whole := wait(t, term)
	for limit := range 200 {
		got := term.output(limit)
		if !utf8.ValidString(got.Text) || !strings.HasSuffix(whole, got.Text) || !got.Truncated {
			t.Fatalf("limit %d: got %q, truncated %t", limit, got.Text, got.Truncated)
		}
		if len(got.Text) > limit || len(got.Text) < limit-3 {
			t.Fatalf("limit %d: got %d bytes", limit, len(got.Text))
		}
	}
	if got := term.output(len(whole)); got.Truncated || got.Text != whole {
		t.Errorf("at its exact size the text is truncated")
	}
}

func FuzzOutput_CutAtCharacter(f *testing.F) {
	f.Add("äöü€🎉 text\r\n", 5, 40)
	f.Add("\xff\xfe€", 2, 4)
	f.Fuzz(func(t *testing.T, text string, limit, times int) {
		limit, times = min(max(limit, 0), 5000), min(max(times, 1), 500)
		s := &Terminals{budget: ring.NewBudget(1 << 40)}
		term := newTerminal(s, nil, command.Plan{}, limit, DefaultLimits())
		for range times {
			term.append([]byte(text))
		}
		got := term.output(limit)
		if !utf8.ValidString(got.Text) || len(got.Text) > limit {
			t.Fatalf("limit %d: got %d bytes: %q", limit, len(got.Text), got.Text)
		}
		all := newTerminal(s, nil, command.Plan{}, 1<<30, DefaultLimits())
		for range times {
			all.append([]byte(text))
		}
		whole := all.output(1 << 30).Text
		if !strings.HasSuffix(whole, got.Text) || got.Truncated != (len(whole) > limit) || len(got.Text) < min(limit, len(whole))-3 {
			t.Fatalf("limit %d: got %q, truncated %t, of %q", limit, got.Text, got.Truncated, whole)
		}
	})
}

func TestOutput_TerminalsShareBudget(t *testing.T) {
	limits := DefaultLimits()
	limits.Total = 1 << 20
	s := bench(t, Options{Limits: &limits})
	var all []*Terminal
	for range 4 {
		term, err := s.Create(scopeA, line(t, "yes 123456789 | head -n 200000; echo the end"), 1<<20)
		must(t, err)
		all = append(all, term)
	}
	for _, term := range all {
		_, got := wait(t, term)
		if !strings.HasSuffix(got, "\nthe end\n") || !term.output(1<<30).Truncated {
			t.Errorf("got %d bytes that do not end as they should", len(got))
		}
	}
	if used := s.budget.Used(); used > limits.Total {
		t.Errorf("got %d bytes held, want at most %d", used, limits.Total)
	}
}

func TestWatch_ReplaysThenFollowsToEnd(t *testing.T) {
	s := bench(t, Options{})
	fifo := t.TempDir() + "/go"
	term := create(t, s, line(t, "mkfifo "+fifo+"; echo one; cat "+fifo+"; exit 3"))
	shows(t, term, "one\n")

	var raw strings.Builder
	var exit Event
	notified := false
	err := term.Watch(soon(t), func(e Event) error {
		raw.Write(e.Data)
		if e.Exit != nil {
			exit = e
		}
		if !notified { // it replays first; only then the command goes on
			notified = true
			return os.WriteFile(fifo, []byte("two\n"), 0)
		}
		return nil
	})
	must(t, err)
	if raw.String() != "one\r\ntwo\r\n" || exit.Exit == nil || exit.Exit.Code != 3 {
		t.Errorf("got %q, exit %v", raw.String(), exit.Exit)
	}
}

func TestWatch_SlowReaderIsToldMissedBytes(t *testing.T) {
	limits := DefaultLimits()
	limits.Output = 4096
	s := bench(t, Options{Limits: &limits})
	term := create(t, s, line(t, "echo start; sleep 0.1; yes abcdefgh | head -n 300000"))
	shows(t, term, "start")
	var data, dropped uint64
	first := true
	err := term.Watch(soon(t), func(e Event) error {
		data, dropped = data+uint64(len(e.Data)), dropped+e.Dropped
		if first { // the command does not wait for this watcher
			first = false
			_, _ = wait(t, term)
		}
		return nil
	})
	must(t, err)
	total := term.Info().OutputBytes
	if dropped == 0 || data+dropped != total {
		t.Errorf("got %d bytes and %d dropped, of %d", data, dropped, total)
	}
}

func TestWatch_CancelDoesNotBlock(t *testing.T) {
	s := bench(t, Options{})
	term := create(t, s, line(t, "echo x; sleep 100"))
	shows(t, term, "x")
	gone := errors.New("gone")
	if err := term.Watch(t.Context(), func(Event) error { return gone }); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	err := term.Watch(ctx, func(Event) error { cancel(gone); return nil })
	if !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

func TestPager_GitLogDoesNotWait(t *testing.T) {
	s := bench(t, Options{})
	term := create(t, s, line(t, `git init -q . && for i in 1 2 3 4 5 6 7 8 9; do
		git -c user.name=a -c user.email=a@b commit -q --allow-empty -m "commit $i

		body
		body"; done; git log; git commit --amend --allow-empty 2>&1 | head -n 1; echo end`))
	if status, got := wait(t, term); status.Code != 0 || !strings.Contains(got, "commit 1\n") || !strings.HasSuffix(got, "end\n") {
		t.Errorf("got %v %q", status, got)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func TestPager_FindsNoTerminal(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root can open the terminal for reading whatever its mode is")
	}
	if _, err := exec.LookPath("less"); err != nil {
		t.Skip(err)
	}
	s := bench(t, Options{})
	term := create(t, s, line(t, "seq 1 1000 >f; less f; echo over"))
	if _, got := wait(t, term); !strings.HasSuffix(got, "over\n") {
		t.Errorf("got %q", got)
	}
}
