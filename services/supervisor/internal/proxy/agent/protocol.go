package agent

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/nulmsg"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/services/supervisor/guard"
)

// send sends a job to a guard. It has a timeout, because the guard may hang.
func send(j guard.Job, w *os.File) error {
	message, err := nulmsg.Marshal(&j)
	if err == nil {
		err = w.SetWriteDeadline(time.Now().Add(startTimeout))
	}
	if err == nil {
		_, err = w.Write(message)
	}
	if err != nil {
		return fmt.Errorf("tell the guard what to run: %w", err)
	}
	return nil
}

// reports returns the guard's reports until it ends.
func reports(r io.Reader) iter.Seq[guard.Report] {
	return func(yield func(guard.Report) bool) {
		for from := bufio.NewReader(r); ; {
			var rep guard.Report
			if nulmsg.Read(from, &rep) != nil || !yield(rep) {
				return
			}
		}
	}
}

// newMark returns an environment entry that no other process has. The random part is in the name, so that an agent
// below another supervisor's agent has both marks.
func newMark() string {
	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	return "ACPHOST_AGENT_" + hex.EncodeToString(id[:]) + "=1"
}

// runtimeEnv returns the guard's environment: settings that reduce its memory, and the settings of the supervisor's Go
// runtime.
func runtimeEnv(environ []string) []string {
	env := proc.SmallRuntime()
	for _, entry := range environ {
		switch name, _, _ := strings.Cut(entry, "="); name {
		case "GORACE", "GOCOVERDIR", "GODEBUG", "GOTRACEBACK":
			env = append(env, entry)
		}
	}
	return env
}
