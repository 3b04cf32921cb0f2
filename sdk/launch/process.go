package launch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin/runner"

	"github.com/acphost/acphost/internal/child"
	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/sdk/internal/wire"
)

const (
	// drainTime limits the reading of stdout and stderr after the process has ended. Later output can only come from
	// other processes that hold the pipe open.
	drainTime = 250 * time.Millisecond
	// handshakeMax limits the first line on stdout, in bytes. A valid line has about a thousand.
	handshakeMax = 16 << 10
)

// process is a handler's process, and go-plugin's runner for it. It owns the pipes. The process leads its own process
// group, and ends when its stdin ends, also if the host is killed.
type process struct {
	spec    Spec
	program *program
	cmd     *exec.Cmd
	pid     int // 0: not started
	stderr  *outputLogger

	inputOnce sync.Once
	input     *os.File // the host's end of stdin; closing it asks the child to exit

	line  *io.PipeReader // the input of go-plugin: one checked line
	lineW *io.PipeWriter

	mu            sync.Mutex
	killRequested bool  // killed before the start
	reaped        bool  // prevents signals to a group whose number may be reused
	settled       bool  // the result of the handshake is known
	notReady      error // why the handshake failed

	dead   chan struct{} // reaped; state is set
	exited chan struct{} // dead, and its output was read
}

var _ runner.Runner = (*process)(nil)

func newProcess(s Spec, program *program) *process {
	cmd := exec.Command(s.Command[0], s.Command[1:]...)
	cmd.Dir = s.Dir
	if s.User != nil && s.Dir == "" {
		cmd.Dir = "/" // the user may lack the permission to enter this process's directory, or must not inherit it
	}
	cmd.Env = environment(s)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: s.User.Credential()}
	p := &process{
		spec: s, program: program, cmd: cmd, stderr: &outputLogger{log: s.Logger},
		dead: make(chan struct{}), exited: make(chan struct{}),
	}
	p.line, p.lineW = io.Pipe()
	return p
}

// Start implements runner.Runner.
func (p *process) Start(context.Context) error {
	var opened []*os.File
	closeAll := func() {
		for _, f := range opened {
			_ = f.Close()
		}
	}
	pipe := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err == nil {
			opened = append(opened, r, w)
		}
		return r, w, err
	}
	inR, inW, err1 := pipe()
	outR, outW, err2 := pipe()
	errR, errW, err3 := pipe()
	if err := errors.Join(err1, err2, err3); err != nil {
		closeAll()
		return fmt.Errorf("make pipes: %w", err)
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = inR, outW, errW
	if p.spec.User == nil { // another user must be able to reach the program by its path, and cannot replace it
		if name, moved := p.program.descriptor(errW); name != "" {
			p.cmd.Path, p.cmd.Stderr = name, moved // the hashed file is executed; its first argument remains the path
			defer moved.Close()
		}
	}
	if err := p.startChild(); err != nil {
		closeAll()
		if wrong, ok := errors.AsType[*fs.PathError](err); ok && wrong.Path == p.cmd.Path {
			wrong.Path = p.spec.Command[0] // the path is more helpful to people
		}
		return p.spec.User.CannotStart(p.spec.Command[0], err)
	}
	for _, f := range []*os.File{inR, outW, errW} {
		_ = f.Close()
	}
	p.mu.Lock()
	p.input = inW
	p.pid = p.cmd.Process.Pid
	killRequested := p.killRequested
	p.mu.Unlock()
	if killRequested {
		p.signal(syscall.SIGKILL)
	}

	var readers sync.WaitGroup
	readers.Go(panics.Guard(p.spec.Logger, "reading the standard error of a handler", func() { p.stderr.copy(errR, "stderr") }, func(error) { _ = errR.Close() }))
	readers.Go(panics.Guard(p.spec.Logger, "reading the standard output of a handler", func() { p.readStdout(outR) }, func(error) { _ = outR.Close() }))
	go func() {
		defer panics.Recover(p.spec.Logger, "waiting for the end of a handler", func(error) { p.signal(syscall.SIGKILL) })
		p.wait()
		for _, f := range []*os.File{outR, errR} {
			_ = f.SetReadDeadline(time.Now().Add(drainTime))
		}
		readers.Wait()
		_, _ = outR.Close(), errR.Close()
		p.endInput()
		close(p.exited)
	}()
	return nil
}

// startChild starts the process with its permitted capabilities.
func (p *process) startChild() error {
	if !p.spec.Limited {
		return child.Start(p.cmd)
	}
	c := proc.Confinement{NoLandlock: true, NoSeccomp: true, Keep: p.spec.Keep, ChangesUser: p.spec.User != nil}
	return proc.Confine(c, func(proc.Restrictions) error { return child.Start(p.cmd) })
}

