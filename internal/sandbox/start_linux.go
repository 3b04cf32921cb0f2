//go:build amd64 || arm64

package sandbox

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
)

// Exit statuses of a sandbox that did not come to run a command, as env(1) and nohup(1) have them.
const (
	failed   = 125
	notFound = 127
)

// stageServe is the argument after Command by which the program continues without capabilities.
const stageServe = "-serve"

// Main is the whole life of a sandbox: "PROGRAM sandbox [--write PATH]… [--deny-write PATH]… [--deny-execute PATH]…
// [--deny-read PATH]… [--deny-connect PATH]… [--reads] [--no-internet | --proxy HOST:PORT] [--observe] -- CMD". It
// returns the exit status of the command. If a signal ended the command, the same signal ends the sandbox. With
// "--job" instead of a command, it starts the Job of JobFD, tells OutcomeFD what becomes of it, and returns when
// nothing of it runs any more.
func Main() int { return MainWith(nil) }

// DecisionsFD is the descriptor by which a sandbox with the flag "--decisions" asks who has started it.
const DecisionsFD = 3

// MainWith is Main with one more flag, "--decisions": the Decider that dial makes of DecisionsFD then decides instead
// of lists of paths, and has to be a Reporter.
func MainWith(dial func(fd int, o Options) (Decider, error)) int {
	return mainWith(dial, func(_ *Options, l Lists) Decider { return l })
}

// mainWith is MainWith with a decider of its own in place of lists.
func mainWith(dial func(fd int, o Options) (Decider, error), decider func(*Options, Lists) Decider) int {
	status, err := runWith(dial, decider)
	if err != nil {
		fmt.Fprintf(os.Stderr, "sandbox: %v\n", err)
	}
	return status
}

func runWith(dial func(fd int, o Options) (Decider, error), decider func(*Options, Lists) Decider) (status int, err error) {
	args := os.Args[2:]
	served := len(args) > 0 && args[0] == stageServe
	if served {
		args = args[1:]
	}
	switch {
	case slices.Equal(args, []string{stageTried}):
		return tryInside(), nil
	case slices.Equal(args, []string{stageTry}):
		return tryHere(served), nil
	}
	o, lists, c, asks, proxy, err := parse(args)
	if err != nil {
		return failed, err
	}
	if !served && capable() {
		return failed, shed(args)
	}
	if c.args == nil {
		if c, err = takeJob(); err != nil {
			return failed, fmt.Errorf("read what to start: %w", err)
		}
		o.Environ = c.env
	}
	if !asks {
		d := decider(&o, lists)
		return serve(o, proxy.of(d), c)
	}
	if dial == nil {
		return failed, errors.New("--decisions: nobody is there to ask")
	}
	unix.CloseOnExec(DecisionsFD)
	d, err := dial(DecisionsFD, o)
	if err != nil {
		return failed, err
	}
	return serve(o, proxy.of(d), c)
}

// capable reports whether this process has capabilities, or may have.
func capable() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	err := unix.Capget(&header, &sets[0])
	return err != nil || sets[0].Permitted|sets[1].Permitted != 0
}

// shed executes this program again without any capability. The sandbox acts for the command, which has none either,
// and a thread of Go's cannot give them up for the others.
func shed(args []string) error {
	self, err := proc.OwnProgram()
	if err != nil {
		return err
	}
	return proc.Confine(proc.Confinement{NoLandlock: true, NoSeccomp: true}, func(w proc.Walls) error {
		if !w.Capabilities {
			return fmt.Errorf("give up capabilities: %s", strings.Join(w.Notes, "; "))
		}
		return unix.Exec(self, append([]string{os.Args[0], Command, stageServe}, args...), os.Environ())
	})
}

