package agent

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/acphost/acphost/internal/proc"
)

// The guard's own pipes, beside the three that it hands on. Down the life pipe go one job, then orders; its end is the
// order to end the agent, whether the supervisor closed it or died. Up the status pipe go reports.
const (
	lifeFD   = 3
	statusFD = 4

	endWell = "end\n"
	killNow = "kill\n"
)

// job is what a guard is asked to do. It travels in a pipe and not in arguments or the environment, which others can
// read.
type job struct {
	Command    []string
	Dir        string // absolute
	Env        []string
	Mark       string              // the entry of Env by which strays are found
	Credential *syscall.Credential // the user to run as; nil: the guard's own
	Grace      time.Duration
	proc.Confinement
}

// report is one line from the guard. One of its fields is set.
type report struct {
	Started *started         `json:",omitempty"`
	Failed  *Exit            `json:",omitempty"` // without what the guard does not know
	Ended   *proc.ExitStatus `json:",omitempty"`
	Clean   bool             `json:",omitempty"`
}

type started struct {
	PID   int
	Walls proc.Walls
}

// send hands the job to a guard, which may be stuck: it does not wait for ever.
func (j job) send(w *os.File) error {
	err := w.SetWriteDeadline(time.Now().Add(startTimeout))
	if err == nil {
		err = json.NewEncoder(w).Encode(j)
	}
	if err != nil {
		return fmt.Errorf("tell the guard what to run: %w", err)
	}
	return nil
}

// reports reads until the guard's end; what is not a report is skipped.
func reports(r io.Reader) iter.Seq[report] {
	return func(yield func(report) bool) {
		for lines := bufio.NewReader(r); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			var rep report
			if json.Unmarshal(line, &rep) == nil && !yield(rep) {
				return
			}
		}
	}
}

// newMark is an environment entry that no other process has. The random part is in the name, so that an agent beneath
// another supervisor's agent keeps that one's mark as well.
func newMark() string {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	return "ACPHOST_AGENT_" + hex.EncodeToString(id[:]) + "=1"
}

// runtimeEnv is what the guard gets of the supervisor's environment: what steers the Go runtime, nothing else.
func runtimeEnv(environ []string) []string {
	env := []string{"GOMAXPROCS=1"} // it only waits
	for _, entry := range environ {
		switch name, _, _ := strings.Cut(entry, "="); name {
		case "GORACE", "GOCOVERDIR", "GODEBUG", "GOTRACEBACK":
			env = append(env, entry)
		}
	}
	return env
}
