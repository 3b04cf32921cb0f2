// Package handlers prints the handlers of supervisors.
package handlers

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
)

// Listed is a line of "handler list". The JSON names are stable, because scripts use them.
type Listed struct {
	Supervisor  int        `json:"supervisor"`
	Name        string     `json:"name"`
	State       string     `json:"state"`
	Description string     `json:"description,omitempty"`
	PID         int64      `json:"pid,omitempty"`
	Command     []string   `json:"command,omitempty"`
	Address     string     `json:"address,omitempty"`
	SHA256      string     `json:"sha256,omitempty"`
	MutualTLS   bool       `json:"mutual_tls"`
	Restarts    uint64     `json:"restarts"`             // 0 for a sidecar, which acphost does not start
	Reconnects  uint64     `json:"reconnects,omitempty"` // of a sidecar
	Since       *time.Time `json:"since,omitempty"`
	Error       string     `json:"error,omitempty"`
	Methods     []string   `json:"methods,omitempty"`
	Notes       []string   `json:"notes,omitempty"`
	Folders     []string   `json:"folders,omitempty"`
	Paths       []Path     `json:"paths,omitempty"`
}

// Path is a folder with another path in a sidecar.
type Path struct {
	Here  string `json:"here"`
	There string `json:"there"`
}

// New returns the line for a handler of the supervisor with a process id.
func New(pid int, h *supervisorv1.HandlerStatus) Listed {
	l := Listed{
		Supervisor: pid, Name: h.GetName(), State: stateWord(h.GetState()), Description: h.GetDescription(), PID: h.GetPid(),
		Command: h.GetCommand(), Address: h.GetAddress(), SHA256: h.GetSha256(), MutualTLS: h.GetMutualTls(),
		Restarts: h.GetRestarts(), Error: h.GetError(), Methods: h.GetMethods(), Notes: h.GetNotes(),
	}
	if l.Address != "" {
		l.Restarts, l.Reconnects = 0, h.GetRestarts()
	}
	l.Folders = h.GetFolders()
	for _, p := range h.GetPaths() {
		l.Paths = append(l.Paths, Path{p.GetHere(), p.GetThere()})
	}
	if h.GetSince().IsValid() {
		since := h.GetSince().AsTime().Local()
		l.Since = &since
	}
	return l
}

// stateWord returns the word for a state: "ready".
func stateWord(s supervisorv1.HandlerState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "HANDLER_STATE_"))
}

// Table returns a table of handlers for users.
func Table(list []Listed) *output.Table {
	t := output.NewTable("there are no handlers: no supervisor is running, or it only watches",
		"SUPERVISOR", "NAME", "STATE", "DESCRIPTION", "PID", "RESTARTS", "RECONNECTS", "SINCE", "RUNS", "SERVES", "ERROR").
		Long("RUNS", "SERVES", "ERROR", "DESCRIPTION").Spare("RECONNECTS", "RESTARTS", "PID", "DESCRIPTION", "SERVES", "SUPERVISOR", "RUNS")
	for _, h := range list {
		restarts, reconnects := fmt.Sprint(h.Restarts), ""
		if h.Address != "" {
			restarts, reconnects = "", fmt.Sprint(h.Reconnects)
		}
		t.Add(h.Supervisor, h.Name, h.State, h.Description, output.OrNone(h.PID), restarts, reconnects, h.Since, cmp.Or(h.Address, strings.Join(h.Command, " ")), h.serves(), h.Error)
	}
	return t
}

// serves describes the folders whose sessions a handler serves, and its path mapping, or returns "".
func (h Listed) serves() string {
	var parts []string
	for _, f := range h.Folders {
		parts = append(parts, "below "+f)
	}
	for _, p := range h.Paths {
		parts = append(parts, p.Here+" as "+p.There)
	}
	return strings.Join(parts, ", ")
}

// Print prints the result of an operation on a handler. forced is the number of calls that the previous handler did not
// answer.
func Print(call *command.Call, h *supervisorv1.HandlerStatus, forced uint32) error {
	where := h.GetAddress()
	if where == "" {
		where = fmt.Sprintf("process %d", h.GetPid())
	}
	lines := []string{fmt.Sprintf("%s: %s, %s, %s", output.Cell(h.GetName()), stateWord(h.GetState()), output.Cell(h.GetDescription()), output.Cell(where))}
	for _, note := range h.GetNotes() {
		lines = append(lines, "  "+output.Cell(note))
	}
	switch forced {
	case 0:
	case 1:
		lines = append(lines, "  one call was not answered by the one before within its time, and failed")
	default:
		lines = append(lines, fmt.Sprintf("  %d calls were not answered by the one before within its time, and failed", forced))
	}
	_, err := fmt.Fprintln(call.Stdout, strings.Join(lines, "\n"))
	return err
}
