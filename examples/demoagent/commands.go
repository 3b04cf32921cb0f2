package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/coder/acp-go-sdk"
)

// script is the action for a prompt whose first word is its name: a scene or, with a slash, a command. A command
// reports its results in the agent's message, one per line.
type script struct {
	name, args, does string
	play             func(t *turn, ctx context.Context, rest string) error
}

// listed formats scripts for the help text, each name with the prefix before.
func listed(scripts []script, before string) string {
	var list strings.Builder
	for _, s := range scripts {
		fmt.Fprintf(&list, "  %-20s %s\n", strings.TrimSpace(before+s.name+" "+s.args), s.does)
	}
	return list.String()
}

func commands() []script {
	return []script{
		{"read", "PATH", "read a file", (*turn).read},
		{"write", "PATH TEXT", "write a file", (*turn).write},
		{"ask", "PATH", "ask whether PATH may be edited", (*turn).askEdit},
		{"run", "LINE", "run a shell line in a terminal, shown in a tool call", (*turn).runLine},
		{"echo", "TEXT", "send TEXT to _test.acphost/echo", (*turn).echo},
		{"flood", "COUNT PATH", "read a file COUNT times at once", (*turn).flood},
		{"big", "MIB", "send a message of that many MiB", (*turn).big},
		{"wait", "", "wait until the turn is cancelled", (*turn).wait},
		{"cancel", "LINE", "wait for a shell line and withdraw the waiting; then kill it", (*turn).cancelWait},
		{"children", "", "leave behind a process in a session of its own that ignores TERM", (*turn).children},
		{"exit", "STATUS", "exit in the middle of the turn", (*turn).exit},
		{"kill", "", "kill itself", (*turn).kill},
	}
}

// availableCommands returns the commands as they are sent to the client.
func availableCommands() []object {
	var list []object
	for _, c := range commands() {
		entry := object{"name": c.name, "description": c.does}
		if c.args != "" {
			entry["input"] = object{"hint": c.args}
		}
		list = append(list, entry)
	}
	return list
}

func (t *turn) readText(ctx context.Context, path string) (string, error) {
	r, err := ask[acp.ReadTextFileResponse](ctx, t, acp.ClientMethodFsReadTextFile, object{"path": path})
	return r.Content, err
}

func (t *turn) writeText(ctx context.Context, path, text string) error {
	params := object{"path": path, "content": text}
	_, err := ask[acp.WriteTextFileResponse](ctx, t, acp.ClientMethodFsWriteTextFile, params)
	return err
}

func (t *turn) read(ctx context.Context, path string) error {
	text, err := t.readText(ctx, path)
	return t.report(ctx, "read", text, err)
}

func (t *turn) write(ctx context.Context, rest string) error {
	path, text, _ := strings.Cut(rest, " ")
	return t.report(ctx, "write", "done", t.writeText(ctx, path, text))
}

func (t *turn) askEdit(ctx context.Context, path string) error {
	outcome, err := t.ask(ctx, acp.ToolCallUpdate{
		ToolCallId: "ask", Title: acp.Ptr("Edit " + path), Kind: acp.Ptr(acp.ToolKindEdit),
		Locations: []acp.ToolCallLocation{{Path: path}}, Content: []acp.ToolCallContent{acp.ToolDiffContent(path, "new\n", "old\n")},
	})
	return t.report(ctx, "ask", outcome, err)
}

func (t *turn) runLine(ctx context.Context, line string) error {
	ended, output, err := t.check(ctx, line)
	return t.report(ctx, "run", howEnded(ended)+": "+output, err)
}

func (t *turn) echo(ctx context.Context, text string) error {
	raw, err := ask[json.RawMessage](ctx, t, "_test.acphost/echo", object{"text": text})
	return t.report(ctx, "echo", string(raw), err)
}

func (t *turn) flood(ctx context.Context, rest string) error {
	times, path, _ := strings.Cut(rest, " ")
	count, err := number(times)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var bytes atomic.Int64
	failed := make([]error, count)
	for i := range count {
		wg.Go(func() {
			text, err := t.readText(ctx, path)
			bytes.Add(int64(len(text)))
			failed[i] = err
		})
	}
	wg.Wait()
	return t.report(ctx, "flood", fmt.Sprintf("%d reads, %d bytes", count, bytes.Load()), errors.Join(failed...))
}

func (t *turn) big(ctx context.Context, rest string) error {
	mib, err := number(rest)
	if err != nil {
		return err
	}
	return t.say(ctx, strings.Repeat("0123456789abcde\n", mib<<16))
}

func (t *turn) wait(ctx context.Context, _ string) error {
	if err := t.say(ctx, "waiting"); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (t *turn) cancelWait(ctx context.Context, line string) error {
	ended, err := t.killWaitedFor(ctx, line)
	return t.report(ctx, "cancel", howEnded(ended), err)
}

// killWaitedFor waits for a shell line, cancels the wait, kills the command, and returns its exit status.
func (t *turn) killWaitedFor(ctx context.Context, line string) (ended exit, err error) {
	created, err := ask[acp.CreateTerminalResponse](ctx, t, acp.ClientMethodTerminalCreate, object{"command": line})
	if err != nil {
		return ended, err
	}
	terminal := func() object { return object{"terminalId": created.TerminalId} }
	waiting, stop := context.WithCancel(ctx)
	result := make(chan error, 1)
	go func() {
		_, err := ask[exit](waiting, t, acp.ClientMethodTerminalWaitForExit, terminal())
		result <- err
	}()
	before, err := ask[acp.TerminalOutputResponse](ctx, t, acp.ClientMethodTerminalOutput, terminal())
	stop()
	switch waited := <-result; {
	case err != nil:
		return ended, err
	case waited == nil:
		return ended, errors.New("the wait was not withdrawn")
	case before.ExitStatus != nil:
		return ended, errors.New("the command ended by itself")
	}
	if _, err := ask[acp.KillTerminalResponse](ctx, t, acp.ClientMethodTerminalKill, terminal()); err != nil {
		return ended, err
	}
	ended, _, err = t.finish(ctx, created.TerminalId)
	return ended, err
}

func (t *turn) children(ctx context.Context, _ string) error {
	c := exec.Command("sh", "-c", `trap "" TERM HUP INT; sleep 600 & wait`)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return t.report(ctx, "children", "", err)
	}
	return t.report(ctx, "children", strconv.Itoa(c.Process.Pid), c.Process.Release())
}

func (t *turn) exit(_ context.Context, status string) error {
	n, err := number(status)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "demoagent: exiting in the middle of a turn, as told")
	os.Exit(n)
	return nil
}

func (t *turn) kill(context.Context, string) error {
	return syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// report sends the result of a command: "NAME ok: RESULT" or "NAME error CODE: MESSAGE".
func (t *turn) report(ctx context.Context, name, result string, err error) error {
	if err == nil {
		return t.say(ctx, name+" ok: "+result)
	}
	code := 0
	message := err.Error()
	if refused, ok := errors.AsType[*acp.RequestError](err); ok {
		code, message = refused.Code, refused.Message
	}
	return t.say(ctx, fmt.Sprintf("%s error %d: %s", name, code, message))
}

func howEnded(e exit) string {
	switch {
	case e.ExitCode != nil:
		return fmt.Sprintf("exit %d", *e.ExitCode)
	case e.Signal != nil:
		return *e.Signal
	default:
		return "neither exit code nor signal"
	}
}
