package cgroup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
)

const (
	// supervisor is the group of this program. A group with processes of its own cannot limit groups below it.
	supervisor = "supervisor"
	// moveAttempts limits the attempts to move processes, which may start others meanwhile.
	moveAttempts = 20
)

// controllers are enabled for new groups if they are available. pids is required. With cpu, each group gets the same
// share of the processors as this program.
var controllers = []string{"pids", "memory", "cpu"}

// Delegated returns nil if New can create groups, or else why it cannot. It changes nothing.
func Delegated() error {
	_, err := parent()
	return err
}

// New creates a group with limits. The first call moves the processes of this program's group to a group below it.
func New(name string, l Limits) (*Group, error) {
	dir, err := parent()
	if err != nil {
		return nil, err
	}
	if err := vacate(dir); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotDelegated, err)
	}
	g := &Group{Path: filepath.Join(dir, name)}
	if err := os.Mkdir(g.Path, 0o755); err != nil { //nolint:gosec // the mode of all control groups: their limits are no secret
		return nil, fmt.Errorf("create a control group: %w", err)
	}
	if err := g.limit(l); err != nil {
		_ = g.Remove()
		return nil, err
	}
	return g, nil
}

func (g *Group) limit(l Limits) error {
	for _, limit := range []struct {
		file  string
		value uint64
	}{{"pids.max", uint64(max(l.Tasks, 0))}, {"memory.max", l.Memory}} {
		if limit.value == 0 {
			continue
		}
		if err := write(filepath.Join(g.Path, limit.file), strconv.FormatUint(limit.value, 10)); err != nil {
			return fmt.Errorf("limit a control group: %w", err)
		}
	}
	return nil
}

// Enterable reports whether this process can start processes in a group, by the group's folder.
func Enterable(folder string) bool {
	return filepath.IsAbs(folder) && unix.Access(filepath.Join(folder, "cgroup.procs"), unix.W_OK) == nil
}

// Reached returns how often a group, by its folder, has reached its limits: the starts of processes that the kernel
// refused, and the processes that it ended for lack of memory.
func Reached(folder string) (refused, ended uint64) {
	refused = counter(filepath.Join(folder, "pids.events"), "max")
	ended = counter(filepath.Join(folder, "memory.events"), "oom_kill")
	return refused, ended
}

// counter returns a counter of a file of a group; 0 if it cannot be read.
func counter(file, name string) uint64 {
	data, _ := os.ReadFile(file)
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
			return n
		}
	}
	return 0
}

// Remove removes the group. It fails with EBUSY while the group has processes.
func (g *Group) Remove() error { return os.Remove(g.Path) }

// parent returns the folder in which groups can be created: the group of this program, or the group above if vacate has
// moved this program.
func parent() (string, error) {
	own, err := ownFolder()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotDelegated, err)
	}
	dir := own
	if above := filepath.Dir(own); filepath.Base(own) == supervisor && enabled(above, "cgroup.subtree_control", "pids") {
		dir = above
	}
	switch {
	case !startsInGroups():
		return "", fmt.Errorf("%w: the system call clone3 is not available", ErrNotDelegated)
	case !enabled(dir, "cgroup.controllers", "pids"):
		return "", fmt.Errorf("%w: %s has no controller pids", ErrNotDelegated, dir)
	case unix.Access(dir, unix.W_OK) != nil || unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) != nil ||
		unix.Access(filepath.Join(dir, "cgroup.subtree_control"), unix.W_OK) != nil:
		return "", fmt.Errorf("%w: %s cannot be changed", ErrNotDelegated, dir)
	case !delegatedBySystemd(dir):
		return "", fmt.Errorf("%w: systemd manages %s: set Delegate=yes for it", ErrNotDelegated, dir)
	}
	others, err := foreign(own)
	if err == nil && len(others) > 0 {
		err = fmt.Errorf("%s contains processes of other programs (%d)", own, others[0])
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotDelegated, err)
	}
	return dir, nil
}

// startsInGroups reports whether processes can be started in another group. Seccomp filters of containers can forbid
// it. The call starts none, because it has no arguments.
func startsInGroups() bool {
	_, _, errno := unix.Syscall(unix.SYS_CLONE3, 0, 0, 0)
	return errno == unix.EINVAL
}

// delegatedBySystemd reports whether systemd has delegated a group. It returns true without systemd, and for a user
// other than root, who can change only groups that are delegated.
func delegatedBySystemd(dir string) bool {
	if _, err := os.Stat("/run/systemd/system"); err != nil || os.Geteuid() != 0 {
		return true
	}
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		var value [8]byte
		if n, err := unix.Getxattr(dir, name, value[:]); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return false
}

// foreign returns the processes of a group that are neither this one nor its descendants.
func foreign(dir string) ([]int, error) {
	below, err := proc.Descendants(os.Getpid())
	if err != nil {
		return nil, err
	}
	pids, err := processes(dir)
	return slices.DeleteFunc(pids, func(pid int) bool { return pid == os.Getpid() || slices.Contains(below, pid) }), err
}

// processes returns the processes of a group, without those of groups below it.
func processes(dir string) ([]int, error) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var pids []int
	for field := range bytes.FieldsSeq(data) {
		pid, err := strconv.Atoi(string(field))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// vacate moves all processes of a group to the group supervisor below it, and enables the controllers.
func vacate(dir string) error {
	var wanted []string
	for _, c := range controllers {
		if enabled(dir, "cgroup.controllers", c) && !enabled(dir, "cgroup.subtree_control", c) {
			wanted = append(wanted, "+"+c)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	to := filepath.Join(dir, supervisor)
	if err := os.Mkdir(to, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // as above
		return err
	}
	err := error(nil)
	for range moveAttempts {
		pids, errList := processes(dir)
		if errList != nil {
			return errList
		}
		for _, pid := range pids {
			// A process that has ended cannot be moved.
			if err := write(filepath.Join(to, "cgroup.procs"), strconv.Itoa(pid)); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("move process %d: %w", pid, err)
			}
		}
		if err = write(filepath.Join(dir, "cgroup.subtree_control"), strings.Join(wanted, " ")); !errors.Is(err, unix.EBUSY) {
			return err
		}
	}
	return err
}

// enabled reports whether a file of a group lists a controller.
func enabled(dir, file, controller string) bool {
	data, err := os.ReadFile(filepath.Join(dir, file))
	return err == nil && slices.Contains(strings.Fields(string(data)), controller)
}

// write writes to a file of a group, which is never created.
func write(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// ownFolder returns the folder of this process's group.
func ownFolder() (string, error) {
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	_, rest, ok := strings.Cut("\n"+string(data), "\n0::")
	if !ok {
		return "", errors.New("there are no control groups of version 2")
	}
	group, _, _ := strings.Cut(rest, "\n")
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	lines := bufio.NewScanner(bytes.NewReader(mounts))
	for lines.Scan() {
		mount, of, _ := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(mount)
		if !strings.HasPrefix(of, "cgroup2 ") || len(fields) < 5 {
			continue
		}
		const root, point = 3, 4
		if rel, err := filepath.Rel(fields[root], group); err == nil && filepath.IsLocal(rel) {
			return filepath.Join(fields[point], rel), nil
		}
	}
	return "", errors.New("control groups of version 2 are not mounted")
}
