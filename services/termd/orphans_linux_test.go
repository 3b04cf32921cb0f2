package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"

	"github.com/acphost/acphost/services/termd/internal/guard/orphans"
)

const scope = "0123456789abcdef0123456789abcdef"

// stubborn is a line that leaves behind every kind of process there is, and writes their pids into files of their names.
const stubborn = `
say() { echo $1 >$2.new; mv $2.new $2; }
(sleep 1000 & say $! orphan)
setsid -f sh -c 'trap "" TERM HUP; echo $$ >session.new; mv session.new session; while :; do sleep 1000; done'
(trap "" TERM HUP; env -i sh -c 'echo $$ >clean.new; mv clean.new clean; while :; do sleep 1000; done' &)
nohup sleep 1000 >/dev/null 2>&1 & say $! nohup
trap "" TERM HUP
say $$ leader
while :; do sleep 1000; done`

// run starts the line and returns the pids of all that it left.
func run(t *testing.T, conn grpc.ClientConnInterface, line string, names ...string) map[string]int {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	_, err = terminalv1.NewTerminalServiceClient(conn).Create(t.Context(), &terminalv1.CreateRequest{
		Context: &acpv1.CallContext{Scope: scope, Roots: []*acpv1.Root{{Path: dir}}}, Command: line,
	})
	must(t, err)
	pids := map[string]int{}
	for _, name := range names {
		testkit.Eventually(t, name+" has started", func() bool {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err == nil {
				pids[name], err = strconv.Atoi(strings.TrimSpace(string(data)))
			}
			return err == nil
		})
		t.Cleanup(func() { _ = syscall.Kill(pids[name], syscall.SIGKILL) }) // only if the test has failed
	}
	return pids
}

func dead(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	return strings.HasPrefix(rest, "Z")
}

func allDie(t *testing.T, pids map[string]int) {
	t.Helper()
	for name, pid := range pids {
		testkit.Eventually(t, name+" is dead", func() bool { return dead(pid) })
	}
}

func TestTermd_KilledLeavesNoProcess(t *testing.T) {
	instance := child(t)
	pids := run(t, instance, stubborn, "orphan", "session", "clean", "nohup", "leader")
	guards, err := proc.Descendants(instance.PID())
	must(t, err)
	must(t, syscall.Kill(instance.PID(), syscall.SIGKILL))
	<-instance.Done()
	allDie(t, pids)
	for _, pid := range guards {
		testkit.Eventually(t, "the guard is gone", func() bool { return dead(pid) })
	}
}

func TestTermd_EndLeavesNoProcess(t *testing.T) {
	instance := child(t)
	pids := run(t, instance, stubborn, "orphan", "session", "clean", "nohup", "leader")
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Timeout())
	defer cancel()
	must(t, instance.Stop(ctx))
	for name, pid := range pids {
		if !dead(pid) {
			t.Errorf("%s is alive after the end", name)
		}
	}
}

func TestGuard_KilledIsReplaced(t *testing.T) {
	instance := child(t)
	var old int
	children := func() []int {
		pids, err := proc.Descendants(instance.PID())
		must(t, err)
		return pids
	}
	testkit.Eventually(t, "there is a guard", func() bool {
		if pids := children(); len(pids) == 1 {
			old = pids[0]
		}
		return old != 0
	})
	pids := run(t, instance, stubborn, "orphan", "session", "clean", "nohup", "leader")
	must(t, syscall.Kill(old, syscall.SIGKILL))
	testkit.Eventually(t, "there is another guard", func() bool {
		for _, pid := range children() {
			line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
			if pid != old && strings.Contains(string(line), "guard-of-terminals") {
				return true
			}
		}
		return false
	})
	must(t, syscall.Kill(instance.PID(), syscall.SIGKILL))
	<-instance.Done()
	allDie(t, pids)
}

// TestOrphans_UntraceableEndWithLastTerminal: a process that has left its session, cleared its environment and lost its
// parents at once cannot be attributed to a terminal. It is killed when no terminal is left.
func TestOrphans_UntraceableEndWithLastTerminal(t *testing.T) {
	instance := child(t)
	pids := run(t, instance,
		`env -i setsid -f sh -c 'trap "" TERM; echo $$ >stray.new; mv stray.new stray; while :; do sleep 1000; done'`, "stray")
	client := terminalv1.NewTerminalServiceClient(instance)
	list, err := client.List(t.Context(), &terminalv1.ListRequest{})
	must(t, err)
	_, err = client.Release(t.Context(), &terminalv1.ReleaseRequest{
		Context: &acpv1.CallContext{Scope: scope}, TerminalId: list.GetTerminals()[0].GetTerminalId(),
	})
	must(t, err)
	allDie(t, pids)
	testkit.Eventually(t, "only the guard is left", func() bool {
		left, err := proc.Descendants(instance.PID())
		return err == nil && len(left) == 1
	})
}

func TestTermd_EndsHundredStubbornTerminals(t *testing.T) {
	instance := child(t)
	client := terminalv1.NewTerminalServiceClient(instance)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for range 100 {
		_, err := client.Create(t.Context(), &terminalv1.CreateRequest{
			Context: &acpv1.CallContext{Scope: scope, Roots: []*acpv1.Root{{Path: dir}}},
			Command: `trap "" TERM HUP; echo >up.$$; while :; do sleep 1000; done`,
		})
		must(t, err)
	}
	testkit.Eventually(t, "all ignore TERM", func() bool {
		up, err := filepath.Glob(filepath.Join(dir, "up.*"))
		return err == nil && len(up) == 100
	})
	list, err := client.List(t.Context(), &terminalv1.ListRequest{})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Timeout())
	defer cancel()
	begin := time.Now()
	must(t, instance.Stop(ctx))
	t.Logf("ended in %v", time.Since(begin))
	// On a busy machine, termd is killed after its grace period, and its guard ends the rest.
	pids := map[string]int{}
	for _, term := range list.GetTerminals() {
		pids[fmt.Sprintf("terminal %s", term.GetTerminalId())] = int(term.GetPid())
	}
	allDie(t, pids)
}

// TestGuard_InitializesLittle: a guard that initialized all packages of termd would take twice the memory.
func TestGuard_InitializesLittle(t *testing.T) {
	cmd := exec.Command(testkit.Self(t), orphans.Command, "ACPHOST_TEST_NOBODY=1")
	cmd.Env = []string{"GODEBUG=inittrace=1"}
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	few := strings.Count(string(output), "\ninit ")
	if few == 0 || few > 100 || strings.Contains(string(output), "init google.golang.org/grpc ") {
		t.Errorf("a guard initialises %d packages:\n%s", few, output)
	}
}
