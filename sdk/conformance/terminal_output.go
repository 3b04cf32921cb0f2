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

func terminalOutputCases() []Case {
	return []Case{
		{Name: "Output is plain text", Run: outputIsPlain},
		{Name: "Output shows what has come so far", Run: outputSoFar},
		{Name: "Output keeps the newest bytes and cuts at a character", Run: outputKeepsTheNewest},
		{Name: "Output is complete at the exit", Run: outputIsComplete},
		{Name: "no output of a short command is lost", Run: outputOfShortCommands},
	}
}

func outputIsPlain(ctx context.Context, e *Env) error {
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
		if err := e.prints(ctx, "printf '"+printf+"'", want); err != nil {
			return err
		}
	}
	return nil
}

func outputSoFar(ctx context.Context, e *Env) error {
	s, err := e.line(ctx, "printf begun; exec sleep 1000")
	if err != nil {
		return err
	}
	defer s.close(ctx)
	got, err := s.shows(ctx, "begun")
	if err != nil {
		return err
	}
	if got != "begun" {
		return differs("the output of a command that runs", got, "begun")
	}
	out, err := s.output(ctx)
	if err == nil && out.GetExitStatus() != nil {
		return errors.New("a command that runs has an exit status")
	}
	return err
}

func outputKeepsTheNewest(ctx context.Context, e *Env) error {
	const line = `i=0; while [ $i -lt 200 ]; do echo "$i äöü€🎉"; i=$((i+1)); done`
	var whole strings.Builder
	for i := range 200 {
		fmt.Fprintf(&whole, "%d äöü€🎉\n", i)
	}
	for _, limit := range []uint64{0, 1, 5, 100, 101, 102, 103, uint64(whole.Len()), 1 << 40} {
		s, err := e.open(ctx, &terminalv1.CreateRequest{
			Command: "sh", Args: []string{"-c", line}, OutputByteLimit: proto.Uint64(limit),
		})
		if err != nil {
			return err
		}
		defer s.close(ctx)
		out, err := s.end(ctx)
		if err != nil {
			return err
		}
		text, cut := out.GetOutput(), limit < uint64(whole.Len())
		switch {
		case uint64(len(text)) > limit || !strings.HasSuffix(whole.String(), text) || !utf8.ValidString(text):
			return fmt.Errorf("limit %d: %w", limit, differs("the output", text, "the newest bytes"))
		case out.GetTruncated() != cut:
			return fmt.Errorf("limit %d of %d: %w", limit, whole.Len(), differs("truncated", out.GetTruncated(), cut))
		case uint64(len(text)+utf8.UTFMax-1) < min(limit, uint64(whole.Len())):
			return fmt.Errorf("limit %d of %d: only %d bytes are kept", limit, whole.Len(), len(text))
		}
	}
	return nil
}

func outputIsComplete(ctx context.Context, e *Env) error {
	const lines = 20000
	var want strings.Builder
	for i := 1; i <= lines; i++ {
		fmt.Fprintf(&want, "%d\n", i)
	}
	return e.prints(ctx, fmt.Sprintf(`i=0; while [ $i -lt %d ]; do i=$((i+1)); echo $i; done`, lines), want.String())
}

func outputOfShortCommands(ctx context.Context, e *Env) error {
	for i := range 30 {
		if err := e.prints(ctx, fmt.Sprintf("printf %d", i), fmt.Sprint(i)); err != nil {
			return err
		}
	}
	return nil
}

