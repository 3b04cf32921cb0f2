package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// agentProgram is the name under which usages counts agents.
const agentProgram = "agent"

// usage is the sum of the resources of the processes of one kind. Memory is in kB: resident, the proportional set size,
// and written memory that is not shared (Private_Dirty). For a supervisor it includes goroutines and the kB of its
// heap's objects.
type usage struct {
	processes, resident, pss, private, descriptors, threads, goroutines, heap int
}

// ours is the sum for all processes except the agents.
func ours(held map[string]usage) usage {
	var all usage
	for name, u := range held {
		if name == agentProgram {
			continue
		}
		all.processes += u.processes
		all.resident += u.resident
		all.pss += u.pss
		all.private += u.private
		all.descriptors += u.descriptors
		all.threads += u.threads
	}
	return all
}

// usages reads what a process and its descendants hold, by the names of their programs. As another user than root,
// memory and descriptors of those that protect themselves read as 0.
func (b *bench) usages(pid int) map[string]usage {
	held := map[string]usage{}
	for _, p := range append([]int{pid}, descendants(pid)...) {
		proc := fmt.Sprintf("/proc/%d/", p)
		name := b.program(p)
		u := held[name]
		status, rollup := fields(proc+"status"), fields(proc+"smaps_rollup")
		descriptors, _ := os.ReadDir(proc + "fd")
		u.processes++
		u.resident += status["VmRSS"]
		u.threads += status["Threads"]
		u.pss += rollup["Pss"]
		u.private += rollup["Private_Dirty"]
		u.descriptors += len(descriptors)
		held[name] = u
	}
	return held
}

// program is a process's: "acphost guard", "fsd", "agent".
func (b *bench) program(pid int) string {
	cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	words := strings.Split(string(cmdline), "\x00")
	if words[0] == "/proc/self/exe" { // how our programs start themselves anew
		words[0], _ = os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	}
	switch name := filepath.Base(words[0]); {
	case words[0] == b.self:
		return agentProgram
	case len(words) > 1 && words[1] != "":
		return name + " " + words[1]
	default:
		return name
	}
}

// fields reads the numbers of a file of /proc with lines like "VmRSS: 12 kB".
func fields(path string) map[string]int {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	numbers := map[string]int{}
	for s := bufio.NewScanner(f); s.Scan(); {
		name, rest, _ := strings.Cut(s.Text(), ":")
		first, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if n, err := strconv.Atoi(first); err == nil {
			numbers[name] = n
		}
	}
	return numbers
}

func descendants(pid int) []int {
	var out []int
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, t := range tasks {
		list, _ := os.ReadFile(t)
		for s := range strings.FieldsSeq(string(list)) {
			if child, err := strconv.Atoi(s); err == nil {
				out = append(append(out, child), descendants(child)...)
			}
		}
	}
	return out
}
