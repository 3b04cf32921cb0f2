package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
)

func terminalLifeCases() []demand {
	return []demand{
		{Name: "WaitForExit tells code and signal", Run: waitTells},
		{Name: "WaitForExit that is cancelled kills nothing", Run: waitCancelled},
		{Name: "a grandchild that holds the terminal does not delay the exit", Run: waitDespiteGrandchild},
		{Name: "Kill ends the whole tree and keeps the id", Run: killTree},
		{Name: "Kill ends what ignores SIGTERM, and what is stopped", Run: killStubborn},
		{Name: "Release ends the command and voids the id", Run: releaseEnds},
		{Name: "Release twice is no error", Run: releaseTwice},
		{Name: "Release answers who waits, with SIGKILL", Run: releaseAnswersWaits},
		{Name: "a terminal belongs to its scope", Run: terminalScopes},
		{Name: "an unknown id is NOT_FOUND", Run: terminalUnknown},
		{Name: "many terminals at once", Run: terminalMany},
	}
}

func waitTells(ctx context.Context, e *Env) {
	for _, c := range []struct {
		line   string
		code   uint32
		signal string
	}{{"exit 0", 0, ""}, {"exit 42", 42, ""}, {"exit 255", 255, ""}, {"kill -TERM $$", 0, "SIGTERM"}, {"kill -INT $$", 0, "SIGINT"}, {"kill -KILL $$", 0, "SIGKILL"}} {
		s := must(e.line(ctx, c.line))
		got := must(s.wait(ctx))
		check(wantExit(c.line, got.ExitCode, got.Signal, c.code, c.signal))
		out := must(s.output(ctx))
		check(wantExit("the output of "+c.line, out.GetExitStatus().ExitCode, out.GetExitStatus().Signal, c.code, c.signal))
	}
}

func waitCancelled(ctx context.Context, e *Env) {
	s := must(e.line(ctx, "echo up; exec sleep 1000"))
	waiting, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { _, err := s.wait(waiting); done <- err }()
	if _, err := s.shows(ctx, "up"); err != nil {
		cancel()
		fail(errors.Join(err, <-done))
	}
	cancel()
	check(wantCode("a cancelled wait", <-done, codes.Canceled))
	out, err := s.output(ctx)
	if err == nil && out.GetExitStatus() != nil {
		fail(errors.New("the command has ended with the wait"))
	}
	check(err)
}

func waitDespiteGrandchild(ctx context.Context, e *Env) {
	s := must(e.line(ctx, "sleep 1000 & echo child=$!; exit 0"))
	ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Second, errors.New("the exit is not told while a grandchild lives"))
	defer cancel()
	out := must(s.end(ctx))
	pid := must(pidIn(out.GetOutput(), "child"))
	if !alive(pid) {
		fail(errors.New("the grandchild was ended with the command"))
	}
	check(s.kill(ctx))
	if alive(pid) {
		fail(errors.New("the grandchild is alive after the kill"))
	}
}

func killTree(ctx context.Context, e *Env) {
	s := must(e.line(ctx, "sleep 1000 & echo a=$!; (sleep 1000 & echo b=$!); echo c=$$; wait"))
	text := must(s.shows(ctx, "c="))
	check(s.kill(ctx))
	for _, name := range []string{"a", "b"} {
		pid := must(pidIn(text, name))
		if alive(pid) {
			fail(fmt.Errorf("process %s is alive after the kill", name))
		}
	}
	out, err := s.output(ctx)
	check(named("output after the kill", err))
	if out.GetExitStatus() == nil || !strings.Contains(out.GetOutput(), "c=") {
		fail(differs("what is known after the kill", out, "the output and an exit status"))
	}
	check(named("a second kill", s.kill(ctx)))
}

func killStubborn(ctx context.Context, e *Env) {
	for _, line := range []string{
		"trap '' TERM HUP INT; echo a=$$; while :; do sleep 1000; done",
		"echo a=$$; kill -STOP $$",
	} {
		s := must(e.line(ctx, line))
		text := must(s.shows(ctx, "\n"))
		pid := must(pidIn(text, "a"))
		check(s.kill(ctx))
		if alive(pid) {
			fail(fmt.Errorf("%q is alive after the kill", line))
		}
	}
}

