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

var terminalLifeCases = []Case{
	{"WaitForExit returns code and signal", func(ctx context.Context, e *env) {
		for _, c := range []struct {
			line   string
			code   uint32
			signal string
		}{
			{"exit 0", 0, ""}, {"exit 42", 42, ""}, {"exit 255", 255, ""},
			{"kill -TERM $$", 0, "SIGTERM"}, {"kill -INT $$", 0, "SIGINT"}, {"kill -KILL $$", 0, "SIGKILL"},
		} {
			s := must(e.line(ctx, c.line))
			got := must(s.wait(ctx))
			wantExit(c.line, got.ExitCode, got.Signal, c.code, c.signal)
			exit := must(s.output(ctx)).GetExitStatus()
			wantExit("the output of "+c.line, exit.ExitCode, exit.Signal, c.code, c.signal)
		}
	}},
	{"WaitForExit that is cancelled kills nothing", func(ctx context.Context, e *env) {
		s := must(e.line(ctx, "echo up; exec sleep 1000"))
		waiting, cancel := context.WithCancel(ctx)
		defer cancel()
		done := begin(func() error {
			_, err := s.wait(waiting)
			return err
		})
		must(s.shows(ctx, "up"))
		cancel()
		wantCode("a cancelled wait", <-done, codes.Canceled)
		require(must(s.output(ctx)).GetExitStatus() == nil, "the command has ended with the wait")
	}},
	{"a grandchild that holds the terminal does not delay the exit", func(ctx context.Context, e *env) {
		s := must(e.line(ctx, "sleep 1000 & echo child=$!; exit 0"))
		ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Second, errors.New("the exit is not reported while a grandchild lives"))
		defer cancel()
		out := must(s.end(ctx))
		pid := pidIn(out.GetOutput(), "child")
		require(alive(pid), "the grandchild was ended with the command")
		check(s.kill(ctx))
		require(!alive(pid), "the grandchild is alive after the kill")
	}},
	{"Kill ends the whole tree and keeps the id", func(ctx context.Context, e *env) {
		s := must(e.line(ctx, "sleep 1000 & echo a=$!; (sleep 1000 & echo b=$!); echo c=$$; wait"))
		text := must(s.shows(ctx, "c="))
		check(s.kill(ctx))
		for _, name := range []string{"a", "b"} {
			require(!alive(pidIn(text, name)), "process %s is alive after the kill", name)
		}
		out, err := s.output(ctx)
		check(wrap("output after the kill", err))
		expect(out.GetExitStatus() != nil && strings.Contains(out.GetOutput(), "c="),
			"what is known after the kill", out, "the output and an exit status")
		check(wrap("a second kill", s.kill(ctx)))
	}},
	{"Kill ends commands that ignore SIGTERM, and stopped ones", func(ctx context.Context, e *env) {
		for _, line := range []string{
			"trap '' TERM HUP INT; echo a=$$; while :; do sleep 1000; done",
			"echo a=$$; kill -STOP $$",
		} {
			s := must(e.line(ctx, line))
			pid := pidIn(must(s.shows(ctx, "\n")), "a")
			check(s.kill(ctx))
			require(!alive(pid), "%q is alive after the kill", line)
		}
	}},
	{"Release ends the command and invalidates the id", func(ctx context.Context, e *env) {
		s := must(e.line(ctx, "sleep 1000 & echo a=$!; exec sleep 1000"))
		pid := pidIn(must(s.shows(ctx, "\n")), "a")
		check(s.release(ctx))
		s.wantUnknown(ctx)
		awaitDeath(ctx, "a child of a released terminal", pid)
	}},
	{"Release twice is no error", func(ctx context.Context, e *env) {
		s := must(e.line(ctx, ":"))
		for i := range 3 {
			check(wrap(fmt.Sprintf("release number %d", i+1), s.release(ctx)))
		}
	}},
	{"Release ends waiting calls with SIGKILL", func(ctx context.Context, e *env) {
		s := must(e.line(ctx, "trap '' TERM; echo up; while :; do sleep 1000; done"))
		var got *terminalv1.WaitForExitResponse
		answered := begin(func() (err error) {
			got, err = s.wait(ctx)
			return err
		})
		must(s.shows(ctx, "up"))
		check(s.release(ctx))
		// A wait that arrives after the release does not find the terminal; both results are valid.
		if err := <-answered; status.Code(err) != codes.NotFound {
			check(err)
			wantExit("a wait that a release ended", got.ExitCode, got.Signal, 0, "SIGKILL")
		}
	}},
	{"a terminal belongs to its scope", func(ctx context.Context, e *env) {
		s := must(e.line(ctx, "exec sleep 1000"))
		other := *s
		other.c = e.context()
		other.c.Scope = strings.Repeat("0", 32)
		other.wantForeign(ctx)
		_, err := s.output(ctx)
		check(wrap("its own scope, after another has tried", err))
	}},
	{"an unknown id is NOT_FOUND", func(ctx context.Context, e *env) {
		for _, id := range []string{"", "x", "acphost-" + strings.Repeat("f", 32)} {
			(&screen{e: e, c: e.context(), id: id}).wantForeign(ctx)
		}
	}},
	{"many terminals at once", func(ctx context.Context, e *env) {
		concurrently(20, func(i int) error {
			line := fmt.Sprintf("echo begin %d; sleep 0.1; echo end %d", i, i)
			return e.prints(ctx, line, fmt.Sprintf("begin %d\nend %d\n", i, i))
		})
	}},
}

// wantForeign requires that no call finds the terminal.
func (s *screen) wantForeign(ctx context.Context) {
	s.wantUnknown(ctx)
	wantUnknown(s.call("Release"), s.release(ctx), s.id)
}

// wantUnknown requires that no call finds the terminal, except for a release, which may be repeated.
func (s *screen) wantUnknown(ctx context.Context) {
	_, outputErr := s.output(ctx)
	_, waitErr := s.wait(ctx)
	for what, err := range map[string]error{"Output": outputErr, "WaitForExit": waitErr, "Kill": s.kill(ctx)} {
		wantUnknown(s.call(what), err, s.id)
	}
}

// call returns the name of a call on the terminal.
func (s *screen) call(name string) string {
	return fmt.Sprintf("%s of %q in scope %s", name, s.id, s.c.GetScope())
}

// pidIn finds "NAME=PID" on its own line.
func pidIn(text, name string) int {
	for line := range strings.Lines(text) {
		if number, ok := strings.CutPrefix(line, name+"="); ok {
			return must(strconv.Atoi(strings.TrimSpace(number)))
		}
	}
	require(false, "%q does not contain %s=PID", text, name)
	return 0
}

// alive reports whether a process exists; a zombie, if it can be detected, does not count.
func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		_, missing := os.Stat("/proc/self/stat")
		return missing != nil // no /proc: the signal decides
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// awaitDeath waits until a process has exited.
func awaitDeath(ctx context.Context, what string, pid int) {
	late := fmt.Sprintf("%s, process %d, is still alive", what, pid)
	must(await(ctx, late, func() (int, bool, error) { return pid, !alive(pid), nil }))
}
