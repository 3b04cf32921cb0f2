package proc_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
)

func TestAncestry_EndsAtFirstProcess(t *testing.T) {
	var seen []int
	err := proc.Ancestry(os.Getpid(), func(pid int) (bool, error) { seen = append(seen, pid); return false, nil })
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) < 2 || seen[0] != os.Getpid() || seen[1] != os.Getppid() {
		t.Errorf("got %v, want %d, %d and those above", seen, os.Getpid(), os.Getppid())
	}
}

func TestAncestry_StopsAtGivenProcess(t *testing.T) {
	var seen []int
	err := proc.Ancestry(os.Getpid(), func(pid int) (bool, error) { seen = append(seen, pid); return pid == os.Getppid(), nil })
	if want := []int{os.Getpid(), os.Getppid()}; err != nil || !slices.Equal(seen, want) {
		t.Errorf("got %v (%v), want %v", seen, err, want)
	}
	no := errors.New("no")
	if err := proc.Ancestry(os.Getpid(), func(int) (bool, error) { return false, no }); !errors.Is(err, no) {
		t.Errorf("error = %v, want the visitor's", err)
	}
}

func TestAncestry_MissingProcessIsError(t *testing.T) {
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	zombie := exec.Command("cat")
	in, err := zombie.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	tree, err := proc.TreeOf(zombie.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "cat has ended", func() bool {
		live, err := tree.List()
		return err != nil || len(live) == 0
	})
	for name, pid := range map[string]int{"not visible": 0, "negative": -1, "ended": ended.Process.Pid, "not waited for": zombie.Process.Pid} {
		if err := proc.Ancestry(pid, func(int) (bool, error) { return false, nil }); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := zombie.Wait(); err != nil {
		t.Error(err)
	}
}

func TestAncestry_OrphanStaysBelowSubreaper(t *testing.T) {
	cmd := helper("subreaper", `setsid sh -c 'P=$$
		sh -c "while kill -0 $P 2>/dev/null; do :; done; echo \$\$; exec sleep 1000" &
		exit 0' & wait`)
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
	orphan, err := strconv.Atoi(line(t, out))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	err = proc.Ancestry(orphan, func(pid int) (bool, error) { found = pid == cmd.Process.Pid; return found, nil })
	if err != nil || !found {
		t.Errorf("found its subreaper: %v, %v", found, err)
	}
	if err := proc.End(t.Context(), func() ([]int, error) { return proc.Descendants(cmd.Process.Pid) }, 0); err != nil {
		t.Error(err)
	}
	_ = in.Close()
	_ = cmd.Wait()
}

func TestCommandLine_ReturnsArguments(t *testing.T) {
	cmd := exec.Command("sh", "-c", "echo ready; read x", "", "with a space", "")
	cmd.Env = []string{"ACPHOST_TEST_MARK_1=x", "OTHER=ACPHOST_TEST_NOT"}
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
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	got, err := proc.CommandLine(pid)
	if want := []string{"sh", "-c", "echo ready; read x", "", "with a space", ""}; err != nil || !slices.Equal(got, want) {
		t.Errorf("command line = %q, %v, want %q", got, err, want)
	}
	if marked, err := proc.StartedWith(pid, "NOT_THERE", "ACPHOST_TEST_MARK_"); err != nil || !marked {
		t.Errorf("marked: %v, %v", marked, err)
	}
	if marked, err := proc.StartedWith(pid, "ACPHOST_TEST_NOT"); err != nil || marked {
		t.Errorf("marked by a value: %v, %v", marked, err)
	}
	if file, err := proc.Executable(pid); err != nil || !strings.HasPrefix(file, "/") {
		t.Errorf("program = %q, %v", file, err)
	}
	_ = in.Close()
	_ = cmd.Wait()
}
