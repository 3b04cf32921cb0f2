package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
)

func terminalOutputCases() []demand {
	return []demand{
		{Name: "Output is plain text", Run: outputIsPlain},
		{Name: "Output shows what has come so far", Run: outputSoFar},
		{Name: "Output keeps the newest bytes and cuts at a character", Run: outputKeepsTheNewest},
		{Name: "Output is complete at the exit", Run: outputIsComplete},
		{Name: "no output of a short command is lost", Run: outputOfShortCommands},
	}
}

func outputIsPlain(ctx context.Context, e *Env) {
	for printf, want := range map[string]string{
		`one\ntwo`:                        "one\ntwo",
		`\033[1;31mred\033[0m plain\n`:    "red plain\n",
		`10%%\r50%%\r100%%\n`:             "100%\n",
		`abc\rX\n`:                        "Xbc\n",
		`old text\r\033[Knew\n`:           "new\n",
		`\033]0;title\007text\n`:          "text\n",
		`a\bb\n`:                          "b\n",
		`h\303\251llo \360\237\216\211\n`: "héllo 🎉\n",
		`a\377b\n`:                        "a\ufffdb\n",
	} {
		check(e.prints(ctx, "printf '"+printf+"'", want))
	}
}

func outputSoFar(ctx context.Context, e *Env) {
	s := must(e.line(ctx, "printf begun; exec sleep 1000"))
	got := must(s.shows(ctx, "begun"))
	check(same("the output of a command that runs", got, "begun"))
	out, err := s.output(ctx)
	if err == nil && out.GetExitStatus() != nil {
		fail(errors.New("a command that runs has an exit status"))
	}
	check(err)
}

func outputKeepsTheNewest(ctx context.Context, e *Env) {
	const line = `i=0; while [ $i -lt 200 ]; do echo "$i äöü€🎉"; i=$((i+1)); done`
	var whole strings.Builder
	for i := range 200 {
		fmt.Fprintf(&whole, "%d äöü€🎉\n", i)
	}
	for _, limit := range []uint64{0, 1, 5, 100, 101, 102, 103, uint64(whole.Len()), 1 << 40} {
		s := must(e.open(ctx, &terminalv1.CreateRequest{
			Command: "sh", Args: []string{"-c", line}, OutputByteLimit: proto.Uint64(limit),
		}))
		out := must(s.end(ctx))
		text, cut := out.GetOutput(), limit < uint64(whole.Len())
		switch {
		case uint64(len(text)) > limit || !strings.HasSuffix(whole.String(), text) || !utf8.ValidString(text):
			fail(fmt.Errorf("limit %d: %w", limit, differs("the output", text, "the newest bytes")))
		case out.GetTruncated() != cut:
			fail(fmt.Errorf("limit %d of %d: %w", limit, whole.Len(), differs("truncated", out.GetTruncated(), cut)))
		case uint64(len(text)+utf8.UTFMax-1) < min(limit, uint64(whole.Len())):
			fail(fmt.Errorf("limit %d of %d: only %d bytes are kept", limit, whole.Len(), len(text)))
		}
	}
}

func outputIsComplete(ctx context.Context, e *Env) {
	const lines = 20000
	var want strings.Builder
	for i := 1; i <= lines; i++ {
		fmt.Fprintf(&want, "%d\n", i)
	}
	check(e.prints(ctx, fmt.Sprintf(`i=0; while [ $i -lt %d ]; do i=$((i+1)); echo $i; done`, lines), want.String()))
}

func outputOfShortCommands(ctx context.Context, e *Env) {
	for i := range 30 {
		check(e.prints(ctx, fmt.Sprintf("printf %d", i), fmt.Sprint(i)))
	}
}

func terminalWatchCases() []demand {
	return []demand{
		{Name: "Watch streams what was, what comes, and the exit", Run: watchStreams},
		{Name: "Watch works after the release", Run: watchAfterRelease},
		{Name: "Watch of an unknown terminal is NOT_FOUND", Run: watchUnknown},
		{Name: "a watcher that does not read slows nothing", Run: watchSlow},
		{Name: "List says what there is", Run: listTerminals},
		{Name: "Run runs a command from start to end", Run: runWhole},
		{Name: "Run ends the command when it is cancelled", Run: runCancelled},
	}
}

// watch reads a terminal's stream to its end.
func (s *screen) watch(ctx context.Context, each func(raw string)) (raw string, exit *terminalv1.ExitStatus, err error) {
	stream, err := s.e.terminals().Watch(ctx, &terminalv1.WatchRequest{Scope: s.c.GetScope(), TerminalId: s.id})
	if err != nil {
		return "", nil, err
	}
	var all strings.Builder
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			if exit == nil {
				return all.String(), nil, errors.New("the stream ended without an exit")
			}
			return all.String(), exit, nil
		}
		if err != nil {
			return all.String(), exit, err
		}
		if exit != nil {
			return "", nil, errors.New("the stream goes on after the exit")
		}
		switch event := resp.GetEvent().(type) {
		case *terminalv1.WatchResponse_Data:
			if n := len(event.Data); n < 1 || n > 65536 {
				return "", nil, fmt.Errorf("a piece has %d bytes, want 1 to 65536", n)
			}
			all.Write(event.Data)
			if each != nil {
				each(all.String())
			}
		case *terminalv1.WatchResponse_Exit:
			exit = event.Exit
		case *terminalv1.WatchResponse_DroppedBytes:
			return "", nil, fmt.Errorf("%d bytes were dropped", event.DroppedBytes)
		default:
			return "", nil, fmt.Errorf("an event is empty: %v", resp)
		}
	}
}

