package kernel

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// line describes a command.
var line = "make"

// shell starts a process with a child; both wait until the test ends. end ends only the parent, so that the child gets another parent.
func shell(t *testing.T) (parent, child int, end func()) {
	t.Helper()
	cmd := exec.Command("sh", "-c", `cat <&3 >&4 3<&- & echo $!; read line`)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	childOut, childIn, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{read, childIn}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = read.Close(), childIn.Close()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if child, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		t.Fatal(err)
	}
	ended := false
	end = func() {
		if !ended {
			ended = true
			_ = in.Close()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(func() {
		end()
		_ = write.Close()
		_, _ = io.Copy(io.Discard, childOut) // until the child has ended
		_ = childOut.Close()
	})
	return cmd.Process.Pid, child, end
}

func TestCommands_IncludesDescendants(t *testing.T) {
	parent, child, end := shell(t)
	var c Commands[string]
	if c.Of(parent) != nil {
		t.Error("nothing was allowed yet")
	}
	c.Add(parent, &line)
	if c.Of(parent) == nil || c.Of(child) == nil {
		t.Error("the command and its child do not belong to the command")
	}
	if c.Of(os.Getpid()) != nil {
		t.Error("who has started the command belongs to it")
	}
	end()
	if c.Of(child) == nil {
		t.Error("a child that was known is not known any more once its parent has ended")
	}
}

func TestCommands_ExcludesReusedPid(t *testing.T) {
	parent, child, _ := shell(t)
	c := Commands[string]{seen: map[int]known[string]{parent: {1, &line}}} // a process that started just after boot
	if c.Of(parent) != nil || c.Of(child) != nil {
		t.Error("it belongs to the command whose number it has")
	}
}

func TestCommands_AddsProcessWhenProgramStarted(t *testing.T) {
	parent, _, _ := shell(t)
	var c Commands[string]
	c.Expect(parent, 7, &line)
	if c.Of(parent) != nil {
		t.Error("its program has not started")
	}
	c.Started(parent, 8)
	if c.Of(parent) != nil {
		t.Error("another call was allowed")
	}
	c.Started(parent+1, 7)
	if c.Of(parent) != nil {
		t.Error("another process has started a program")
	}
	c.Expect(parent, 9, &line)
	c.Started(parent, 9)
	if c.Of(parent) == nil {
		t.Error("it does not belong to the command that it is")
	}
}

func TestCommands_KeepsCommandAddedDuringWalk(t *testing.T) {
	parent, child, _ := shell(t)
	var c Commands[string]
	if c.Of(parent) != nil {
		t.Error("nothing was allowed yet")
	}
	p, _ := look(parent)
	if command, known := c.of(p); command != nil || !known {
		t.Errorf("it belongs to %v, known: %v; want nil, true", command, known)
	}
	c.Add(parent, &line)
	c.add(p, nil) // of a walk that began earlier
	if c.Of(child) == nil {
		t.Error("the command's child does not belong to it")
	}
}

func TestCommands_LimitsProcesses(t *testing.T) {
	parent, child, _ := shell(t)
	var c Commands[string]
	c.Add(parent, &line)
	for pid := range maxProcesses {
		c.add(process{pid + 1<<22, 1}, nil) // larger than any pid
	}
	if c.Of(child) == nil {
		t.Error("the command is forgotten for others")
	}
	if n := len(c.seen); n > maxProcesses {
		t.Errorf("%d processes are kept, want at most %d", n, maxProcesses)
	}
	for pid := range maxProcesses {
		c.add(process{pid + 1<<22, 1}, &line)
	}
	if c.Of(child) == nil {
		t.Error("the command is forgotten for others that have ended")
	}
}

// BenchmarkCommands_Within asks about a new process each time, whose parent is known.
func BenchmarkCommands_Within(b *testing.B) {
	var c Commands[string]
	c.Of(os.Getppid())
	for b.Loop() {
		delete(c.seen, os.Getpid())
		c.Of(os.Getpid())
	}
}
