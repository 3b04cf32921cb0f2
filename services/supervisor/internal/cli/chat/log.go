package chat

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
)

// maxLogLine limits the bytes of a log line on the screen.
const maxLogLine = 4 << 10

// logRelay forwards log lines to the chat while it has the terminal, so that they do not disturb the screen.
type logRelay struct {
	lines chan string // lines to be shown; nil: logs are not written to the terminal

	to      *os.File
	r, w    *os.File
	done    chan struct{}
	passing atomic.Bool
}

// newLogRelay returns a logRelay. It forwards logs if standard error is a terminal. The caller must close it.
func newLogRelay(call *command.Call) (*logRelay, error) {
	l := &logRelay{to: call.Stderr, done: make(chan struct{})}
	if !call.Terminal(call.Stderr) {
		close(l.done)
		return l, nil
	}
	var err error
	if l.r, l.w, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("make a pipe for the log: %w", err)
	}
	l.lines = make(chan string, 64)
	go l.run()
	return l, nil
}

// writer returns the writer for logs.
func (l *logRelay) writer() io.Writer {
	if l.w == nil {
		return l.to
	}
	return l.w
}

// show shows a line of acphost: in the chat while it has the terminal, else on standard error. It does not block.
func (l *logRelay) show(text string) {
	if l.lines == nil || l.passing.Load() {
		fmt.Fprintln(l.to, command.WrapLines(l.to, "acphost: "+text))
		return
	}
	select {
	case l.lines <- text:
	default:
	}
}

// direct writes further lines to standard error, because the screen is free.
func (l *logRelay) direct() { l.passing.Store(true) }

// close ends the relay. Later log lines are discarded.
func (l *logRelay) close() {
	if l.w != nil {
		_ = l.w.Close()
	}
	<-l.done
	if l.r != nil {
		_ = l.r.Close()
	}
}

func (l *logRelay) run() {
	defer close(l.done)
	s := bufio.NewScanner(l.r)
	s.Buffer(make([]byte, 0, maxLogLine), 1<<20)
	for s.Scan() {
		text := s.Text()
		if l.passing.Load() {
			fmt.Fprintln(l.to, text)
			continue
		}
		select {
		case l.lines <- text[:min(len(text), maxLogLine)]:
		default: // too many lines to read: drop
		}
	}
}
