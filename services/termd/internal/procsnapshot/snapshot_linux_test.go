package procsnapshot

import (
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
)

// start starts a shell that has a child, and waits until both run.
func start(t *testing.T, env string) (parent int) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "echo up; cat; :")
	cmd.Env = append(os.Environ(), env)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

func TestCensus_FindsByDescentAndMark(t *testing.T) {
	shell := start(t, "CENSUS_TEST_A=1")
	c, err := Take("CENSUS_TEST_")
	if err != nil {
		t.Fatal(err)
	}
	tree := c.Descendants(shell)
	if len(tree) == 0 || !slices.Contains(tree, shell) || slices.Contains(tree, os.Getpid()) {
		t.Errorf("got %v for the tree of %d", tree, shell)
	}
	marked := c.Marked("CENSUS_TEST_A=1")
	slices.Sort(tree)
	slices.Sort(marked)
	if !slices.Equal(tree, marked) {
		t.Errorf("by descent %v, by mark %v", tree, marked)
	}
	if got := c.Marked("CENSUS_TEST_A"); got != nil {
		t.Errorf("a part of a mark finds %v", got)
	}
	if all := c.Descendants(os.Getpid()); !slices.Contains(all, shell) || !slices.Contains(all, os.Getpid()) {
		t.Errorf("got %v for our own tree", all)
	}
	if session := c.Session(c.Processes[os.Getpid()].Session); !slices.Contains(session, shell) {
		t.Errorf("got %v for our session", session)
	}
}

func TestCensus_IsNotOlderThanRequest(t *testing.T) {
	sharer := &Sharer{Prefix: "CENSUS_TEST_"}
	var askers sync.WaitGroup
	for range 8 {
		askers.Go(func() {
			for range 3 {
				shell := start(t, "CENSUS_TEST_B=1")
				c, err := sharer.Take()
				if err != nil {
					t.Error(err)
					return
				}
				if !slices.Contains(c.Marked("CENSUS_TEST_B=1"), shell) {
					t.Errorf("%d started before the census was asked for, and is not in it", shell)
				}
			}
		})
	}
	askers.Wait()
}
