package adversary

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
)

// someFiles is how many files are made before something is stopped or killed, and after it.
const someFiles = 50

// creating is a hand that makes files, one after the other.
type creating struct {
	*fixture
	by   *hand
	dir  string
	done chan struct{} // closed when the hand has answered, or is gone
	got  tries         // what it has answered, once it is done
	err  error
}

// creates has a hand make files, and returns when the first ones are there.
func (s *fixture) creates(by *hand) *creating {
	s.t.Helper()
	c := &creating{fixture: s, by: by, dir: s.Path("made"), done: make(chan struct{})}
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(c.done)
		c.got, c.err = by.order("create", c.dir)
	}()
	c.more(0)
	return c
}

// files is how many there are.
func (c *creating) files() int {
	names, err := os.ReadDir(c.dir)
	if err != nil {
		c.t.Fatal(err)
	}
	return len(names)
}

// more waits until there are some more files than there were.
func (c *creating) more(was int) {
	c.t.Helper()
	testkit.Eventually(c.t, "files", func() bool { return c.files() >= was+someFiles })
}

// ends has the hand make no more files. It expects as many files as the hand has made, and returns how many were
// refused.
func (c *creating) ends() (refused int) {
	c.t.Helper()
	c.File(c.t, "made/enough", "")
	<-c.done
	if c.err != nil {
		c.t.Fatal(c.err)
	}
	for _, a := range c.got {
		n, err := strconv.Atoi(a.Got)
		switch {
		case err != nil:
			c.t.Fatal(err)
		case a.Err != "":
			c.t.Logf("%s", a)
			refused += n
		case n != c.files()-1:
			c.t.Errorf("there are %d files, and %d were made", c.files()-1, n)
		}
	}
	return refused
}

// held waits until a call of the hand's waits for its answer.
func (c *creating) held() {
	c.t.Helper()
	testkit.Eventually(c.t, "a call that waits", func() bool {
		tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(c.by.pid) + "/task/*/wchan")
		for _, task := range tasks {
			if at, _ := os.ReadFile(task); strings.Contains(string(at), "seccomp") {
				return true
			}
		}
		return false
	})
}

// TestSignal_StoppedProcessContinues stops processes while files are created. No file is lost.
func TestSignal_StoppedProcessContinues(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	for _, who := range []string{"the sandbox", "the supervisor", "permd"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			s := openFixture(t, inSandbox("enforce", kernelRules))
			s.prompt()
			own := s.own()
			own["the sandbox"] = parent(s.hand.pid)
			c := s.creates(s.hand)
			testkit.Freeze(t, own[who])
			c.held()
			was := c.files()
			s.goOn(own[who])
			c.more(was)
			if n := c.ends(); n > 0 {
				t.Errorf("%d files were refused", n)
			}
			delete(own, "the sandbox")
			s.expectAlive(own)
			s.finish()
		})
	}
	t.Run("the process that calls", func(t *testing.T) {
		t.Parallel()
		s, h := withChild(t)
		box := parent(s.hand.pid)
		c := s.creates(h)
		testkit.Freeze(t, box)
		c.held()
		if err := syscall.Kill(h.pid, syscall.SIGSTOP); err != nil { // it stops when its call is answered
			t.Fatal(err)
		}
		s.goOn(box)
		testkit.Freeze(t, h.pid)
		s.hand.worked("write", s.Path("meanwhile"), "x") // who is stopped holds nobody else up
		was := c.files()
		s.goOn(h.pid)
		c.more(was)
		if n := c.ends(); n > 0 {
			t.Errorf("%d files were refused", n)
		}
		h.leave()
		s.finish()
	})
}

// withChild is a fixture with a hand in a process of the agent's own.
func withChild(t *testing.T) (*fixture, *hand) {
	t.Helper()
	s := openFixture(t, inSandbox("enforce", kernelRules+"  - {id: hand, effect: allow, command: ["+program("attacker")+" hand]}\n"))
	s.prompt()
	return s, s.hand.spawn("child")
}

// goOn has a process go on that was stopped.
func (s *fixture) goOn(pid int) {
	s.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		s.t.Fatal(err)
	}
}

// TestSignal_KilledProcessHangsNothing kills processes while files are created. No file exists whose creation was
// rejected.
func TestSignal_KilledProcessHangsNothing(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	t.Run("the process that calls", func(t *testing.T) {
		t.Parallel()
		s, h := withChild(t)
		own, box := s.own(), parent(s.hand.pid)
		c := s.creates(h)
		testkit.Freeze(t, box)
		c.held()
		was := c.files()
		s.kill(h.pid)
		<-c.done
		s.goOn(box)
		s.hand.worked("write", s.Path("after"), "x")
		if n := c.files(); c.err == nil || n > was+1 { // one may have been handed over just before
			t.Errorf("there are %d files of a process that was killed (%v), and were %d", n, c.err, was)
		}
		s.expectAlive(own)
		s.finish()
	})
	t.Run("permd", func(t *testing.T) {
		t.Parallel()
		s := openFixture(t, inSandbox("enforce", kernelRules))
		s.prompt()
		c := s.creates(s.hand)
		s.kill(s.own()["permd"])
		c.more(c.files()) // the policy was started again
		c.ends()
		s.finish()
	})
	for _, who := range []string{"the sandbox", "the guard", "the supervisor"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			s := openFixture(t, inSandbox("enforce", kernelRules))
			s.prompt()
			own := s.own()
			own["the sandbox"] = parent(s.hand.pid)
			family, err := proc.Descendants(s.PID())
			if err != nil {
				t.Fatal(err)
			}
			c := s.creates(s.hand)
			s.kill(own[who])
			<-c.done
			if c.err == nil {
				t.Errorf("the agent has lived on: %v", c.got)
			}
			s.hand.expectEnd()
			if who != "the supervisor" {
				s.Close()
				s.ExpectExit()
			}
			<-s.Done()
			s.ExpectNobody(t, family)
		})
	}
}

// TestSignal_HandsOverNoOtherFile: if a signal interrupted a thread of the sandbox while it passes a descriptor, the
// caller would take its standard input for the file.
func TestSignal_HandsOverNoOtherFile(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	s := openFixture(t, inSandbox("enforce", kernelRules))
	s.prompt()
	box := parent(s.hand.pid)
	c := s.creates(s.hand)
	was := c.files()
	if !testkit.Poll(func() bool {
		tasks, err := filepath.Glob("/proc/" + strconv.Itoa(box) + "/task/*")
		if err != nil || len(tasks) == 0 {
			t.Fatalf("the sandbox has the threads %v, %v", tasks, err)
		}
		for range 100 {
			for _, task := range tasks {
				tid, _ := strconv.Atoi(filepath.Base(task))
				_ = unix.Tgkill(box, tid, unix.SIGURG) // as Go's runtime does; a thread may have ended
			}
		}
		return c.files() > was+1000
	}) {
		t.Errorf("there are %d files, and were %d", c.files(), was)
	}
	if n := c.ends(); n > 0 {
		t.Errorf("%d files were not made, or others handed over", n)
	}
	s.finish()
}
