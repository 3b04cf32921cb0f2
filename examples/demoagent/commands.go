package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/coder/acp-go-sdk"
)

// command is what a prompt that begins with a slash does. It reports in the agent's message, one line a result.
type command struct {
	name, args, does string
	run              func(t *turn, ctx context.Context, rest string) error
}

func commands() []command {
	return []command{
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

// availableCommands are the commands as the client is told of them.
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

func commandList() string {
	var list strings.Builder
	for _, c := range commands() {
		fmt.Fprintf(&list, "  %-20s %s\n", strings.TrimSpace("/"+c.name+" "+c.args), c.does)
	}
	return list.String()
}

func (t *turn) read(ctx context.Context, path string) error {
	r, err := t.conn.readTextFile(ctx, acp.ReadTextFileRequest{SessionId: t.session.id, Path: path})
	return t.report(ctx, "read", r.Content, err)
}

func (t *turn) write(ctx context.Context, rest string) error {
	path, text, _ := strings.Cut(rest, " ")
	_, err := t.conn.writeTextFile(ctx, acp.WriteTextFileRequest{SessionId: t.session.id, Path: path, Content: text})
	return t.report(ctx, "write", "done", err)
}

func (t *turn) askEdit(ctx context.Context, path string) error {
	outcome, err := t.ask(ctx, acp.ToolCallUpdate{
		ToolCallId: "ask", Title: acp.Ptr("Edit " + path), Kind: acp.Ptr(acp.ToolKindEdit),
		Locations: []acp.ToolCallLocation{{Path: path}}, Content: []acp.ToolCallContent{acp.ToolDiffContent(path, "new\n", "old\n")},
	})
	return t.report(ctx, "ask", outcome, err)
}

func (t *turn) runLine(ctx context.Context, line string) error {
	const call = acp.ToolCallId("run")
	if err := t.update(ctx, acp.StartToolCall(call, line, acp.WithStartKind(acp.ToolKindExecute), acp.WithStartStatus(acp.ToolCallStatusInProgress))); err != nil {
		return err
	}
	created, err := t.conn.createTerminal(ctx, acp.CreateTerminalRequest{SessionId: t.session.id, Command: line})
	if err != nil {
		return t.report(ctx, "run", "", err)
	}
	if err := t.update(ctx, acp.UpdateToolCall(call, acp.WithUpdateContent([]acp.ToolCallContent{acp.ToolTerminalRef(created.TerminalId)}))); err != nil {
		return err
	}
	ended, output, err := t.finish(ctx, created.TerminalId)
	if err != nil {
		return t.report(ctx, "run", "", err)
	}
	if err := t.update(ctx, acp.UpdateToolCall(call, acp.WithUpdateStatus(acp.ToolCallStatusCompleted))); err != nil {
		return err
	}
	return t.report(ctx, "run", howEnded(ended)+": "+output, nil)
}

func (t *turn) echo(ctx context.Context, text string) error {
	raw, err := t.conn.call(ctx, "_test.acphost/echo", map[string]any{"sessionId": t.session.id, "text": text})
	return t.report(ctx, "echo", string(raw), err)
}

func (t *turn) flood(ctx context.Context, rest string) error {
	number, path, _ := strings.Cut(rest, " ")
	count, err := strconv.Atoi(number)
	if err != nil {
		return acp.NewInvalidParams(map[string]any{"count": err.Error()})
	}
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		bytes  int
		failed []error
	)
	for range count {
		wg.Go(func() {
			r, err := t.conn.readTextFile(ctx, acp.ReadTextFileRequest{SessionId: t.session.id, Path: path})
			mu.Lock()
			defer mu.Unlock()
			bytes += len(r.Content)
			if err != nil {
				failed = append(failed, err)
			}
		})
	}
	wg.Wait()
	return t.report(ctx, "flood", fmt.Sprintf("%d reads, %d bytes", count, bytes), errors.Join(failed...))
}

func (t *turn) big(ctx context.Context, rest string) error {
	mib, err := strconv.Atoi(rest)
	if err != nil {
		return acp.NewInvalidParams(map[string]any{"mib": err.Error()})
	}
	return t.update(ctx, acp.UpdateAgentMessageText(strings.Repeat("0123456789abcde\n", mib<<16)))
}

func (t *turn) wait(ctx context.Context, _ string) error {
	if err := t.say(ctx, "waiting"); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (t *turn) cancelWait(ctx context.Context, line string) error {
	created, err := t.conn.createTerminal(ctx, acp.CreateTerminalRequest{SessionId: t.session.id, Command: line})
	if err != nil {
		return t.report(ctx, "cancel", "", err)
	}
	waiting, stop := context.WithCancel(ctx)
	result := make(chan error, 1)
	go func() {
		_, err := t.conn.waitForTerminalExit(waiting, acp.WaitForTerminalExitRequest{SessionId: t.session.id, TerminalId: created.TerminalId})
		result <- err
	}()
	before, err := t.conn.terminalOutput(ctx, acp.TerminalOutputRequest{SessionId: t.session.id, TerminalId: created.TerminalId})
	stop()
	if waited := <-result; err == nil && waited == nil {
		err = errors.New("the wait was not withdrawn")
	}
	if err == nil && before.ExitStatus != nil {
		err = errors.New("the command ended by itself")
	}
	if err != nil {
		return t.report(ctx, "cancel", "", err)
	}
	if err := t.conn.killTerminal(ctx, acp.KillTerminalRequest{SessionId: t.session.id, TerminalId: created.TerminalId}); err != nil {
		return t.report(ctx, "cancel", "", err)
	}
	ended, _, err := t.finish(ctx, created.TerminalId)
	return t.report(ctx, "cancel", howEnded(ended), err)
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
	n, err := strconv.Atoi(status)
	if err != nil {
		return acp.NewInvalidParams(map[string]any{"status": err.Error()})
	}
	fmt.Fprintln(os.Stderr, "demoagent: exiting in the middle of a turn, as told")
	os.Exit(n)
	return nil
}

func (t *turn) kill(context.Context, string) error {
	return syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// report says how a command went: "NAME ok: RESULT" or "NAME error CODE: MESSAGE".
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

func howEnded(e acp.WaitForTerminalExitResponse) string {
	switch {
	case e.ExitCode != nil:
		return fmt.Sprintf("exit %d", *e.ExitCode)
	case e.Signal != nil:
		return *e.Signal
	default:
		return "neither exit code nor signal"
	}
}
