package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
)

// terminalDecidedCases are about what the gate has decided of a command, and what it asks before it decides.
func terminalDecidedCases() []demand {
	return []demand{
		{Name: "Create executes the program that was resolved, or refuses", Run: terminalProgram},
		{Name: "Create runs in the folder that was resolved, or refuses", Run: terminalDirectory},
		{Name: "git runs nothing of a repository's where nobody was asked", Run: terminalUnasked},
		{Name: "ResolveCommand says of each simple command what it comes to, or of none", Run: terminalFound},
	}
}

func terminalProgram(ctx context.Context, e *Env) {
	c := e.Context()
	c.ResolvedCommand = &acpv1.ResolvedCommand{Argv: []string{"judged", "-c", "echo $0"}, Program: "/bin/sh"}
	if err := e.outputs(ctx, &terminalv1.CreateRequest{Context: c, Command: "echo asked"}, "judged\n"); status.Code(err) != codes.FailedPrecondition && err != nil {
		fail(err)
	}
	c = e.Context()
	c.ResolvedCommand = &acpv1.ResolvedCommand{Argv: []string{"ls"}, Program: e.at("no-such-program")}
	if _, err := e.open(ctx, &terminalv1.CreateRequest{Context: c, Command: "ls"}); err == nil {
		fail(fmt.Errorf("the program that was decided about is gone, and another was started in its place"))
	}
}

// terminalDirectory is for handlers that tell a folder from another that is put in its place.
func terminalDirectory(ctx context.Context, e *Env) {
	check(e.putAll(map[string]string{"judged/which": "judged", "other/which": "other"}))
	cwd := e.at("judged")
	got := must(e.terminals().ResolveCommand(ctx, &terminalv1.ResolveCommandRequest{Context: e.Context(), Command: "cat which", Cwd: &cwd}))
	if got.GetCommand().GetDirectory() == nil {
		fail(skip("ResolveCommand says nothing of the folder (ResolvedCommand.directory)"))
	}
	check(errors.Join(os.Rename(cwd, e.at("gone")), os.Rename(e.at("other"), cwd)))
	c := e.Context()
	c.ResolvedCommand = got.GetCommand()
	s, err := e.open(ctx, &terminalv1.CreateRequest{Context: c, Command: "cat which", Cwd: &cwd})
	if err != nil {
		fail(wantRefused("a command in a folder that was replaced", err, codes.FailedPrecondition))
	}
	out := must(s.end(ctx))
	if out.GetOutput() != "judged" {
		fail(differs("what a command in a folder that was replaced prints", out.GetOutput(), "judged, or that it is refused"))
	}
}

// terminalUnasked shows nothing where the handler has no git.
func terminalUnasked(ctx context.Context, e *Env) {
	const line = `mkdir r && cd r && git init -q . && printf '#!/bin/sh\necho ran >>../ran\n' >m && chmod +x m &&
git config core.fsmonitor ./m && mkdir h && cp m h/post-index-change && git config core.hooksPath h && git status`
	c := e.Context()
	c.Unasked = true
	check(e.outputs(ctx, &terminalv1.CreateRequest{Context: c, Command: "{ " + line + "; } >/dev/null 2>&1; test -e ran && echo ran; echo end"}, "end\n"))
}

func terminalFound(ctx context.Context, e *Env) {
	asked := []*acpv1.SimpleCommand{
		{Argv: []string{"cd", "x"}, Cwd: e.Dir, Shell: true}, {Argv: []string{"ls"}, Wrappers: []string{"env"}, Cwd: e.Dir, Shell: true},
		{Argv: []string{"acphost-conformance-no-such-program"}, Cwd: e.Dir},
	}
	got := must(e.terminals().ResolveCommand(ctx, &terminalv1.ResolveCommandRequest{
		Context: e.Context(), Command: "cd x && env ls", SimpleCommands: asked,
	}))
	found := got.GetFound()
	switch {
	case len(found) == 0:
		return // it does not look
	case len(found) != len(asked):
		fail(fmt.Errorf("%d simple commands were asked about, %d answered", len(asked), len(found)))
	case len(found[1].GetWrapperPrograms()) != 1:
		fail(differs("the programs of the wrappers", found[1].GetWrapperPrograms(), "one"))
	case found[1].GetProgram().GetPath() == "" && found[1].GetProgram().GetDoubt() == "":
		fail(differs("the program ls", found[1].GetProgram(), "its path, or why there is none"))
	case found[2].GetProgram().GetPath() != "":
		fail(differs("a program that is not there", found[2].GetProgram(), "no path"))
	}
}
