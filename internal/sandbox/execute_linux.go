//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
)

// maxArguments limits the size of a program's arguments and environment. The kernel's limit is 6 MiB.
const maxArguments = 6 << 20

// image is the expected state of a program at its first instruction.
type image struct {
	program     FileID
	args        []string
	script      bool
	file        string // the path of a script on its interpreter's command line, before the script's own arguments
	scripts     []script
	directory   FileID
	environment []string
	event       Event // the event that was decided on
}

// script is a script that its interpreter opens again, by name.
type script struct {
	name string
	is   FileID
}

func idOf(path string) (FileID, error) {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	return FileID{st.Dev, st.Ino}, err
}

// execute decides on a program, lets the kernel start it, and verifies it before it runs: the arguments or the file may have been
// replaced between the decision and the start.
func (c *call) execute(dirfd, pathArg, argsArg, envArg, flags int) error {
	name, err := c.name(pathArg)
	if err != nil {
		return err
	}
	file := name
	if dirfd != unix.AT_FDCWD && !strings.HasPrefix(name, "/") {
		file = strings.TrimSuffix("/dev/fd/"+strconv.Itoa(dirfd)+"/"+name, "/")
	}
	if name == "" && flags&unix.AT_EMPTY_PATH != 0 {
		name, dirfd = c.proc("fd/"+strconv.Itoa(dirfd)), unix.AT_FDCWD
	}
	room := maxArguments
	args, err := c.strings(c.data.args[argsArg], &room)
	if err != nil {
		return err
	}
	env, err := c.strings(c.data.args[envArg], &room)
	if err != nil {
		return err
	}
	dir, dirID, err := c.directory()
	if err != nil {
		return err
	}
	if !c.valid() {
		return unix.ESRCH
	}
	program, p, err := c.program(dirfd, name, flags)
	if err != nil {
		return err
	}
	defer unix.Close(program)
	changed := slices.DeleteFunc(slices.Clone(env), func(entry string) bool { return c.environment[entry] })
	want := image{environment: env, file: file, directory: dirID}
	errMapped := want.mapped(program, c.interpreter)
	event := Event{Operation: Execute, Args: args, Dir: dir, Env: changed, Apart: p.within, Start: !c.runs.Load()}
	if want.script && slices.Contains(strings.Split(file, "/"), "..") {
		event.Others = []string{file}
	}
	var events []Event
	for _, event.Path = range p.paths() {
		events = append(events, event)
	}
	event = events[0]
	if err := c.allowed(events...); err != nil {
		c.runs.Store(c.runs.Load() || errors.Is(err, errObserved)) // with Observe, the program's start is not verified
		return err
	}
	if errMapped != nil {
		return errMapped
	}
	if len(args) == 0 {
		args = []string{""} // as the kernel has it
	}
	event.PID, event.Call = c.tgid(), c.id
	want.args, want.event = args, event
	if p.within {
		want.scripts = nil // paths resolve differently there, and the program still counts as the agent's
	}
	return c.startWatched(want)
}

// program opens the file to execute. It rejects a file that is not readable, because the kernel would hide the resulting process from
// the sandbox. The returned place is closed.
func (c *call) program(dirfd int, name string, flags int) (fd int, p place, err error) {
	p, err = c.find(dirfd, name, flags&unix.AT_SYMLINK_NOFOLLOW == 0)
	if err != nil {
		return -1, p, err
	}
	defer p.close()
	if fd, err = p.hold(); err != nil {
		return -1, p, err
	}
	access := uintptr(unix.X_OK | unix.R_OK)
	if c.options.Observe {
		access = unix.X_OK
	}
	_, _, errno := unix.Syscall6(unix.SYS_FACCESSAT2, uintptr(fd), uintptr(unsafe.Pointer(&[1]byte{})), access,
		unix.AT_EACCESS|unix.AT_EMPTY_PATH, 0, 0)
	var st unix.Stat_t
	if errno == 0 && unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		errno = unix.EACCES
	}
	if errno != 0 {
		unix.Close(fd)
		return -1, p, errno
	}
	return fd, p, nil
}

// maxInterpreters limits the chain of scripts that are interpreters of each other, as the kernel does.
const maxInterpreters = 5

// mapped finds the file that the kernel will run for a program: the program, or the interpreter that a script names.
func (i *image) mapped(program int, open func(name string) (int, error)) error {
	name := i.file
	fd, err := unix.Open(descriptor(program), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	for range maxInterpreters + 1 {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		var head [256]byte
		err = unix.Fstat(fd, &st)
		n, errRead := unix.Pread(fd, head[:], 0)
		unix.Close(fd)
		if err = errors.Join(err, errRead); err != nil {
			return err
		}
		i.program = FileID{st.Dev, st.Ino}
		line, isScript := bytes.CutPrefix(head[:n], []byte("#!"))
		if !isScript {
			if !bytes.HasPrefix(head[:n], []byte("\x7fELF")) {
				return unix.ENOEXEC // a shell then runs it as a script
			}
			return nil
		}
		i.script = true
		i.scripts = append(i.scripts, script{name, i.program})
		line, _, _ = bytes.Cut(line, []byte("\n"))
		fields := strings.FieldsFunc(string(line), func(r rune) bool { return r == ' ' || r == '\t' || r == 0 })
		if len(fields) == 0 {
			return unix.ENOEXEC
		}
		if !strings.HasPrefix(fields[0], "/") {
			return unix.EACCES // relative to the process's working directory
		}
		name = fields[0]
		fd, err = open(name)
	}
	return unix.ELOOP
}

// startWatched lets the kernel execute the program while the calling thread traces the process. A process that another program traces
// cannot start programs.
//
// The kernel does not notify the sandbox if it refuses to start a program. Hence the process stops in any case: in its new program,
// or where it continues after the call. Before that, the kernel can wait for as long as the process chooses: for a file system, or
// for another thread of the same process that its tracer has stopped.
func (c *call) startWatched(want image) error {
	tid := int(c.pid)
	if err := c.seize(); err != nil {
		return err
	}
	if err := unix.PtraceInterrupt(tid); err != nil {
		return unix.ESRCH // the process was killed
	}
	c.proceed()
	defer c.replaceIfSlow()()
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err == nil && got != tid && got != c.tgid(): // a child that the sandbox has adopted
		case err != nil || !status.Stopped():
			return errAnswered // the process has ended
		default:
			if c.stopped(got, status, want) {
				return errAnswered
			}
		}
	}
}

