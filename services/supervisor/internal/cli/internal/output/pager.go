package output

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
)

// EnvPager and EnvAnyPager are the variables with the user's pager. Empty, or "cat", means none.
const (
	EnvPager    = "ACPHOST_PAGER"
	EnvAnyPager = "PAGER"
)

// Pager writes to standard output. If that is a terminal, and the text is longer than its screen, it starts a pager.
// The caller must call Close. Pager is not safe for concurrent use.
type Pager struct {
	call    *command.Call
	program []string // nil: none
	rows    int
	buffer  bytes.Buffer // until it exceeds the screen
	cmd     *exec.Cmd
	to      io.WriteCloser // input of the pager
	plain   bool           // write to standard output directly

	interrupts chan os.Signal // receives SIGINT while the pager has the terminal
	ends       chan os.Signal // receives other signals that end a command, meanwhile
	left       chan struct{}  // closed when the pager has ended; nil if none was started
	watched    chan struct{}  // closed when endOnSignal has returned
}

// pagerGrace limits the time between a signal and the end of a pager.
const pagerGrace = 500 * time.Millisecond

// NewPager returns a Pager for standard output.
func NewPager(call *command.Call) *Pager {
	p := &Pager{call: call, rows: terminalHeight(call.Stdout), interrupts: make(chan os.Signal, 1), ends: make(chan os.Signal, 1)}
	if p.rows > 0 && call.Terminal(call.Stdout) && call.Terminal(call.Stdin) && call.Env("TERM") != "dumb" {
		p.program = pagerOf(call.Env)
	}
	p.plain = p.program == nil
	return p
}

// Page prints text through a Pager.
func Page(call *command.Call, text string) error {
	p := NewPager(call)
	if _, err := io.WriteString(p, text); err != nil && !errors.Is(err, ErrQuit) {
		_ = p.Close()
		return err
	}
	return p.Close()
}

// pagerOf returns the command of the user's pager, or of an installed one, or nil.
func pagerOf(env func(string) string) []string {
	for _, name := range []string{EnvPager, EnvAnyPager} {
		// The user may have disabled it with an empty value. The environment does not distinguish that from an unset
		// variable, so a space means disabled.
		if text := env(name); text != "" {
			words := strings.Fields(text)
			if len(words) == 0 || words[0] == "cat" {
				return nil
			}
			if _, err := exec.LookPath(words[0]); err == nil {
				return words
			}
		}
	}
	for _, name := range []string{"less", "more"} {
		if _, err := exec.LookPath(name); err == nil {
			return []string{name}
		}
	}
	return nil
}

// Write implements io.Writer.
func (p *Pager) Write(data []byte) (int, error) {
	switch {
	case p.plain:
		return p.call.Stdout.Write(data)
	case p.to != nil:
		return p.pass(data)
	}
	p.buffer.Write(data)
	if bytes.Count(p.buffer.Bytes(), []byte{'\n'}) < p.rows {
		return len(data), nil
	}
	held := bytes.Clone(p.buffer.Bytes())
	p.buffer.Reset()
	if err := p.start(); err != nil { // continue without a pager
		p.plain = true
		_, err := p.call.Stdout.Write(held)
		return len(data), err
	}
	_, err := p.pass(held)
	return len(data), err
}

// pass writes data to the pager. It is not an error if the user has quit the pager.
func (p *Pager) pass(data []byte) (int, error) {
	if _, err := p.to.Write(data); err != nil {
		return len(data), ErrQuit
	}
	return len(data), nil
}

// ErrQuit means that the user has quit the pager, so that no more text is needed. Close does not return it.
var ErrQuit = errors.New("the pager was quit")

func (p *Pager) start() (err error) {
	p.cmd = exec.Command(p.program[0], p.program[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = p.call.Stdout, p.call.Stderr
	p.cmd.Env = os.Environ()
	if p.call.Env("LESS") == "" {
		p.cmd.Env = append(p.cmd.Env, "LESS=FRX") // exit if all fits, keep colours, leave the text on the screen
	}
	if p.to, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if err = p.cmd.Start(); err != nil {
		p.to = nil
		return err
	}
	p.call.HandleSignals()
	signal.Notify(p.interrupts, os.Interrupt) // Ctrl-C belongs to the pager
	ends := slices.DeleteFunc(command.StopSignals(), func(s os.Signal) bool { return s == os.Interrupt })
	signal.Notify(p.ends, append(ends, syscall.SIGQUIT)...)
	p.left, p.watched = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(p.watched)
		defer panics.Recover(nil, "waiting for a signal")
		p.endOnSignal()
	}()
	return nil
}

// endOnSignal ends the pager, and sets the exit status, if a signal arrives before the user has quit it.
func (p *Pager) endOnSignal() {
	select {
	case <-p.left:
	case s := <-p.ends:
		if number, ok := s.(syscall.Signal); ok {
			p.call.FixStatus(128 + int(number))
		}
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it restores the terminal
		select {
		case <-p.left:
		case <-time.After(pagerGrace):
			_ = p.cmd.Process.Kill()
		}
	}
}

// Close writes buffered text, and waits until the user has quit the pager. A signal that ends the command ends the
// pager, too, and determines the exit status.
func (p *Pager) Close() error {
	if p.to == nil {
		_, err := p.call.Stdout.Write(p.buffer.Bytes())
		return err
	}
	defer signal.Stop(p.interrupts)
	_ = p.to.Close() // it may have been quit
	_ = p.cmd.Wait() // its exit status is irrelevant
	signal.Stop(p.ends)
	close(p.left)
	<-p.watched
	return nil
}
