package terminal

import (
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/nulmsg"
	"github.com/acphost/acphost/internal/sandbox"
)

// TestLeader_ClosesItsDescriptors ends 200 commands in each possible way, and counts the open descriptors. The garbage
// collector, which closes forgotten files, does not run during the test.
func TestLeader_ClosesItsDescriptors(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for name, outcomes := range map[string][]*sandbox.Outcome{
		"without a sandbox":            nil,
		"in a sandbox":                 {{PID: 1}, {Ended: &sandbox.Ended{Code: 0}}},
		"in a sandbox that ends early": {{PID: 1}},
		"not started by its sandbox":   {{Failed: "no such file"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := openFiles(t)
			for range 200 {
				endOne(t, outcomes)
			}
			if after := openFiles(t); after > before {
				t.Errorf("%d descriptors are open, and %d were before 200 commands", after, before)
			}
		})
	}
}

// endOne starts a command, and waits for its end. outcomes are the reports of the command's sandbox; nil: there is no
// sandbox.
func endOne(t *testing.T, outcomes []*sandbox.Outcome) {
	t.Helper()
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var notify *os.File
	if outcomes != nil {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range outcomes {
			data, err := nulmsg.Marshal(o)
			if err == nil {
				_, err = w.Write(data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		_ = w.Close()
		notify = r
	}
	l := newLeader(cmd.Process.Pid, notify)
	l.wait()
	if err := cmd.Wait(); err != nil { // its remains are kept until now
		t.Fatal(err)
	}
}

// openFiles counts the descriptors of this process, but for those of the runtime, which come and go.
func openFiles(t *testing.T) int {
	t.Helper()
	links, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, l := range links {
		to, _ := os.Readlink("/proc/self/fd/" + l.Name())
		if strings.Contains(to, "pidfd") || strings.HasPrefix(to, "pipe:") {
			count++
		}
	}
	return count
}