func releaseEnds(ctx context.Context, e *Env) {
	s := must(e.line(ctx, "sleep 1000 & echo a=$!; exec sleep 1000"))
	text := must(s.shows(ctx, "\n"))
	pid := must(pidIn(text, "a"))
	check(s.release(ctx))
	_, outputErr := s.output(ctx)
	_, waitErr := s.wait(ctx)
	for what, err := range map[string]error{"Output": outputErr, "WaitForExit": waitErr, "Kill": s.kill(ctx)} {
		check(wantUnknown(what+" after release", err, s.id))
	}
	check(awaitDeath(ctx, "a child of a released terminal", pid))
}

func releaseTwice(ctx context.Context, e *Env) {
	s := must(e.line(ctx, ":"))
	for i := range 3 {
		check(named(fmt.Sprintf("release number %d", i+1), s.release(ctx)))
	}
}

func releaseAnswersWaits(ctx context.Context, e *Env) {
	s := must(e.line(ctx, "trap '' TERM; echo up; while :; do sleep 1000; done"))
	type answer struct {
		resp *terminalv1.WaitForExitResponse
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		resp, err := s.wait(ctx)
		answered <- answer{resp, err}
	}()
	must(s.shows(ctx, "up"))
	releaseErr := s.release(ctx)
	got := <-answered
	switch {
	case releaseErr != nil:
		fail(releaseErr)
	case status.Code(got.err) == codes.NotFound:
		return // the wait came after the release; both are right
	case got.err != nil:
		fail(got.err)
	}
	check(wantExit("a wait that a release ended", got.resp.ExitCode, got.resp.Signal, 0, "SIGKILL"))
}

func terminalScopes(ctx context.Context, e *Env) {
	s := must(e.line(ctx, "exec sleep 1000"))
	other := *s
	other.c = e.Context()
	other.c.Scope = strings.Repeat("0", 32)
	wantForeign(ctx, &other)
	if _, err := s.output(ctx); err != nil {
		fail(fmt.Errorf("its own scope, after another has tried: %w", err))
	}
}

func terminalUnknown(ctx context.Context, e *Env) {
	for _, id := range []string{"", "x", "acphost-" + strings.Repeat("f", 32)} {
		wantForeign(ctx, &screen{e: e, c: e.Context(), id: id})
	}
}

// wantForeign demands that no call knows the terminal.
func wantForeign(ctx context.Context, s *screen) {
	_, outputErr := s.output(ctx)
	_, waitErr := s.wait(ctx)
	for what, err := range map[string]error{
		"Output": outputErr, "WaitForExit": waitErr, "Kill": s.kill(ctx), "Release": s.release(ctx),
	} {
		check(wantUnknown(fmt.Sprintf("%s of %q in scope %s", what, s.id, s.c.GetScope()), err, s.id))
	}
}

func terminalMany(ctx context.Context, e *Env) {
	const many = 20
	failed := make(chan error, many)
	for i := range many {
		go func() {
			failed <- e.prints(ctx, fmt.Sprintf("echo begin %d; sleep 0.1; echo end %d", i, i), fmt.Sprintf("begin %d\nend %d\n", i, i))
		}()
	}
	var all error
	for range many {
		all = errors.Join(all, <-failed)
	}
	check(all)
}

// pidIn finds "NAME=PID" on a line of its own.
func pidIn(text, name string) (int, error) {
	for line := range strings.Lines(text) {
		if number, ok := strings.CutPrefix(line, name+"="); ok {
			return strconv.Atoi(strings.TrimSpace(number))
		}
	}
	return 0, fmt.Errorf("%q does not say %s=PID", text, name)
}

// alive reports whether a process is there; a zombie, where that can be seen, is not.
func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		_, missing := os.Stat("/proc/self/stat")
		return missing != nil // no /proc: the signal has the last word
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// awaitDeath waits until a process is gone, which gives no other signal.
func awaitDeath(ctx context.Context, what string, pid int) error {
	for alive(pid) {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s, process %d, is still alive: %w", what, pid, context.Cause(ctx))
		}
	}
	return nil
}

// awaitPID waits until a command has written its pid into a file. Whether it can is told by failed.
func awaitPID(ctx context.Context, file string, failed <-chan error) (int, error) {
	for {
		if data, err := os.ReadFile(file); err == nil {
			return strconv.Atoi(strings.TrimSpace(string(data)))
		}
		select {
		case err := <-failed:
			if status.Code(err) == codes.Unimplemented {
				return 0, skip("Run is not answered")
			}
			return 0, fmt.Errorf("the command ended too early: %w", err)
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return 0, fmt.Errorf("the command has not started: %w", context.Cause(ctx))
		}
	}
}