func terminalWatchCases() []Case {
	return []Case{
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

func watchStreams(ctx context.Context, e *Env) error {
	gate := e.at("gate")
	s, err := e.line(ctx, "mkfifo '"+gate+"'; printf '\\033[31mone\\033[0m\\n'; read x <'"+gate+"'; echo two; exit 5")
	if err != nil {
		return err
	}
	defer s.close(ctx)
	if _, err := s.shows(ctx, "one"); err != nil {
		return err
	}
	var opened error
	told := false
	raw, exit, err := s.watch(ctx, func(raw string) {
		if !told && strings.Contains(raw, "one") {
			told, opened = true, os.WriteFile(gate, []byte("go\n"), 0)
		}
	})
	if err := errors.Join(err, opened); err != nil {
		return err
	}
	if want := "\x1b[31mone\x1b[0m\r\ntwo\r\n"; raw != want {
		return differs("the raw output", raw, want)
	}
	return wantExit("the stream", exit.ExitCode, exit.Signal, 5, "")
}

func watchAfterRelease(ctx context.Context, e *Env) error {
	s, err := e.line(ctx, "echo end")
	if err != nil {
		return err
	}
	if _, err := s.end(ctx); err != nil {
		return err
	}
	if err := s.release(ctx); err != nil {
		return err
	}
	raw, exit, err := s.watch(ctx, nil)
	if err != nil {
		return fmt.Errorf("watch after release: %w", err)
	}
	if raw != "end\r\n" {
		return differs("the raw output", raw, "end\r\n")
	}
	return wantExit("the stream", exit.ExitCode, exit.Signal, 0, "")
}

func watchUnknown(ctx context.Context, e *Env) error {
	s := &screen{e: e, c: e.Context(), id: "acphost-" + strings.Repeat("0", 32)}
	_, _, err := s.watch(ctx, nil)
	return wantUnknown("an unknown terminal", err, s.id)
}

func watchSlow(ctx context.Context, e *Env) error {
	s, err := e.line(ctx, "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo 0123456789012345678901234567890123456789012345678901234567890123456789; done; yes | head -n 500000; echo over")
	if err != nil {
		return err
	}
	defer s.close(ctx)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	if _, err := s.e.terminals().Watch(watching, &terminalv1.WatchRequest{Scope: e.Scope, TerminalId: s.id}); err != nil {
		return err
	}
	out, err := s.end(ctx)
	if err != nil {
		return fmt.Errorf("while a watcher does not read: %w", err)
	}
	if !strings.HasSuffix(out.GetOutput(), "\nover\n") {
		return differs("the end of the output", out.GetOutput()[max(0, len(out.GetOutput())-20):], "over")
	}
	return nil
}

func listTerminals(ctx context.Context, e *Env) error {
	first, err := e.line(ctx, "exec sleep 1000")
	if err != nil {
		return err
	}
	defer first.close(ctx)
	second, err := e.line(ctx, "exit 3")
	if err != nil {
		return err
	}
	defer second.close(ctx)
	if _, err := second.end(ctx); err != nil {
		return err
	}
	resp, err := e.terminals().List(ctx, &terminalv1.ListRequest{Scope: e.Scope})
	if err != nil {
		return err
	}
	all := resp.GetTerminals()
	if len(all) != 2 || all[0].GetTerminalId() != first.id || all[1].GetTerminalId() != second.id {
		return differs("the terminals of the scope, oldest first", all, []string{first.id, second.id})
	}
	for i, t := range all {
		ended := i == 1
		if t.GetScope() != e.Scope || len(t.GetArgv()) != 3 || t.GetCwd() != e.Dir || t.GetPid() <= 0 || t.GetStartTimeMs() <= 0 {
			return differs("what is listed", t, "scope, argv, cwd, pid and start")
		}
		if (t.GetEndTimeMs() != 0) != ended || (t.GetExitStatus() != nil) != ended || t.GetReleased() {
			return differs("how it stands", t, fmt.Sprintf("ended %t, not released", ended))
		}
	}
	return nil
}

func runWhole(ctx context.Context, e *Env) error {
	run := func(line string) (*terminalv1.RunResponse, error) {
		return e.terminals().Run(ctx, &terminalv1.RunRequest{Context: e.Context(), Command: line})
	}
	got, err := run("echo out; echo err >&2; exit 4")
	if status.Code(err) == codes.Unimplemented {
		return skip("Run is not answered")
	}
	if err != nil {
		return err
	}
	if got.GetOutput() != "out\nerr\n" || got.GetTruncated() {
		return differs("the output", got.GetOutput(), "out\nerr\n")
	}
	if err := wantExit("Run", got.ExitCode, got.Signal, 4, ""); err != nil {
		return err
	}
	if got, err = run("kill -TERM $$"); err != nil {
		return err
	}
	return wantExit("Run", got.ExitCode, got.Signal, 0, "SIGTERM")
}

func runCancelled(ctx context.Context, e *Env) error {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := e.terminals().Run(running, &terminalv1.RunRequest{Context: e.Context(), Command: "echo $$ >pid.new; mv pid.new pid; exec sleep 1000"})
		done <- err
	}()
	pid, err := awaitPID(ctx, e.at("pid"), done)
	if err != nil {
		return err
	}
	cancel()
	if err := wantCode("a cancelled Run", <-done, codes.Canceled); err != nil {
		return err
	}
	return awaitDeath(ctx, "the command of a cancelled Run", pid)
}
