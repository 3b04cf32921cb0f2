//go:build amd64 || arm64

package sandbox

import (
	"context"
	"encoding/base64"
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

// Exit statuses of a sandbox that did not run a command, as for env(1) and nohup(1).
const (
	failed   = 125
	notFound = 127
)

// stageServe is the argument after Command with which the program executes itself without capabilities.
const stageServe = "-serve"

// Main runs a sandbox until it ends: "PROGRAM sandbox [--write PATH]… [--deny-write PATH]… [--deny-execute PATH]…
// [--deny-read PATH]… [--deny-connect PATH]… [--reads] [--no-internet | --proxy HOST:PORT] [--observe]
// [--max-processes N] -- CMD". It returns the exit status of the command. If a signal ended the command, the same
// signal ends the sandbox. With "--job" instead of a command, it starts the Job of JobFD, writes each Outcome to
// OutcomeFD, and returns when all processes of the command have ended.
func Main() int { return MainWith(nil) }

// DecisionsFD is the descriptor by which a sandbox with the flag "--decisions" asks its parent for decisions.
const DecisionsFD = 3

// MainWith is Main with one more flag, "--decisions": the Decider that dial makes of DecisionsFD then decides instead
// of lists of paths. It must be a Reporter.
func MainWith(dial func(fd int, o Options) (Decider, error)) int {
	return mainWith(dial, func(_ *Options, l Lists) Decider { return l })
}

// mainWith is MainWith with another decider in place of lists.
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
		return failed, dropCapabilities(args)
	}
	if c.args == nil {
		if c, err = readJob(); err != nil {
			return failed, fmt.Errorf("read what to start: %w", err)
		}
		o.Environ = c.env
	}
	if proxy != nil {
		proxy.Credentials = proxyCredentials(o.Environ, proxy)
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

// dropCapabilities executes this program again without any capability. The sandbox acts for the command, which has no
// capabilities either, and a thread of a Go program cannot drop them for the other threads.
func dropCapabilities(args []string) error {
	self, err := proc.OwnProgram()
	if err != nil {
		return err
	}
	return proc.Confine(proc.Confinement{NoLandlock: true, NoSeccomp: true}, func(w proc.Restrictions) error {
		if !w.Capabilities {
			return fmt.Errorf("give up capabilities: %s", strings.Join(w.Notes, "; "))
		}
		return unix.Exec(self, append([]string{os.Args[0], Command, stageServe}, args...), os.Environ())
	})
}

// parse reads the arguments. If it returns a command without arguments, a job is to be read.
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
	flags.IntVar(&o.MaxProcesses, "max-processes", 0, "")
	flags.BoolVar(&l.NoInternet, "no-internet", false, "")
	flags.Func("proxy", "", func(s string) error {
		host, port, _ := strings.Cut(s, ":") // an IPv4 address: a sandbox does not parse other addresses
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

// proxyCredentials returns the credentials for the proxy that are in the command's environment, as a value of the
// header Proxy-Authorization; empty: there are none, and sockets cannot be connected through the proxy. They are not
// among the arguments, which all users can read.
func proxyCredentials(environ []string, proxy *Through) string {
	if environ == nil {
		environ = os.Environ()
	}
	for _, entry := range environ {
		value, ok := strings.CutPrefix(entry, "HTTPS_PROXY=http://")
		if user, ok2 := strings.CutSuffix(value, "@"+proxy.Host+":"+strconv.Itoa(int(proxy.Port))); ok && ok2 {
			return "Basic " + base64.StdEncoding.EncodeToString([]byte(user))
		}
	}
	return ""
}

// serve starts the command, answers its calls until it has ended, and then ends its remaining processes.
func serve(o Options, d Decider, c command) (int, error) {
	// Files that the sandbox itself inherited would be accessible without a decision.
	err := errors.Join(proc.Subreaper(), unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC))
	if err != nil {
		return failed, err
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGCHLD)
	ignoreChildStops()
	started := make(chan startResult, 1)
	over, settled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(settled)
		err := proc.Confine(proc.Confinement{}, func(w proc.Restrictions) error { return startConfined(o, d, c, w, started, over) })
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
		c.report(failure(result.err))
		if errors.Is(result.err, errStart) {
			return notFound, result.err
		}
		return failed, result.err
	}
	// Not earlier: the process that was to execute the command shared this process's memory, and its arguments were
	// read there.
	if err := proc.Undumpable(); err != nil {
		_ = unix.Kill(result.pid, unix.SIGKILL)
		return failed, err
	}
	if reports {
		reporter.Began(result.pid, result.walls, nil)
	}
	c.report(Outcome{PID: result.pid})
	if o.MaxProcesses > 0 {
		go limitProcesses(o.MaxProcesses, d, over)
	}
	status := wait(result.pid, signals)
	if c.outcomes != nil {
		code, signal := status.ExitStatus(), 0
		if status.Signaled() {
			code, signal = -1, int(status.Signal())
		}
		c.report(Outcome{Ended: &Ended{Code: code, Signal: signal}})
		waitRest(signals)
		close(over)
		<-settled
		return 0, nil
	}
	endRest()
	close(over)
	<-settled
	if status.Signaled() { // the parent sees the same as without a sandbox
		signal.Reset(status.Signal())
		_ = unix.Kill(os.Getpid(), status.Signal())
		time.Sleep(time.Second) // for the signal to arrive
		return 128 + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

// failure returns the Outcome of a command that was not started.
func failure(err error) Outcome {
	o := Outcome{Failed: err.Error(), Unsupported: errors.Is(err, ErrUnsupported)}
	if errno := syscall.Errno(0); errors.Is(err, errStart) && errors.As(err, &errno) {
		o.Errno = int(errno)
	}
	return o
}

// startResult is the process of the command and its confinement, or the error of the start.
type startResult struct {
	pid   int
	walls proc.Restrictions
	err   error
}

// errStart is wrapped if the command itself cannot be started.
var errStart = errors.New("start the command")

// startConfined installs the filter on the calling thread, which package proc has confined, and starts the command from
// it: a process inherits the filter of the thread that makes it. The thread stays until the command has ended, because
// the parent-death signal of the command is bound to the thread. Meanwhile the thread runs the jobs for the command's
// Landlock domain.
func startConfined(o Options, d Decider, c command, w proc.Restrictions, started chan<- startResult, over <-chan struct{}) error {
	if !o.Observe && (!w.Landlock || !w.Seccomp) {
		return fmt.Errorf("%w: %s", ErrUnsupported, strings.Join(w.Notes, "; "))
	}
	if err := mayTrace(); err != nil {
		return err
	}
	// While the process is made, this thread occupies a processor of the Go scheduler until the process executes its
	// first program, and that waits for a decision. An operation that stops all goroutines meanwhile (a garbage
	// collection, a change of GOMAXPROCS) would wait forever.
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
	if err == nil && !o.Observe {
		err = forbidCoreFiles()
	}
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
			s.settle()
			return nil
		}
	}
}

// start starts the command. Unless the command's program is set, start searches PATH as execvp does. The command is
// killed when the calling thread ends.
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
			folder = "." // as in the shell
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

// errnoOf returns the system's error within an error, which would repeat the name of the program.
func errnoOf(err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno
	}
	return err
}