// raw is what a command has printed as a watcher gets it: a terminal ends lines in its own way.
func (e *Env) raw(printed string) string {
	if e.NoTTY {
		return printed
	}
	return strings.ReplaceAll(printed, "\n", "\r\n")
}

func watchStreams(ctx context.Context, e *Env) {
	gate := e.at("gate")
	s := must(e.line(ctx, "mkfifo '"+gate+"'; printf '\\033[31mone\\033[0m\\n'; read x <'"+gate+"'; echo two; exit 5"))
	must(s.shows(ctx, "one"))
	var opened error
	told := false
	raw, exit, err := s.watch(ctx, func(raw string) {
		if !told && strings.Contains(raw, "one") {
			told, opened = true, os.WriteFile(gate, []byte("go\n"), 0)
		}
	})
	check(errors.Join(err, opened))
	check(same("the raw output", raw, e.raw("\x1b[31mone\x1b[0m\ntwo\n")))
	check(wantExit("the stream", exit.ExitCode, exit.Signal, 5, ""))
}

func watchAfterRelease(ctx context.Context, e *Env) {
	s := must(e.line(ctx, "echo end"))
	must(s.end(ctx))
	check(s.release(ctx))
	raw, exit, err := s.watch(ctx, nil)
	check(named("watch after release", err))
	check(same("the raw output", raw, e.raw("end\n")))
	check(wantExit("the stream", exit.ExitCode, exit.Signal, 0, ""))
}

func watchUnknown(ctx context.Context, e *Env) {
	s := &screen{e: e, c: e.Context(), id: "acphost-" + strings.Repeat("0", 32)}
	_, _, err := s.watch(ctx, nil)
	check(wantUnknown("an unknown terminal", err, s.id))
}

func watchSlow(ctx context.Context, e *Env) {
	s := must(e.line(ctx, "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo 0123456789012345678901234567890123456789012345678901234567890123456789; done; yes | head -n 500000; echo over"))
	watching, stop := context.WithCancel(ctx)
	defer stop()
	must(s.e.terminals().Watch(watching, &terminalv1.WatchRequest{Scope: e.Scope, TerminalId: s.id}))
	out, err := s.end(ctx)
	check(named("while a watcher does not read", err))
	if !strings.HasSuffix(out.GetOutput(), "\nover\n") {
		fail(differs("the end of the output", out.GetOutput()[max(0, len(out.GetOutput())-20):], "over"))
	}
}

func listTerminals(ctx context.Context, e *Env) {
	first := must(e.line(ctx, "exec sleep 1000"))
	second := must(e.line(ctx, "exit 3"))
	must(second.end(ctx))
	resp := must(e.terminals().List(ctx, &terminalv1.ListRequest{Scope: e.Scope}))
	all := resp.GetTerminals()
	if len(all) != 2 || all[0].GetTerminalId() != first.id || all[1].GetTerminalId() != second.id {
		fail(differs("the terminals of the scope, oldest first", all, []string{first.id, second.id}))
	}
	for i, t := range all {
		ended := i == 1
		if t.GetScope() != e.Scope || len(t.GetArgv()) != 3 || t.GetCwd() != e.Dir || t.GetPid() <= 0 || t.GetStartTimeMs() <= 0 {
			fail(differs("what is listed", t, "scope, argv, cwd, pid and start"))
		}
		if (t.GetEndTimeMs() != 0) != ended || (t.GetExitStatus() != nil) != ended || t.GetReleased() {
			fail(differs("how it stands", t, fmt.Sprintf("ended %t, not released", ended)))
		}
	}
}

func runWhole(ctx context.Context, e *Env) {
	run := func(line string) (*terminalv1.RunResponse, error) {
		return e.terminals().Run(ctx, &terminalv1.RunRequest{Context: e.Context(), Command: line})
	}
	got, err := run("echo out; echo err >&2; exit 4")
	if status.Code(err) == codes.Unimplemented {
		fail(skip("Run is not answered"))
	}
	check(err)
	if got.GetOutput() != "out\nerr\n" || got.GetTruncated() {
		fail(differs("the output", got.GetOutput(), "out\nerr\n"))
	}
	check(wantExit("Run", got.ExitCode, got.Signal, 4, ""))
	got = must(run("kill -TERM $$"))
	check(wantExit("Run", got.ExitCode, got.Signal, 0, "SIGTERM"))
}

func runCancelled(ctx context.Context, e *Env) {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := e.terminals().Run(running, &terminalv1.RunRequest{Context: e.Context(), Command: "echo $$ >pid.new; mv pid.new pid; exec sleep 1000"})
		done <- err
	}()
	pid := must(awaitPID(ctx, e.at("pid"), done))
	cancel()
	check(wantCode("a cancelled Run", <-done, codes.Canceled))
	check(awaitDeath(ctx, "the command of a cancelled Run", pid))
}
