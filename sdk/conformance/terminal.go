package conformance

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
)

func (e *env) terminals() terminalv1.TerminalServiceClient {
	return terminalv1.NewTerminalServiceClient(e.Conn)
}

// screen is a terminal of a case.
type screen struct {
	e  *env
	c  *acpv1.CallContext
	id string
}

// open creates a terminal, which is released when the case has ended.
func (e *env) open(ctx context.Context, req *terminalv1.CreateRequest) (*screen, error) {
	if req.Context == nil {
		req.Context = e.context()
	}
	req.SessionId = req.GetContext().GetSessionId()
	resp, err := e.terminals().Create(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("create %q %q: %w", req.GetCommand(), req.GetArgs(), err)
	}
	s := &screen{e: e, c: req.GetContext(), id: resp.GetTerminalId()}
	e.onCleanup(func() { s.close(ctx) })
	return s, nil
}

// line creates a terminal that runs a line in a shell.
func (e *env) line(ctx context.Context, line string) (*screen, error) {
	return e.open(ctx, &terminalv1.CreateRequest{Command: "sh", Args: []string{"-c", line}})
}

// close releases the terminal. It ignores errors: cases about a release call release.
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

// end waits for the exit and returns the output, which is complete then.
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

// shows waits until the output contains words: a command gives no other signal.
func (s *screen) shows(ctx context.Context, words string) (string, error) {
	return await(ctx, fmt.Sprintf("waiting for %q", words), func() (string, bool, error) {
		out, err := s.output(ctx)
		seen := strings.Contains(out.GetOutput(), words)
		if err != nil {
			err = fmt.Errorf("output, while waiting for %q: %w", words, err)
		} else if !seen && out.GetExitStatus() != nil {
			err = differs("the output of a command that has ended", out.GetOutput(), words)
		}
		return out.GetOutput(), seen, err
	})
}

// prints requires the complete output of a line in a shell.
func (e *env) prints(ctx context.Context, line, want string) error {
	return e.outputs(ctx, &terminalv1.CreateRequest{Command: "sh", Args: []string{"-c", line}}, want)
}

// outputs requires the complete output of a command.
func (e *env) outputs(ctx context.Context, req *terminalv1.CreateRequest, want string) error {
	s, err := e.open(ctx, req)
	if err != nil {
		return err
	}
	defer s.close(ctx)
	out, err := s.end(ctx)
	if err == nil && (out.GetOutput() != want || out.GetTruncated()) {
		err = differs("the output", out.GetOutput(), want)
	}
	return wrap(fmt.Sprintf("%q %q", req.GetCommand(), req.GetArgs()), err)
}

func wantUnknown(what string, err error, id string) {
	wantText(what, err, codes.NotFound, "Resource not found: "+id)
}

// wantExit requires exactly one of code and signal.
func wantExit(what string, code *uint32, signal *string, wantCode uint32, wantSignal string) {
	require((code == nil) != (signal == nil),
		"%s: exactly one of exit code and signal must be there, got %v and %v", what, code, signal)
	if wantSignal != "" {
		expect(signal != nil && *signal == wantSignal, "the signal of "+what, fmt.Sprint(code, signal), wantSignal)
	} else {
		expect(code != nil && *code == wantCode, "the exit code of "+what, fmt.Sprint(code, signal), wantCode)
	}
}

