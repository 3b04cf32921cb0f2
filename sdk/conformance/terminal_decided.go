package conformance

import (
	"context"
	"errors"
	"os"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
)

// terminalDecidedCases are about commands that the supervisor has decided on, and the requests that it makes before a
// decision.
var terminalDecidedCases = []Case{
	{"Create executes the resolved program, or fails", func(ctx context.Context, e *env) {
		c := e.context()
		c.ResolvedCommand = &acpv1.ResolvedCommand{Argv: []string{"judged", "-c", "echo $0"}, Program: "/bin/sh"}
		err := e.outputs(ctx, &terminalv1.CreateRequest{Context: c, Command: "echo asked"}, "judged\n")
		if status.Code(err) != codes.FailedPrecondition {
			check(err)
		}
		c = e.context()
		c.ResolvedCommand = &acpv1.ResolvedCommand{Argv: []string{"ls"}, Program: e.at("no-such-program")}
		_, err = e.open(ctx, &terminalv1.CreateRequest{Context: c, Command: "ls"})
		require(err != nil, "the program that was decided about is gone, and another was started in its place")
	}},
	// The case applies to handlers that distinguish a folder from another folder that replaces it.
	{"Create runs in the resolved folder, or fails", func(ctx context.Context, e *env) {
		e.putAll(map[string]string{"judged/which": "judged", "other/which": "other"})
		cwd := e.at("judged")
		got := must(e.terminals().ResolveCommand(ctx, &terminalv1.ResolveCommandRequest{
			Context: e.context(), Command: "cat which", Cwd: &cwd,
		}))
		skipIf(got.GetCommand().GetDirectory() == nil,
			"ResolveCommand returns no folder (ResolvedCommand.directory)")
		check(errors.Join(os.Rename(cwd, e.at("gone")), os.Rename(e.at("other"), cwd)))
		c := e.context()
		c.ResolvedCommand = got.GetCommand()
		s, err := e.open(ctx, &terminalv1.CreateRequest{Context: c, Command: "cat which", Cwd: &cwd})
		if err != nil {
			wantRejected("a command in a folder that was replaced", err, codes.FailedPrecondition)
			return
		}
		out := must(s.end(ctx)).GetOutput()
		expect(out == "judged", "what a command in a folder that was replaced prints", out, "judged, or that it is refused")
	}},
	// The case has no effect if the handler has no git.
	{"git runs no programs of a repository in a command that a rule allowed", func(ctx context.Context, e *env) {
		const line = `mkdir r && cd r && git init -q . && printf '#!/bin/sh\necho ran >>../ran\n' >m && chmod +x m &&
git config core.fsmonitor ./m && mkdir h && cp m h/post-index-change && git config core.hooksPath h && git status`
		c := e.context()
		c.Unasked = true
		quietly := "{ " + line + "; } >/dev/null 2>&1; test -e ran && echo ran; echo end"
		check(e.outputs(ctx, &terminalv1.CreateRequest{Context: c, Command: quietly}, "end\n"))
	}},
	{"ResolveCommand resolves every simple command, or none", func(ctx context.Context, e *env) {
		asked := []*acpv1.SimpleCommand{
			{Argv: []string{"cd", "x"}, Cwd: e.dir, Shell: true},
			{Argv: []string{"ls"}, Wrappers: []string{"env"}, Cwd: e.dir, Shell: true},
			{Argv: []string{"acphost-conformance-no-such-program"}, Cwd: e.dir},
		}
		got := must(e.terminals().ResolveCommand(ctx, &terminalv1.ResolveCommandRequest{
			Context: e.context(), Command: "cd x && env ls", SimpleCommands: asked,
		}))
		found := got.GetFound()
		if len(found) == 0 {
			return // the handler does not resolve commands
		}
		require(len(found) == len(asked), "%d simple commands were asked about, %d answered", len(asked), len(found))
		ls, missing := found[1].GetProgram(), found[2].GetProgram()
		expect(len(found[1].GetWrapperPrograms()) == 1, "the programs of the wrappers", found[1].GetWrapperPrograms(), "one")
		expect(ls.GetPath() != "" || ls.GetDoubt() != "", "the program ls", ls, "its path, or why none exists")
		expect(missing.GetPath() == "", "a program that is not there", missing, "no path")
	}},
}