// ignoreChildStops keeps the kernel from sending SIGCHLD when a child stops: each program that is started inside is
// stopped to verify it.
func ignoreChildStops() {
	// struct sigaction of the kernel, whose second word contains the flags.
	var action [4]uint64
	const noStops, sizeofSet = 1, 8
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), 0, uintptr(unsafe.Pointer(&action)), sizeofSet, 0, 0)
	if errno == 0 && action[0] > 1 {
		action[1] |= noStops
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), uintptr(unsafe.Pointer(&action)), 0, sizeofSet, 0, 0)
	}
}

// wait forwards signals until the command has ended, and reaps adopted processes. The kernel also wakes a parent that
// waits for a child when another thread of the parent has stopped that child to verify it; hence wait waits only for
// processes that have ended.
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
		case unix.SIGINT, unix.SIGQUIT: // a terminal also sends them to the command
		default:
			_ = unix.Kill(pid, s.(unix.Signal))
		}
	}
	return 0
}

// waitRest reaps the command's remaining processes, and returns when none is left.
func waitRest(signals <-chan os.Signal) {
	for {
		for _, child := range zombies() {
			_, _ = unix.Wait4(child, nil, unix.WNOHANG, nil)
		}
		if len(children()) == 0 {
			return
		}
		<-signals // a process has ended, or was asked to, as all of them are
	}
}

// children returns the children of this process, including those that have ended.
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

// zombies returns the children of this process that have ended.
func zombies() []int {
	return slices.DeleteFunc(children(), func(pid int) bool {
		look, err := proc.Stat(pid)
		return err != nil || look.Live()
	})
}

// endRest ends all descendants of this process.
func endRest() {
	if len(children()) == 0 {
		return // the search for descendants takes milliseconds
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = proc.End(ctx, func() ([]int, error) { return proc.Descendants(os.Getpid()) }, 0)
	for _, pid := range zombies() {
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
}
