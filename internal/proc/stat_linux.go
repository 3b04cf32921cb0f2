package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// Live reports whether the process is not a zombie. A process whose first thread has ended while others run looks like
// a zombie except for its number of threads.
func (s Process) Live() bool {
	switch s.state {
	case 'Z', 'X', 'x':
		return s.Threads > 1
	}
	return true
}

func (s Process) stopped() bool { return s.state == 'T' || s.state == 't' }

// ProcSupported returns why /proc cannot be used here; nil: it can. A /proc that was mounted for another pid namespace
// lists processes by other numbers than this process uses: data read there would belong to other processes. It checks
// once.
var ProcSupported = sync.OnceValue(func() error {
	shown, err := os.Readlink("/proc/self")
	if err != nil {
		return fmt.Errorf("/proc: %w: %w", ErrUnsupported, err)
	}
	if own := strconv.Itoa(os.Getpid()); shown != own {
		return fmt.Errorf("/proc: %w: it belongs to another pid namespace, where this process is %s and not %s", ErrUnsupported, shown, own)
	}
	return nil
})

// procFile returns the path of a file of a process in /proc.
func procFile(pid int, name string) (string, error) {
	if err := ProcSupported(); err != nil {
		return "", err
	}
	return "/proc/" + strconv.Itoa(pid) + "/" + name, nil
}

// readProc reads a file of a process in /proc.
func readProc(pid int, name string) ([]byte, error) {
	file, err := procFile(pid, name)
	if err != nil {
		return nil, err
	}
	return Slurp(file, nil)
}

// errGone means that a process ended between being listed and being read.
var errGone = errors.New("no such process")

// Stat returns the current state of a process.
func Stat(pid int) (Process, error) {
	file, err := procFile(pid, "stat")
	var data []byte
	if err == nil {
		data, err = slurp(file, make([]byte, 0, 512), math.MaxInt, true) // most lines are shorter
	}
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			return Process{}, fmt.Errorf("process %d: %w", pid, errGone)
		}
		return Process{}, fmt.Errorf("process %d: %w", pid, err)
	}
	s, err := parseStat(data)
	if err != nil {
		return Process{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return s, nil
}

// parseStat parses a line of /proc/PID/stat. The process chooses the command name, which lies between the first opening
// and the last closing parenthesis. It may contain spaces, parentheses, newlines, and text that looks like the rest of
// the line.
func parseStat(line []byte) (Process, error) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return Process{}, fmt.Errorf("stat line %.80q has no command name", string(line))
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(line[:open])))
	if err != nil {
		return Process{}, fmt.Errorf("stat line %.80q: pid: %w", string(line), err)
	}
	s, n := Process{PID: pid}, 3 // the number of the field in the manual
	for field := range bytes.FieldsSeq(line[end+1:]) {
		switch n {
		case 3:
			if len(field) == 1 {
				s.state = field[0]
			}
		case 4:
			s.Parent, err = strconv.Atoi(string(field))
		case 6:
			s.Session, err = strconv.Atoi(string(field))
		case 20:
			s.Threads, err = strconv.Atoi(string(field))
		case 22:
			s.Start, err = strconv.ParseUint(string(field), 10, 64)
		}
		if err != nil {
			return Process{}, fmt.Errorf("stat line %.80q: field %d: %w", string(line), n, err)
		}
		if n++; n > 22 {
			break
		}
	}
	if n <= 22 || s.state == 0 {
		return Process{}, fmt.Errorf("stat line %.80q has %d fields after the name, at least 20 are needed", string(line), n-3)
	}
	return s, nil
}

// all reads the stat of every process. It is not a snapshot: processes start and end meanwhile.
func all() (map[int]Process, error) {
	pids, err := Processes()
	if err != nil {
		return nil, err
	}
	procs := make(map[int]Process, len(pids))
	for _, pid := range pids {
		s, err := Stat(pid)
		if err != nil {
			continue // gone, or hidden from this process (hidepid)
		}
		procs[pid] = s
	}
	return procs, nil
}

// Processes lists all visible processes. It is not a snapshot: processes start and end meanwhile.
func Processes() ([]int, error) {
	if err := ProcSupported(); err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