// wait reaps the process and kills the rest of its group first, while the group's number is not reused.
func (p *process) wait() {
	ended := waitUnreaped(p.pid)
	if !ended { // the platform cannot wait without reaping: the group is not killed
		_ = child.Wait(p.cmd)
	}
	p.mu.Lock()
	if ended {
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	}
	p.reaped = true
	p.mu.Unlock()
	if ended {
		_ = child.Wait(p.cmd)
	}
	close(p.dead)
}

// readStdout passes the first line to go-plugin if it is a handshake, and logs the rest. So neither invalid nor endless
// lines reach go-plugin's scanner.
func (p *process) readStdout(r *os.File) {
	reader := bufio.NewReaderSize(r, handshakeMax)
	first, err := reader.ReadSlice('\n')
	if err == nil {
		var line string
		if line, err = wire.CheckHandshake(string(bytes.TrimSpace(first)), !p.spec.NoTLS); err == nil {
			p.settle(nil)
			_, _ = io.WriteString(p.lineW, line+"\n")
		}
	} else {
		err = p.noLine(first, err)
	}
	p.settle(err)
	_ = p.lineW.Close()
	p.stderr.copy(reader, "stdout")
}

// settle records the first reason why the handshake failed; nil means that it succeeded.
func (p *process) settle(reason error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.settled {
		p.settled, p.notReady = true, reason
	}
}

// noLine returns the error for a stdout that ended, or exceeded the limit, without a complete line.
func (p *process) noLine(got []byte, err error) error {
	if errors.Is(err, bufio.ErrBufferFull) {
		return wire.NotHandshake(string(got))
	}
	// The likely exit status is a better reason; go-plugin would kill the process first.
	if !closedWithin(exitTimeout, p.dead) {
		return errors.New("closed its stdout before its handshake")
	}
	reason := fmt.Errorf("%w before its handshake", p.exitError())
	if len(got) > 0 {
		reason = fmt.Errorf("%w, after it wrote %.80q to stdout", reason, got)
	}
	return reason
}

// signal sends sig to the whole process group, if it still exists.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid != 0 && !p.reaped {
		_ = syscall.Kill(-p.pid, sig)
	}
}

// killNow kills the process, now or as soon as it has started.
func (p *process) killNow() {
	p.mu.Lock()
	p.killRequested = true
	p.mu.Unlock()
	p.signal(syscall.SIGKILL)
}

// endInput closes the child's stdin, which asks it to exit.
func (p *process) endInput() {
	p.inputOnce.Do(func() { _ = p.input.Close() })
}

// killAndWait kills a process whose start failed and waits for its end.
func (p *process) killAndWait() {
	if p.pid == 0 {
		return
	}
	p.signal(syscall.SIGKILL)
	_ = closedWithin(reapTime, p.exited)
}

func (p *process) handshakeError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.notReady
}

// addExitReason prefixes an error of the connection with the process's exit, if it exited.
func (p *process) addExitReason(err error) error {
	if closedWithin(drainTime, p.exited) {
		err = fmt.Errorf("%w right after its handshake", p.exitError())
	}
	return p.withLastLine(err)
}

// exitError returns how the process ended. It must be called after dead is closed.
func (p *process) exitError() error {
	state := p.cmd.ProcessState
	if state == nil {
		return errors.New("ended")
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return fmt.Errorf("was killed by %s", proc.SignalName(ws.Signal()))
	}
	return fmt.Errorf("exited with status %d", state.ExitCode())
}

func (p *process) withLastLine(err error) error {
	if last := p.stderr.last(); last != "" {
		return fmt.Errorf("%w: %s", err, last)
	}
	return err
}

// Wait implements runner.Runner.
func (p *process) Wait(context.Context) error {
	<-p.exited
	return nil
}

// Kill implements runner.Runner. go-plugin calls it when the handshake has timed out.
func (p *process) Kill(context.Context) error {
	p.settle(fmt.Errorf("no handshake on stdout within %s", p.spec.HandshakeTimeout))
	p.signal(syscall.SIGKILL)
	return nil
}

// Stdout implements runner.Runner.
func (p *process) Stdout() io.ReadCloser { return p.line }

// Stderr implements runner.Runner. It returns no data: go-plugin's reader panics on {"@message": 1}.
func (p *process) Stderr() io.ReadCloser { return io.NopCloser(bytes.NewReader(nil)) }

// Name implements runner.Runner.
func (p *process) Name() string { return p.spec.Name }

// ID implements runner.Runner.
func (p *process) ID() string { return strconv.Itoa(p.pid) }

// Diagnose implements runner.Runner.
func (p *process) Diagnose(context.Context) string { return "" }

// PluginToHost implements runner.Runner.
func (p *process) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin implements runner.Runner.
func (p *process) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}
