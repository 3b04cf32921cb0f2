package proc

import (
	"errors"
	"fmt"
	"os"
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
	procs, err := all()
	if err != nil {
		return nil, fmt.Errorf("look for orphans: %w", err)
	}
	var found []int
	for pid, s := range procs {
		if s.Parent != self || !s.Live() || spare[process{pid: pid, start: s.Start}] || Started(pid) {
			continue
		}
		has, err := Filters(pid)
		if errors.Is(err, ErrUnsupported) {
			return nil, fmt.Errorf("look for orphans: %w", err)
		}
		if err == nil && has > own { // else it has ended
			found = append(append(found, pid), descendants(procs, pid)...)
		}
	}
	return found, nil
}
