package proc

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// Bystanders are processes that are below this one and not of its making: children of a shell, say, that has executed this
// program in its own place.
type Bystanders map[process]bool

// TakeBystanders lists what is below this process now. Call it before anything is started behind a filter.
func TakeBystanders() (Bystanders, error) {
	// Looking through all processes of the system takes milliseconds, and most supervisors begin without a child.
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

// Orphans lists the live processes that this process, a subreaper, has adopted and that carry more seccomp filters than
// itself, with all that descends from them. Whoever started them behind a filter (Confine) and was to end them is dead:
// else they would be its children. Processes entered by EnterChild are not among them, nor are those to spare. (What one of
// those starts behind a filter of its own, and leaves behind later, cannot be told from the others.)
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

// adoptedBehindFilters lists the live children of this process that nobody here started and that have more filters than own.
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
		s, err := Look(pid)
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

// settledChildren lists the calling process's children, zombies included, and misses none that was there before the call. The
// kernel's list of children skips one if another is reaped while the list is read, so the list counts only if it is read
// twice without a difference; else the children are looked for among all processes, which takes the longer the more there are.
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
