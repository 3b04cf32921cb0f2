package proc

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// Bystanders are descendants of this process that it did not start: for example children of a shell that has executed
// this program in its place.
type Bystanders map[process]bool

// ListBystanders lists the current descendants of this process. Call it before any process is started with a filter.
func ListBystanders() (Bystanders, error) {
	// A search through all processes of the system takes milliseconds, and most supervisors start without a child.
	if children, err := listChildren(); err == nil && len(children) == 0 {
		return Bystanders{}, nil
	}
	procs, err := all()
	if err != nil {
		return nil, fmt.Errorf("look for bystanders: %w", err)
	}
	found := Bystanders{}
	for _, pid := range descendants(procs, os.Getpid()) {
		found[process{pid: pid, start: procs[pid].Start}] = true
	}
	return found, nil
}

// Orphans lists the live processes that this process, a subreaper, has adopted and that have more seccomp filters than
// itself, with all their descendants. The process that started them with a filter (Confine) and should have ended them
// is dead: otherwise they would be its children. Orphans omits processes entered by EnterChild, and those in spare. (It
// also lists processes that a spared process starts with its own filter and leaves behind later: it cannot distinguish
// them.)
func Orphans(spare Bystanders) ([]int, error) {
	self := os.Getpid()
	own, err := Filters(self)
	if err != nil {
		return nil, fmt.Errorf("look for orphans: %w", err)
	}
	adopted, err := adoptedBehindFilters(spare, own)
	if err != nil {
		return nil, fmt.Errorf("look for orphans: %w", err)
	}
	if len(adopted) == 0 {
		return nil, nil
	}
	procs, err := all()
	if err != nil {
		return nil, fmt.Errorf("look for orphans: %w", err)
	}
	var found []int
	for _, pid := range adopted {
		found = append(append(found, pid), descendants(procs, pid)...)
	}
	return found, nil
}

// adoptedBehindFilters lists the live children of this process that it did not start and that have more filters than
// own.
func adoptedBehindFilters(spare Bystanders, own int) ([]int, error) {
	children, err := settledChildren()
	if err != nil {
		return nil, err
	}
	var found []int
	for _, pid := range children {
		if Started(pid) {
			continue
		}
		s, err := Stat(pid)
		if err != nil || s.Parent != os.Getpid() || !s.Live() || spare[process{pid: pid, start: s.Start}] {
			continue
		}
		has, err := Filters(pid)
		if errors.Is(err, ErrUnsupported) {
			return nil, err
		}
		if err == nil && has > own { // else it has ended
			found = append(found, pid)
		}
	}
	return found, nil
}

// settledChildren lists the calling process's children, including zombies, and misses none that existed before the
// call. The kernel's list of children skips one if another is reaped while the list is read. So settledChildren reads
// the list twice; if the results differ, it searches all processes, which takes longer the more there are.
func settledChildren() ([]int, error) {
	first, err := listChildren()
	if err != nil {
		return nil, err
	}
	second, err := listChildren()
	if err != nil || slices.Equal(first, second) {
		return second, err
	}
	return childrenAmongAll()
}
