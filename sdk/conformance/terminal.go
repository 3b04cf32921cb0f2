package conformance

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
)

// terminalCases are for handlers of kind terminal. Commands are lines for a POSIX shell.
func terminalCases() []Case {
	cases := terminalCommandCases()
	cases = append(cases, terminalDecidedCases()...)
	cases = append(cases, terminalOutputCases()...)
	cases = append(cases, terminalLifeCases()...)
	cases = append(cases, terminalWatchCases()...)
	return kind(KindTerminal, cases)
}

func (e *Env) terminals() terminalv1.TerminalServiceClient {
	return terminalv1.NewTerminalServiceClient(e.Conn)
}

// screen is a terminal of a case.
type screen struct {
	e  *Env
	c  *acpv1.CallContext
	id string
}

// open creates a terminal, which is released when the case has ended.
func (e *Env) open(ctx context.Context, req *terminalv1.CreateRequest) (*screen, error) {
	if req.Context == nil {
		req.Context = e.Context()
	}
	req.SessionId = req.GetContext().GetSessionId()
	resp, err := e.terminals().Create(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("create %q %q: %w", req.GetCommand(), req.GetArgs(), err)
	}
	s := &screen{e: e, c: req.GetContext(), id: resp.GetTerminalId()}
	e.after(func() { s.close(ctx) })
	return s, nil
}

// line creates a terminal that runs a line in a shell.
func (e *Env) line(ctx context.Context, line string) (*screen, error) {
	return e.open(ctx, &terminalv1.CreateRequest{Command: "sh", Args: []string{"-c", line}})
}

// close releases the terminal. Errors are for the cases that release themselves.
func (s *screen) close(ctx context.Context) { _ = s.release(context.WithoutCancel(ctx)) }

func (s *screen) release(ctx context.Context) error {
	_, err := s.e.terminals().Release(ctx, &terminalv1.ReleaseRequest{Context: s.c, SessionId: s.c.GetSessionId(), TerminalId: s.id})
	return err
}

func (s *screen) kill(ctx context.Context) error {
	_, err := s.e.terminals().Kill(ctx, &terminalv1.KillRequest{Context: s.c, SessionId: s.c.GetSessionId(), TerminalId: s.id})
	return err
}

func (s *screen) output(ctx context.Context) (*terminalv1.OutputResponse, error) {
	return s.e.terminals().Output(ctx, &terminalv1.OutputRequest{Context: s.c, SessionId: s.c.GetSessionId(), TerminalId: s.id})
}

func (s *screen) wait(ctx context.Context) (*terminalv1.WaitForExitResponse, error) {
	return s.e.terminals().WaitForExit(ctx, &terminalv1.WaitForExitRequest{Context: s.c, SessionId: s.c.GetSessionId(), TerminalId: s.id})
}

// end waits for the exit and returns the output that is complete then.
func (s *screen) end(ctx context.Context) (*terminalv1.OutputResponse, error) {
	if _, err := s.wait(ctx); err != nil {
		return nil, fmt.Errorf("wait for exit: %w", err)
	}
	out, err := s.output(ctx)
	if err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	if out.GetExitStatus() == nil {
		return nil, fmt.Errorf("the output after the exit has no exit status")
	}
	return out, nil
}

// shows waits until the output has the words in it: what a command does gives no other signal.
func (s *screen) shows(ctx context.Context, words string) (string, error) {
	for {
		out, err := s.output(ctx)
		if err != nil {
			return "", fmt.Errorf("output, while waiting for %q: %w", words, err)
		}
		if strings.Contains(out.GetOutput(), words) {
			return out.GetOutput(), nil
		}
		if out.GetExitStatus() != nil {
			return "", differs("the output of a command that has ended", out.GetOutput(), words)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return "", fmt.Errorf("waiting for %q: %w", words, context.Cause(ctx))
		}
	}
}

// prints demands the whole output of a line in a shell.
func (e *Env) prints(ctx context.Context, line, want string) error {
	return e.outputs(ctx, &terminalv1.CreateRequest{Command: "sh", Args: []string{"-c", line}}, want)
}

// outputs demands the whole output of a command.
func (e *Env) outputs(ctx context.Context, req *terminalv1.CreateRequest, want string) error {
	s, err := e.open(ctx, req)
	if err != nil {
		return err
	}
	defer s.close(ctx)
	out, err := s.end(ctx)
	if err == nil && (out.GetOutput() != want || out.GetTruncated()) {
		err = differs("the output", out.GetOutput(), want)
	}
	if err != nil {
		return fmt.Errorf("%q %q: %w", req.GetCommand(), req.GetArgs(), err)
	}
	return nil
}

