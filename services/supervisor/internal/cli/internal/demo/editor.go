package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/acphost/acphost/internal/proc"
)

// editor is a minimal editor: it runs the supervisor, sends requests, and receives updates.
type editor struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	updates chan update // closed at the end of the supervisor's output
	answers chan answer
	events  chan event
	heard   []event // events that were received and not used yet
	reading sync.WaitGroup

	mu    sync.Mutex
	words []string // the last lines of standard error that are not events
	next  int
}

// answer is the response to a request of the editor.
type answer struct {
	ID     int
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

// update is a session/update.
type update struct {
	Kind     string `json:"sessionUpdate"`
	ID       string `json:"toolCallId"`
	Title    string
	Status   string
	Content  json.RawMessage
	RawInput json.RawMessage
	Output   struct {
		ExitCode *int
		Output   string
		Code     int // of the error that a step received
	} `json:"rawOutput"`
}

// event is a line of the supervisor's log about a request: the handler that answered, and the latency.
type event struct {
	Msg     string
	Door    string
	Method  string
	Handler string
	Micros  int64 `json:"duration_us"`
	Error   string
	Verdict string
	Rule    string
	Reason  string
}

// permissionMethod is the method of permission requests. For these, the supervisor logs the decision, not the handler.
const permissionMethod = "session/request_permission"

// decided reports whether the line is about a decision and was logged by the supervisor, not by permd.
func (e event) decided() bool { return e.Msg == "decided" && e.Door != "" }

func (e event) took() time.Duration { return time.Duration(e.Micros) * time.Microsecond }

// killTime is the time between SIGTERM and SIGKILL for the supervisor: the demo ends within a second.
const killTime = 800 * time.Millisecond

func startEditor(ctx context.Context, dir string, argv ...string) (*editor, error) {
	e := &editor{
		cmd:     exec.CommandContext(ctx, argv[0], argv[1:]...),
		updates: make(chan update, 64),
		answers: make(chan answer, 8),
		events:  make(chan event, 256),
	}
	e.cmd.Dir = dir
	// Use SIGTERM, because the supervisor has to end its processes. It needs less than a second.
	e.cmd.Cancel = func() error { return e.cmd.Process.Signal(syscall.SIGTERM) }
	e.cmd.WaitDelay = killTime + 100*time.Millisecond // for systems that cannot list processes
	in, err := e.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	e.in = in
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	errs, err := e.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := e.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	e.reading.Go(func() { e.listen(out) })
	e.reading.Go(func() { e.readLog(errs) })
	return e, nil
}

func (e *editor) pid() int { return e.cmd.Process.Pid }

// listen reads the supervisor's output and sorts it into answers and updates.
func (e *editor) listen(out io.Reader) {
	defer close(e.answers)
	defer close(e.updates)
	lines := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var msg struct {
			answer
			Method string
			Params struct{ Update update }
		}
		if json.Unmarshal(line, &msg) != nil {
			continue
		}
		switch msg.Method {
		case "":
			e.answers <- msg.answer
		case "session/update":
			e.updates <- msg.Params.Update
		}
	}
}

// readLog reads the supervisor's log.
func (e *editor) readLog(errs io.Reader) {
	defer close(e.events)
	lines := bufio.NewScanner(errs)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var ev event
		// A call that was denied has no other line. A call that was allowed has one when it is answered.
		if json.Unmarshal(lines.Bytes(), &ev) == nil && (ev.Msg == "routed" || ev.decided() && (ev.Door == "request" || ev.Verdict == "deny")) {
			if ev.Door == "request" {
				ev.Method = permissionMethod
			}
			select {
			case e.events <- ev:
			default: // more than are read: dropped
			}
			continue
		}
		e.mu.Lock()
		e.words = append(e.words, lines.Text())
		e.words = e.words[max(0, len(e.words)-10):]
		e.mu.Unlock()
	}
}

// ask sends a request. Its answer is sent to answers.
func (e *editor) ask(method string, params any) error {
	e.next++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": e.next, "method": method, "params": params})
	if err != nil {
		return err
	}
	_, err = e.in.Write(append(line, '\n'))
	return err
}

// call sends a request, waits for its answer, and reads the result into v unless v is nil.
func (e *editor) call(ctx context.Context, method string, params, v any) error {
	if err := e.ask(method, params); err != nil {
		return e.wrapError(method, err)
	}
	select {
	case a, ok := <-e.answers:
		if !ok {
			return e.wrapError(method, errors.New("the supervisor closed its output"))
		}
		if a.Error != nil {
			return fmt.Errorf("%s: %s (%d)", method, a.Error.Message, a.Error.Code)
		}
		if v == nil {
			return nil
		}
		return json.Unmarshal(a.Result, v)
	case <-ctx.Done():
		return e.wrapError(method, ctx.Err())
	}
}

// nextEvent returns the supervisor's log line about the next request of a method. The supervisor logs a request while
// its answer is sent, so the lines of two requests may be swapped.
func (e *editor) nextEvent(ctx context.Context, method string) (event, error) {
	for {
		if i := slices.IndexFunc(e.heard, func(ev event) bool { return ev.Method == method }); i >= 0 {
			ev := e.heard[i]
			e.heard = slices.Delete(e.heard, i, i+1)
			return ev, nil
		}
		select {
		case ev, ok := <-e.events:
			if ok {
				e.heard = append(e.heard, ev)
				continue
			}
		case <-ctx.Done():
		}
		return event{}, e.wrapError(method, errors.New("the supervisor did not report the answerer"))
	}
}

// wrapError adds the last lines of the supervisor to an error.
func (e *editor) wrapError(what string, err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.words) == 0 {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w; the supervisor's last words:\n%s", what, err, strings.Join(e.words, "\n"))
}

// kill kills the supervisor and all its descendants.
func (e *editor) kill() {
	pids, _ := proc.Descendants(e.pid()) // without /proc, the handlers end when they notice the end of the supervisor
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	_ = e.cmd.Process.Kill()
}

// stop closes the connection, as an editor that exits does, and waits for the supervisor's end.
func (e *editor) stop() error {
	_ = e.in.Close()
	go func() { // discard the remaining answers
		for range e.updates {
			continue
		}
	}()
	e.reading.Wait()
	if err := e.cmd.Wait(); err != nil {
		return e.wrapError("the supervisor did not end well", err)
	}
	return nil
}