// parse reads the arguments. A command without arguments is a job's.
func parse(args []string) (o Options, l Lists, c command, asks bool, proxy *Through, err error) {
	flags := flag.NewFlagSet(Command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	list := func(name string, to *[]string) {
		flags.Func(name, "", func(s string) error {
			if !strings.HasPrefix(s, "/") {
				return errors.New("the path has to be absolute")
			}
			*to = append(*to, s)
			return nil
		})
	}
	list("write", &l.Write)
	list("deny-write", &l.DenyWrite)
	list("deny-execute", &l.DenyExecute)
	list("deny-read", &l.DenyRead)
	list("deny-connect", &l.DenyConnect)
	flags.BoolVar(&o.Reads, "reads", false, "")
	flags.BoolVar(&o.Observe, "observe", false, "")
	flags.BoolVar(&l.NoInternet, "no-internet", false, "")
	flags.Func("proxy", "", func(s string) error {
		host, port, _ := strings.Cut(s, ":") // an address of IPv4: a sandbox knows no others by their text
		n, err := strconv.ParseUint(port, 10, 16)
		proxy = &Through{Host: host, Port: uint16(n)}
		return err
	})
	flags.BoolVar(&asks, "decisions", false, "")
	job := flags.Bool("job", false, "")
	if err := flags.Parse(args); err != nil {
		return o, l, c, false, nil, err
	}
	o.Streams = l.NoInternet || proxy != nil
	if l.NoInternet && asks {
		proxy = &Through{}
	}
	o.Reads = o.Reads || len(l.DenyRead) > 0
	if !*job {
		if c.args = flags.Args(); len(c.args) == 0 {
			err = errors.New("no command to confine: put it after --")
		}
	}
	return o, l, c, asks, proxy, err
}

// serve starts the command and answers for it until it has ended, and then ends what the command has left behind.
func serve(o Options, d Decider, c command) (int, error) {
	// Files that the sandbox itself inherited would be open past every decision.
	err := errors.Join(proc.Subreaper(), unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC))
	if err != nil {
		return failed, err
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGCHLD)
	onlyEnds()
	started := make(chan startResult, 1)
	over := make(chan struct{})
	go func() {
		err := proc.Confine(proc.Confinement{}, func(w proc.Walls) error { return hold(o, d, c, w, started, over) })
		if err != nil {
			started <- startResult{err: err}
		}
	}()
	result := <-started
	reporter, reports := d.(Reporter)
	if result.err != nil {
		if reports {
			reporter.Began(0, result.walls, result.err)
		}
		c.tell(failure(result.err))
		if errors.Is(result.err, errStart) {
			return notFound, result.err
		}
		return failed, result.err
	}
	// Only now: what was to become the command shared the memory of this process, and was read there.
	if err := proc.Undumpable(); err != nil {
		_ = unix.Kill(result.pid, unix.SIGKILL)
		return failed, err
	}
	if reports {
		reporter.Began(result.pid, result.walls, nil)
	}
	c.tell(Outcome{PID: result.pid})
	status := wait(result.pid, signals)
	if c.told != nil {
		code, signal := status.ExitStatus(), 0
		if status.Signaled() {
			code, signal = -1, int(status.Signal())
		}
		c.tell(Outcome{Ended: &Ended{Code: code, Signal: signal}})
		waitRest(signals)
		close(over)
		return 0, nil
	}
	close(over)
	endRest()
	if status.Signaled() { // the caller learns of it as if there were no sandbox
		signal.Reset(status.Signal())
		_ = unix.Kill(os.Getpid(), status.Signal())
		time.Sleep(time.Second) // for the signal to arrive
		return 128 + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

// failure is the Outcome of a command that was not started.
func failure(err error) Outcome {
	o := Outcome{Failed: err.Error(), Unsupported: errors.Is(err, ErrUnsupported)}
	if errno := syscall.Errno(0); errors.Is(err, errStart) && errors.As(err, &errno) {
		o.Errno = int(errno)
	}
	return o
}

// startResult is the process of the command and the walls around it, or why there is none.
type startResult struct {
	pid   int
	walls proc.Walls
	err   error
}

// errStart is wrapped if the command itself cannot be started.
var errStart = errors.New("start the command")

// hold puts the filter on the calling thread, which is behind the walls of package proc, and starts the command from
// it: a process is behind the filter of the thread that has made it. The thread stays until the command has ended,
// because the signal by which the command dies with the sandbox is bound to the thread. What the thread calls
// meanwhile are the jobs for the command's Landlock domain.
func hold(o Options, d Decider, c command, w proc.Walls, started chan<- startResult, over <-chan struct{}) error {
	if !o.Observe && (!w.Landlock || !w.Seccomp) {
		return fmt.Errorf("%w: %s", ErrUnsupported, strings.Join(w.Notes, "; "))
	}
	if err := mayTrace(); err != nil {
		return err
	}
	// While the process is made, this thread waits for its first program with a processor of Go's, and the program waits
	// for a decision. Whatever would have to stop all of Go meanwhile, a collection of garbage or a change of the number
	// of processors, would wait for ever.
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	percent, limit := debug.SetGCPercent(-1), debug.SetMemoryLimit(math.MaxInt64)
	listener, err := listen(o)
	if err != nil {
		return err
	}
	s, err := newServer(listener, unix.Gettid(), o, d)
	if err == nil {
		err = s.start()
	}
	var child *os.Process
	if err == nil {
		child, err = start(c)
	}
	debug.SetGCPercent(percent)
	debug.SetMemoryLimit(limit)
	if err != nil {
		return err
	}
	started <- startResult{pid: child.Pid, walls: w}
	for {
		select {
		case job := <-s.inDomain:
			job()
		case <-over:
			return nil
		}
	}
}

// start starts the command, looking for it in PATH as execvp does unless its program is known. It dies with the
// calling thread.
func start(c command) (*os.Process, error) {
	command, name := c.args, c.args[0]
	folders := []string{""}
	if !strings.Contains(name, "/") {
		folders = strings.Split(os.Getenv("PATH"), ":")
		name = "/" + name
	}
	attr := &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, //nolint:forbidigo // the command's, as they are
		Env:   c.env,
		Sys:   &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	}
	if c.program != "" {
		child, err := os.StartProcess(c.program, command, attr)
		if err != nil {
			return nil, fmt.Errorf("%w %s: %w", errStart, command[0], errnoOf(err))
		}
		return child, nil
	}
	result := error(unix.ENOENT)
	for _, folder := range folders {
		if name[0] == '/' && folder == "" && name != command[0] {
			folder = "." // as the shell has it
		}
		program := folder + name
		var st unix.Stat_t
		if unix.Stat(program, &st) != nil {
			continue
		}
		child, err := os.StartProcess(program, command, attr) //nolint:gosec // G702: that is its purpose
		if errors.Is(err, unix.ENOEXEC) {                     // a script that names no interpreter: do as execvp and shells do
			script := append([]string{"sh", program}, command[1:]...)
			child, err = os.StartProcess("/bin/sh", script, attr) //nolint:gosec // G702: likewise
		}
		if err == nil {
			return child, nil
		}
		result = err
	}
	return nil, fmt.Errorf("%w %s: %w", errStart, command[0], errnoOf(result))
}

// errnoOf is the error of the system in an error, which repeats the name of the program.
func errnoOf(err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno
	}
	return err
}

