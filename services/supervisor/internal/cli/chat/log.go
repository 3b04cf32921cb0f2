package chat

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
)

// maxLogLine bounds a line of the log on the screen, in bytes.
const maxLogLine = 4 << 10

// logRelay takes what is logged while a chat has the terminal, so that it does not go across the screen.
type logRelay struct {
	lines chan string // what is to be shown; nil: logs go elsewhere anyway

	to      *os.File
	r, w    *os.File
	done    chan struct{}
	passing atomic.Bool
}

// newLogRelay relays logs where standard error is a terminal. Close it.
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

// writer is what logs are written to.
func (l *logRelay) writer() io.Writer {
	if l.w == nil {
		return l.to
	}
	return l.w
}

// tell shows a line of acphost's own: in the chat while that has the terminal, else on standard error. It does not wait.
func (l *logRelay) tell(text string) {
	if l.lines == nil || l.passing.Load() {
		fmt.Fprintln(l.to, command.Broken(l.to, "acphost: "+text))
		return
	}
	select {
	case l.lines <- text:
	default:
	}
}

// direct: the screen is free, and what comes from now on goes to standard error.
func (l *logRelay) direct() { l.passing.Store(true) }

// close ends the relay; what is logged later is lost.
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
		default: // a flood that nobody could read
		}
	}
}
