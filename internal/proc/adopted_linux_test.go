package proc_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/child"
	"github.com/acphost/acphost/internal/proc"
)

// playAdopter becomes a subreaper, starts two parents that have started a child each, one of them confined, kills both
// parents, and prints the orphans that it finds and whether they are the ones.
func playAdopter() int {
	if err := proc.Subreaper(); err != nil {
		return 1
	}
	bystander := exec.Command("sleep", "1000")
	if err := confined(bystander.Start); err != nil {
		return 1
	}
	defer func() { _ = bystander.Process.Kill() }()
	spare, err := proc.ListBystanders()
	if unspared, _ := proc.Orphans(nil); err != nil || len(unspared) != 1 {
		fmt.Println("nobody is there to be spared:", unspared, err)
		return 1
	}
	var kids []int
	var parents []*exec.Cmd
	for _, start := range []func(func() error) error{confined, func(start func() error) error { return start() }} {
		parent := exec.Command("sh", "-c", "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $!; exec sleep 1000")
		out, err := parent.StdoutPipe()
		if err != nil {
			return 1
		}
		if start(func() error { return child.Start(parent) }) != nil {
			return 1
		}
		var kid int
		if _, err := fmt.Fscanln(out, &kid); err != nil {
			return 1
		}
		kids, parents = append(kids, kid), append(parents, parent)
	}
	before, err := proc.Orphans(spare)
	if err != nil || len(before) != 0 {
		fmt.Println("before:", before, err)
		return 1
	}
	for _, parent := range parents {
		if !proc.Started(parent.Process.Pid) {
			fmt.Println("a child that was started is not known")
			return 1
		}
		_ = parent.Process.Kill()
		_ = child.Wait(parent)
		if proc.Started(parent.Process.Pid) {
			fmt.Println("a child that was waited for is still known")
			return 1
		}
	}
	after, err := proc.Orphans(spare)
	fmt.Println(err == nil && len(after) == 1 && after[0] == kids[0], after, kids, err)
	for _, kid := range kids {
		_ = syscall.Kill(kid, syscall.SIGKILL)
	}
	return 0
}

func TestOrphans_AreConfinedAndLostTheirParent(t *testing.T) {
	needsConfine(t)
	out, err := helper("adopter").Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := string(out); len(got) < 4 || got[:4] != "true" {
		t.Errorf("got %s", got)
	}
}

// playReaper starts and waits for many children while another goroutine reaps whatever was adopted, and prints how many
// exit statuses were lost.
func playReaper() int {
	if err := proc.Subreaper(); err != nil {
		return 1
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = proc.ReapAdopted(proc.Started)
			}
		}
	}()
	lost := 0
	for i := range 200 {
		cmd := exec.Command("sh", "-c", "(true &) ; exit "+strconv.Itoa(i%100+1))
		if err := child.Start(cmd); err != nil {
			return 1
		}
		_ = child.Wait(cmd)
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != i%100+1 {
			lost++
		}
	}
	close(stop)
	<-stopped
	_, _ = io.WriteString(os.Stdout, strconv.Itoa(lost))
	return 0
}

func TestReapOrphans_KeepsExitStatusOfChildren(t *testing.T) {
	out, err := helper("reaper").Output()
	if err != nil || string(out) != "0" {
		t.Errorf("%s exit statuses were lost (%v)", out, err)
	}
}

func BenchmarkListBystanders_WithoutChildren(b *testing.B) {
	for b.Loop() {
		if _, err := proc.ListBystanders(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOrphans_ManyAgents looks for orphans beside 200 child processes with two children each, as a supervisor with
// a guard for each of 200 agents does.
func BenchmarkOrphans_ManyAgents(b *testing.B) {
	for range 200 {
		guard := exec.Command("sh", "-c", "sleep 1000 & sleep 1000 & wait")
		guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := child.Start(guard); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			_ = syscall.Kill(-guard.Process.Pid, syscall.SIGKILL)
			_ = child.Wait(guard)
		})
	}
	for b.Loop() {
		if orphans, err := proc.Orphans(nil); err != nil || len(orphans) != 0 {
			b.Fatal(orphans, err)
		}
	}
}