func wantUnknown(what string, err error, id string) error {
	return wantText(what, err, codes.NotFound, "Resource not found: "+id)
}

// wantExit demands exactly one of code and signal.
func wantExit(what string, code *uint32, signal *string, wantCode uint32, wantSignal string) error {
	switch {
	case (code == nil) == (signal == nil):
		return fmt.Errorf("%s: exactly one of exit code and signal must be there, got %v and %v", what, code, signal)
	case wantSignal != "" && (signal == nil || *signal != wantSignal):
		return differs("the signal of "+what, fmt.Sprint(code, signal), wantSignal)
	case wantSignal == "" && (code == nil || *code != wantCode):
		return differs("the exit code of "+what, fmt.Sprint(code, signal), wantCode)
	}
	return nil
}

// Commands.

func terminalCommandCases() []demand {
	return []demand{
		{Name: "Create gives an unguessable id", Run: terminalIDs},
		{Name: "Create with args executes, without a shell", Run: terminalArgs},
		{Name: "Create without args runs a program of that whole name, else a line", Run: terminalLines},
		{Name: "Create runs exactly what was resolved", Run: terminalResolved},
		{Name: "Create runs in cwd, by default the first root", Run: terminalCwd},
		{Name: "Create refuses a cwd outside of the roots", Run: terminalCwdRefused},
		{Name: "Create sets the environment that it is given", Run: terminalEnv},
		{Name: "Create refuses what no environment can hold", Run: terminalEnvRefused},
		{Name: "Create says why a program cannot be started", Run: terminalCannotStart},
		{Name: "a command has a terminal and nobody at it", Run: terminalIsATerminal},
		{Name: "a pager does not hang", Run: terminalPager},
		{Name: "ResolveCommand says what would run", Run: terminalResolve},
	}
}

var terminalID = regexp.MustCompile(`^acphost-[0-9a-f]{32}$`)

func terminalIDs(ctx context.Context, e *Env) {
	seen := map[string]bool{}
	for range 3 {
		s := must(e.line(ctx, ":"))
		if !terminalID.MatchString(s.id) {
			fail(differs("a terminal's id", s.id, `"acphost-" and 32 hexadecimal digits`))
		}
		if seen[s.id] {
			fail(fmt.Errorf("two terminals have the id %s", s.id))
		}
		seen[s.id] = true
	}
}

func terminalArgs(ctx context.Context, e *Env) {
	check(e.outputs(ctx, &terminalv1.CreateRequest{Command: "printf", Args: []string{"%s|", "a b", "$HOME", "", "*"}}, "a b|$HOME||*|"))
}

func terminalLines(ctx context.Context, e *Env) {
	script := must(e.put("my tool", "#!/bin/sh\necho tool $#\n"))
	check(os.Chmod(script, 0o755))
	for _, c := range []struct{ command, want string }{
		{"echo one; echo two | tr t T", "one\nTwo\n"},
		{"cd / && pwd", "/\n"},
		{script, "tool 0\n"},
		{"'" + script + "' x y", "tool 2\n"},
		{"pwd", e.Dir + "\n"},
	} {
		check(e.outputs(ctx, &terminalv1.CreateRequest{Command: c.command}, c.want))
	}
}

func terminalResolved(ctx context.Context, e *Env) {
	c := e.Context()
	c.ResolvedCommand = &acpv1.ResolvedCommand{Argv: []string{"echo", "judged"}}
	check(e.outputs(ctx, &terminalv1.CreateRequest{Context: c, Command: "echo asked"}, "judged\n"))
}

func terminalCwd(ctx context.Context, e *Env) {
	must(e.put("sub/f", ""))
	for _, c := range []struct {
		cwd  *string
		want string
	}{{nil, e.Dir}, {proto.String(e.Dir), e.Dir}, {proto.String(e.at("sub")), e.at("sub")}} {
		check(e.outputs(ctx, &terminalv1.CreateRequest{Command: "pwd", Cwd: c.cwd}, c.want+"\n"))
	}
}

func terminalCwdRefused(ctx context.Context, e *Env) {
	must(e.put("in/f", ""))
	check(os.Symlink("/", e.at("in/out")))
	create := func(cwd string) error {
		_, err := e.terminals().Create(ctx, &terminalv1.CreateRequest{Context: e.below("in"), Command: "pwd", Cwd: &cwd})
		return err
	}
	for _, cwd := range []string{"/", e.Dir, e.at("in/.."), e.at("in/out"), e.at("in/out/tmp"), e.Dir + "/inx"} {
		check(wantEscapes(create(cwd), cwd))
	}
	for _, cwd := range []string{"in", "./in", e.at("in/f"), e.at("in/missing")} {
		check(wantRefused("cwd "+cwd, create(cwd), codes.InvalidArgument))
	}
	c := e.Context()
	c.Roots = nil
	_, err := e.terminals().Create(ctx, &terminalv1.CreateRequest{Context: c, Command: "pwd"})
	check(wantRefused("a call without roots", err, codes.InvalidArgument))
}

