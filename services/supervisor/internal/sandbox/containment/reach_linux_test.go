package containment

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

func TestSandboxRoots_AddsChildOfHandler(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = cmd.Wait() }()
	child := cmd.Process.Pid
	var r sandboxRoots
	for name, c := range map[string]struct {
		handler, command int
		want             []int
	}{
		"a command of the handler":      {os.Getpid(), child, []int{child}},
		"another handler's command":     {child, os.Getpid(), nil},
		"the handler itself":            {os.Getpid(), os.Getpid(), nil},
		"a handler without a process":   {0, child, nil},
		"a command that does not exist": {os.Getpid(), 1 << 30, nil},
	} {
		t.Run(name, func(t *testing.T) {
			remove := r.add(c.handler, c.command, "s")
			again := r.add(c.handler, c.command, "s")
			if got := r.list(); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if got := r.takeNew("other"); len(got) > 0 {
				t.Errorf("another session: got %v", got)
			}
			if got := r.takeNew("s"); !slices.Equal(got, c.want) {
				t.Errorf("new: got %v, want %v", got, c.want)
			}
			if got := r.takeNew("s"); len(got) > 0 {
				t.Errorf("new again: got %v", got)
			}
			remove()
			if got := r.list(); !slices.Equal(got, c.want) {
				t.Errorf("one of two is removed: got %v, want %v", got, c.want)
			}
			again()
			if got := r.list(); len(got) > 0 {
				t.Errorf("both are removed: got %v", got)
			}
		})
	}
}