// onlyEnds keeps the kernel from reporting to this process that a child of it has stopped: for each program that is
// started inside, one is stopped to be looked at.
func onlyEnds() {
	// struct sigaction of the kernel, whose second word are the flags.
	var action [4]uint64
	const noStops, sizeofSet = 1, 8
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), 0, uintptr(unsafe.Pointer(&action)), sizeofSet, 0, 0)
	if errno == 0 && action[0] > 1 {
		action[1] |= noStops
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), uintptr(unsafe.Pointer(&action)), 0, sizeofSet, 0, 0)
	}
}

// wait passes signals on until the command has ended, and collects what the sandbox has adopted. The kernel reports to
// a parent also that a thread of the parent's has stopped the process to look at it, whatever the parent waits for;
// hence nothing is waited for before it has ended.
func wait(pid int, signals <-chan os.Signal) unix.WaitStatus {
	for s := range signals {
		switch s {
		case unix.SIGCHLD:
			var status unix.WaitStatus
			for _, child := range zombies() {
				var of unix.WaitStatus
				if got, err := unix.Wait4(child, &of, unix.WNOHANG, nil); err == nil && got == pid {
					status = of
					return status
				}
			}
		case unix.SIGINT, unix.SIGQUIT: // a terminal sends them to the command, too
		default:
			_ = unix.Kill(pid, s.(unix.Signal))
		}
	}
	return 0
}

// waitRest collects what the command has left behind, and returns when nothing of it is there any more.
func waitRest(signals <-chan os.Signal) {
	for {
		for _, child := range zombies() {
			_, _ = unix.Wait4(child, nil, unix.WNOHANG, nil)
		}
		if len(children()) == 0 {
			return
		}
		<-signals // one of them has ended, or was asked to, as all of them are
	}
}

// children are those of this process, also those that have ended.
func children() []int {
	var found []int
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil
	}
	for _, task := range tasks {
		list, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		for s := range strings.FieldsSeq(string(list)) {
			if pid, err := strconv.Atoi(s); err == nil {
				found = append(found, pid)
			}
		}
	}
	return found
}

// zombies are the children of this process that have ended.
func zombies() []int {
	return slices.DeleteFunc(children(), func(pid int) bool {
		look, err := proc.Look(pid)
		return err != nil || look.Live()
	})
}

// endRest ends everything below this process.
func endRest() {
	if len(children()) == 0 {
		return // to look for descendants takes milliseconds
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = proc.End(ctx, func() ([]int, error) { return proc.Descendants(os.Getpid()) }, 0)
	for _, pid := range zombies() {
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
}