func terminalEnv(ctx context.Context, e *Env) {
	check(e.outputs(ctx, &terminalv1.CreateRequest{
		Command: "sh", Args: []string{"-c", `printf '%s|' "$A" "$B" "${C-unset}" "$TERM" "$GIT_PAGER"`},
		Env: []*terminalv1.EnvVariable{
			{Name: "A", Value: "first"}, {Name: "A", Value: "last=1"}, {Name: "B", Value: ""}, {Name: "GIT_PAGER", Value: "less"},
		},
	}, "last=1||unset|xterm-256color|less|"))
}

func terminalEnvRefused(ctx context.Context, e *Env) {
	for _, v := range []*terminalv1.EnvVariable{
		{Name: "", Value: "x"}, {Name: "A=B", Value: "x"}, {Name: "A\x00B", Value: "x"}, {Name: "A", Value: "x\x00y"},
	} {
		_, err := e.terminals().Create(ctx, &terminalv1.CreateRequest{
			Context: e.Context(), Command: "true", Env: []*terminalv1.EnvVariable{v},
		})
		check(wantRefused(fmt.Sprintf("the variable %q=%q", v.GetName(), v.GetValue()), err, codes.InvalidArgument))
	}
	_, err := e.terminals().Create(ctx, &terminalv1.CreateRequest{Context: e.Context(), Command: ""})
	check(wantRefused("an empty command", err, codes.InvalidArgument))
}

func terminalCannotStart(ctx context.Context, e *Env) {
	text := must(e.put("text", "no program\n"))
	for _, program := range []string{"acphost-conformance-no-such-program", e.at("missing"), text} {
		_, err := e.terminals().Create(ctx, &terminalv1.CreateRequest{Context: e.Context(), Command: program, Args: []string{"x"}})
		check(wantRefused("starting "+program, err, codes.Internal, codes.FailedPrecondition))
		if !strings.Contains(status.Convert(err).Message(), program) {
			fail(fmt.Errorf("the message does not name the program %s: %q", program, status.Convert(err).Message()))
		}
	}
}

func terminalIsATerminal(ctx context.Context, e *Env) {
	if e.NoTTY {
		fail(skip("the handler gives commands pipes"))
	}
	for line, want := range map[string]string{
		"test -t 1 && test -t 2 && echo yes":                                  "yes\n",
		"cat; read x || echo end":                                             "end\n",
		"stty size <&1 2>/dev/null || stty -F $(readlink /proc/$$/fd/1) size": "30 120\n",
	} {
		check(e.prints(ctx, line, want))
	}
}

func terminalPager(ctx context.Context, e *Env) {
	check(e.prints(ctx, `echo "$PAGER|$GIT_PAGER|$GIT_EDITOR"`, "|cat|:\n"))
}

func terminalResolve(ctx context.Context, e *Env) {
	for _, c := range []struct {
		command string
		args    []string
		argv    []string
		shell   bool
		program bool
	}{
		{"ls", nil, []string{"ls"}, false, true},
		{"ls", []string{"-l", "a b"}, []string{"ls", "-l", "a b"}, false, true},
		{"ls -l", nil, []string{"sh", "-c", "ls -l"}, true, true},
		{"acphost-conformance-no-such-program", []string{"x"}, []string{"acphost-conformance-no-such-program", "x"}, false, false},
	} {
		got, err := e.terminals().ResolveCommand(ctx, &terminalv1.ResolveCommandRequest{
			Context: e.Context(), Command: c.command, Args: c.args,
		})
		check(named(fmt.Sprintf("%q %q", c.command, c.args), err))
		argv := got.GetCommand().GetArgv()
		if len(argv) == 3 && c.shell {
			argv[0] = argv[0][strings.LastIndexByte(argv[0], '/')+1:] // where the shell is, is the handler's matter
		}
		if fmt.Sprintf("%q", argv) != fmt.Sprintf("%q", c.argv) || got.GetCommand().GetShell() != c.shell {
			fail(differs("what would run", got.GetCommand(), fmt.Sprintf("%q, shell %t", c.argv, c.shell)))
		}
		if (got.GetProgram() != "") != c.program || got.GetCwd() != e.Dir {
			fail(differs("program and cwd", got, e.Dir))
		}
	}
}
