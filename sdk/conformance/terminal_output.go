package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
)

var terminalOutputCases = []Case{
	{"Output is plain text", func(ctx context.Context, e *env) {
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
	}},
	{"Output returns the output so far", func(ctx context.Context, e *env) {
		s := must(e.line(ctx, "printf begun; exec sleep 1000"))
		equal("the output of a command that runs", must(s.shows(ctx, "begun")), "begun")
		require(must(s.output(ctx)).GetExitStatus() == nil, "a command that runs has an exit status")
	}},
	{"Output keeps the newest bytes and cuts at a character", func(ctx context.Context, e *env) {
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
			text, at := out.GetOutput(), fmt.Sprintf("limit %d of %d: ", limit, whole.Len())
			newest := uint64(len(text)) <= limit && strings.HasSuffix(whole.String(), text) && utf8.ValidString(text)
			expect(newest, at+"the output", text, "the newest bytes")
			equal(at+"truncated", out.GetTruncated(), limit < uint64(whole.Len()))
			require(uint64(len(text)+utf8.UTFMax-1) >= min(limit, uint64(whole.Len())), "%sonly %d bytes are kept", at, len(text))
		}
	}},
	{"Output is complete at the exit", func(ctx context.Context, e *env) {
		const lines = 20000
		var want strings.Builder
		for i := 1; i <= lines; i++ {
			fmt.Fprintf(&want, "%d\n", i)
		}
		check(e.prints(ctx, fmt.Sprintf(`i=0; while [ $i -lt %d ]; do i=$((i+1)); echo $i; done`, lines), want.String()))
	}},
	{"no output of a short command is lost", func(ctx context.Context, e *env) {
		for i := range 30 {
			check(e.prints(ctx, fmt.Sprintf("printf %d", i), fmt.Sprint(i)))
		}
	}},
}

var terminalWatchCases = []Case{
	{"Watch streams earlier output, new output, and the exit", func(ctx context.Context, e *env) {
		gate := e.at("gate")
		s := must(e.line(ctx, "mkfifo '"+gate+"'; printf '\\033[31mone\\033[0m\\n'; read x <'"+gate+"'; echo two; exit 5"))
		must(s.shows(ctx, "one"))
		var opened error
		reported := false
		raw, exit, err := s.watch(ctx, func(raw string) {
			if !reported && strings.Contains(raw, "one") {
				reported, opened = true, os.WriteFile(gate, []byte("go\n"), 0)
			}
		})
		check(errors.Join(err, opened))
		equal("the raw output", raw, e.raw("\x1b[31mone\x1b[0m\ntwo\n"))
		wantExit("the stream", exit.ExitCode, exit.Signal, 5, "")
	}},
	{"Watch works after the release", func(ctx context.Context, e *env) {
		s := must(e.line(ctx, "echo end"))
		must(s.end(ctx))
		check(s.release(ctx))
		raw, exit, err := s.watch(ctx, nil)
		check(wrap("watch after release", err))
		equal("the raw output", raw, e.raw("end\n"))
		wantExit("the stream", exit.ExitCode, exit.Signal, 0, "")
	}},
	{"Watch of an unknown terminal is NOT_FOUND", func(ctx context.Context, e *env) {
		s := &screen{e: e, c: e.context(), id: "acphost-" + strings.Repeat("0", 32)}
		_, _, err := s.watch(ctx, nil)
		wantUnknown("an unknown terminal", err, s.id)
	}},
	{"a watcher that does not read delays nothing", func(ctx context.Context, e *env) {
		s := must(e.line(ctx, "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo "+
			strings.Repeat("0123456789", 7)+"; done; yes | head -n 500000; echo over"))
		watching, stop := context.WithCancel(ctx)
		defer stop()
		must(s.e.terminals().Watch(watching, &terminalv1.WatchRequest{Scope: e.scope, TerminalId: s.id}))
		out, err := s.end(ctx)
		check(wrap("while a watcher does not read", err))
		last := out.GetOutput()[max(0, len(out.GetOutput())-20):]
		expect(strings.HasSuffix(last, "\nover\n"), "the end of the output", last, "over")
	}},
	{"List returns the terminals", func(ctx context.Context, e *env) {
		first := must(e.line(ctx, "exec sleep 1000"))
		second := must(e.line(ctx, "exit 3"))
		must(second.end(ctx))
		resp := must(e.terminals().List(ctx, &terminalv1.ListRequest{Scope: e.scope}))
		all := resp.GetTerminals()
		expect(len(all) == 2 && all[0].GetTerminalId() == first.id && all[1].GetTerminalId() == second.id,
			"the terminals of the scope, oldest first", all, []string{first.id, second.id})
		for i, t := range all {
			ended := i == 1
			started := len(t.GetArgv()) == 3 && t.GetCwd() == e.dir && t.GetPid() > 0 && t.GetStartTimeMs() > 0
			expect(started && t.GetScope() == e.scope, "what is listed", t, "scope, argv, cwd, pid and start")
			expect((t.GetEndTimeMs() != 0) == ended && (t.GetExitStatus() != nil) == ended && !t.GetReleased(),
				"how it stands", t, fmt.Sprintf("ended %t, not released", ended))
		}
	}},
	{"Run runs a command from start to end", func(ctx context.Context, e *env) {
		run := func(line string) (*terminalv1.RunResponse, error) {
			return e.terminals().Run(ctx, &terminalv1.RunRequest{Context: e.context(), Command: line})
		}
		got, err := run("echo out; echo err >&2; exit 4")
		skipIf(status.Code(err) == codes.Unimplemented, "Run is not answered")
		check(err)
		expect(got.GetOutput() == "out\nerr\n" && !got.GetTruncated(), "the output", got.GetOutput(), "out\nerr\n")
		wantExit("Run", got.ExitCode, got.Signal, 4, "")
		got = must(run("kill -TERM $$"))
		wantExit("Run", got.ExitCode, got.Signal, 0, "SIGTERM")
	}},
	{"Run ends the command when it is cancelled", func(ctx context.Context, e *env) {
		running, cancel := context.WithCancel(ctx)
		defer cancel()
		done := begin(func() error {
			const command = "echo $$ >pid.new; mv pid.new pid; exec sleep 1000"
			_, err := e.terminals().Run(running, &terminalv1.RunRequest{Context: e.context(), Command: command})
			return err
		})
		pid := must(await(ctx, "the command has not started", func() (int, bool, error) {
			select {
			case err := <-done:
				skipIf(status.Code(err) == codes.Unimplemented, "Run is not answered")
				return 0, false, fmt.Errorf("the command ended too early: %w", err)
			default:
			}
			data, err := os.ReadFile(e.at("pid"))
			if err != nil {
				return 0, false, nil // it does not exist yet
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
			return pid, true, err
		}))
		cancel()
		wantCode("a cancelled Run", <-done, codes.Canceled)
		awaitDeath(ctx, "the command of a cancelled Run", pid)
	}},
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

// raw returns the output of a command as a watcher gets it: a pseudo-terminal changes line ends.
func (e *env) raw(printed string) string {
	if e.NoTTY {
		return printed
	}
	return strings.ReplaceAll(printed, "\n", "\r\n")
}