var terminalCommandCases = []Case{
	{"Create returns an unguessable id", func(ctx context.Context, e *env) {
		seen := map[string]bool{}
		for range 3 {
			s := must(e.line(ctx, ":"))
			expect(terminalID.MatchString(s.id), "a terminal's id", s.id, `"acphost-" and 32 hexadecimal digits`)
			require(!seen[s.id], "two terminals have the id %s", s.id)
			seen[s.id] = true
		}
	}},
	{"Create with args executes, without a shell", func(ctx context.Context, e *env) {
		args := []string{"%s|", "a b", "$HOME", "", "*"}
		check(e.outputs(ctx, &terminalv1.CreateRequest{Command: "printf", Args: args}, "a b|$HOME||*|"))
	}},
	{"Create without args runs a program with that name, else a shell line", func(ctx context.Context, e *env) {
		script := e.put("my tool", "#!/bin/sh\necho tool $#\n")
		check(os.Chmod(script, 0o755))
		for _, c := range []struct{ command, want string }{
			{"echo one; echo two | tr t T", "one\nTwo\n"},
			{"cd / && pwd", "/\n"},
			{script, "tool 0\n"},
			{"'" + script + "' x y", "tool 2\n"},
			{"pwd", e.dir + "\n"},
		} {
			check(e.outputs(ctx, &terminalv1.CreateRequest{Command: c.command}, c.want))
		}
	}},
	{"Create runs exactly the resolved command", func(ctx context.Context, e *env) {
		c := e.context()
		c.ResolvedCommand = &acpv1.ResolvedCommand{Argv: []string{"echo", "judged"}}
		check(e.outputs(ctx, &terminalv1.CreateRequest{Context: c, Command: "echo asked"}, "judged\n"))
	}},
	{"Create runs in cwd, by default the first root", func(ctx context.Context, e *env) {
		e.put("sub/f", "")
		for _, c := range []struct {
			cwd  *string
			want string
		}{{nil, e.dir}, {proto.String(e.dir), e.dir}, {proto.String(e.at("sub")), e.at("sub")}} {
			check(e.outputs(ctx, &terminalv1.CreateRequest{Command: "pwd", Cwd: c.cwd}, c.want+"\n"))
		}
	}},
	{"Create rejects a cwd outside of the roots", func(ctx context.Context, e *env) {
		e.put("in/f", "")
		e.link("/", "in/out")
		create := func(cwd string) error {
			_, err := e.terminals().Create(ctx, &terminalv1.CreateRequest{Context: e.below("in"), Command: "pwd", Cwd: &cwd})
			return err
		}
		for _, cwd := range []string{"/", e.dir, e.at("in/.."), e.at("in/out"), e.at("in/out/tmp"), e.dir + "/inx"} {
			wantEscapes(create(cwd), cwd)
		}
		for _, cwd := range []string{"in", "./in", e.at("in/f"), e.at("in/missing")} {
			wantRejected("cwd "+cwd, create(cwd), codes.InvalidArgument)
		}
		c := e.context()
		c.Roots = nil
		_, err := e.terminals().Create(ctx, &terminalv1.CreateRequest{Context: c, Command: "pwd"})
		wantRejected("a call without roots", err, codes.InvalidArgument)
	}},
	{"Create sets the requested environment", func(ctx context.Context, e *env) {
		check(e.outputs(ctx, &terminalv1.CreateRequest{
			Command: "sh", Args: []string{"-c", `printf '%s|' "$A" "$B" "${C-unset}" "$TERM" "$GIT_PAGER"`},
			Env: []*terminalv1.EnvVariable{
				{Name: "A", Value: "first"}, {Name: "A", Value: "last=1"}, {Name: "B", Value: ""}, {Name: "GIT_PAGER", Value: "less"},
			},
		}, "last=1||unset|xterm-256color|less|"))
	}},
	{"Create rejects invalid variables", func(ctx context.Context, e *env) {
		for _, v := range []*terminalv1.EnvVariable{
			{Name: "", Value: "x"}, {Name: "A=B", Value: "x"}, {Name: "A\x00B", Value: "x"}, {Name: "A", Value: "x\x00y"},
		} {
			_, err := e.terminals().Create(ctx, &terminalv1.CreateRequest{
				Context: e.context(), Command: "true", Env: []*terminalv1.EnvVariable{v},
			})
			wantRejected(fmt.Sprintf("the variable %q=%q", v.GetName(), v.GetValue()), err, codes.InvalidArgument)
		}
		_, err := e.terminals().Create(ctx, &terminalv1.CreateRequest{Context: e.context(), Command: ""})
		wantRejected("an empty command", err, codes.InvalidArgument)
	}},
	{"Create reports why a program cannot be started", func(ctx context.Context, e *env) {
		text := e.put("text", "no program\n")
		for _, program := range []string{"acphost-conformance-no-such-program", e.at("missing"), text} {
			_, err := e.terminals().Create(ctx, &terminalv1.CreateRequest{
				Context: e.context(), Command: program, Args: []string{"x"},
			})
			wantRejected("starting "+program, err, codes.Internal, codes.FailedPrecondition)
			wantErrorText("starting "+program, err, program)
		}
	}},
	{"a command has a terminal without input", func(ctx context.Context, e *env) {
		skipIf(e.NoTTY, "the handler gives commands pipes")
		for line, want := range map[string]string{
			"test -t 1 && test -t 2 && echo yes":                                  "yes\n",
			"cat; read x || echo end":                                             "end\n",
			"stty size <&1 2>/dev/null || stty -F $(readlink /proc/$$/fd/1) size": "30 120\n",
		} {
			check(e.prints(ctx, line, want))
		}
	}},
	{"a pager does not hang", func(ctx context.Context, e *env) {
		check(e.prints(ctx, `echo "$PAGER|$GIT_PAGER|$GIT_EDITOR"`, "|cat|:\n"))
	}},
	{"ResolveCommand returns the command that would run", func(ctx context.Context, e *env) {
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
				Context: e.context(), Command: c.command, Args: c.args,
			})
			check(wrap(fmt.Sprintf("%q %q", c.command, c.args), err))
			argv := got.GetCommand().GetArgv()
			if len(argv) == 3 && c.shell {
				argv[0] = argv[0][strings.LastIndexByte(argv[0], '/')+1:] // the handler may choose the path of the shell
			}
			expect(slices.Equal(argv, c.argv) && got.GetCommand().GetShell() == c.shell,
				"what would run", got.GetCommand(), fmt.Sprintf("%q, shell %t", c.argv, c.shell))
			expect((got.GetProgram() != "") == c.program && got.GetCwd() == e.dir, "program and cwd", got, e.dir)
		}
	}},
}

var terminalID = regexp.MustCompile(`^acphost-[0-9a-f]{32}$`)