// longestTrace is the time within which another thread of the sandbox detaches from a process.
const longestTrace = 100 * time.Millisecond

// seize starts to trace the calling thread. It retries for longestTrace: if the kernel has just refused to start a program for the
// thread, another thread of the sandbox may still trace it.
func (c *call) seize() error {
	const options = unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_EXITKILL
	for began := time.Now(); ; {
		_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(c.pid), 0, options, 0, 0)
		if errno == 0 {
			return nil
		}
		status, err := proc.Slurp(c.proc("status"), nil)
		if err != nil || time.Since(began) > longestTrace {
			return unix.EAGAIN
		}
		if tracer := tracerOf(status); tracer != "0" && unix.Access("/proc/self/task/"+tracer, unix.F_OK) != nil {
			return c.refuse("a program that starts while another one traces the process (strace, gdb)", unix.EPERM)
		}
		time.Sleep(time.Millisecond)
	}
}

// tracerOf returns the thread that traces a process, from the text of its file status in /proc; "0": none.
func tracerOf(status []byte) string {
	_, rest, _ := bytes.Cut(status, []byte("\nTracerPid:\t"))
	tracer, _, _ := bytes.Cut(rest, []byte("\n"))
	return string(tracer)
}

// stopped handles a stop of the traced process, and reports whether it was detached.
func (c *call) stopped(pid int, status unix.WaitStatus, want image) bool {
	switch status.TrapCause() {
	case unix.PTRACE_EVENT_EXEC:
		if !want.matches(pid) {
			_ = unix.Kill(pid, unix.SIGKILL)
			for { // its parent is notified of its end only after its tracer
				var s unix.WaitStatus
				_, err := unix.Wait4(pid, &s, unix.WALL|unix.WNOTHREAD, nil)
				if err != nil && !errors.Is(err, unix.EINTR) || err == nil && !s.Stopped() {
					return true
				}
			}
		}
		c.runs.Store(true)
		// Children that the process had started before do not belong to the new program, but would be found below it.
		if w, ok := c.decider.(Watcher); ok && childless(pid) {
			w.Started(want.event)
		}
		_ = unix.PtraceDetach(pid)
		return true
	}
	if int(status)>>16 == unix.PTRACE_EVENT_STOP {
		_ = unix.PtraceDetach(pid)
		return true
	}
	_ = unix.PtraceCont(pid, int(status.StopSignal()))
	return false
}

// childless reports whether a stopped process has no children. Ended children count: while one is reaped, another may be missing in
// the list.
func childless(pid int) bool {
	id := strconv.Itoa(pid)
	list, err := proc.Slurp("/proc/"+id+"/task/"+id+"/children", nil)
	return err == nil && len(bytes.TrimSpace(list)) == 0
}

// matches reports whether a process that has not run yet is the image that was decided on.
func (i image) matches(pid int) bool {
	base := "/proc/" + strconv.Itoa(pid)
	is := func(name string, want FileID) bool {
		id, err := idOf(base + name)
		return err == nil && id == want
	}
	if !is("/exe", i.program) || !is("/cwd", i.directory) {
		return false
	}
	for _, s := range i.scripts {
		if !is(reopens(s.name), s.is) {
			return false
		}
	}
	line, err := proc.Slurp(base+"/cmdline", nil)
	if err != nil {
		return false
	}
	if i.script { // the kernel replaces the first argument by the interpreter, its argument and the script's path
		if !bytes.HasSuffix(line, append([]byte{0}, joined(append([]string{i.file}, i.args[1:]...))...)) {
			return false
		}
	} else if !bytes.Equal(line, joined(i.args)) {
		return false
	}
	env, err := proc.Slurp(base+"/environ", nil)
	return err == nil && bytes.Equal(env, joined(i.environment))
}

// reopens returns where an interpreter will open a script, relative to its process's directory in /proc.
func reopens(name string) string {
	for prefix, to := range map[string]string{"/dev/fd/": "/fd/", "/proc/self/": "/", "/proc/thread-self/": "/"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return to + rest
		}
	}
	if strings.HasPrefix(name, "/") {
		return "/root" + name
	}
	return "/cwd/" + name
}

func joined(list []string) []byte {
	var b []byte
	for _, s := range list {
		b = append(append(b, s...), 0)
	}
	return b
}
