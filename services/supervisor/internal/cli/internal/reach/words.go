package reach

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
)

// Choices lists supervisors, one in a line.
func Choices(all []*Supervisor) string {
	var text strings.Builder
	for _, r := range all {
		fmt.Fprintf(&text, "\n  --pid %d  %s", r.PID, output.Cell(r.Agent))
		if r.Mode != "" {
			fmt.Fprintf(&text, ", %s", output.Cell(r.Mode))
		}
	}
	return text.String()
}

// StateWord returns AgentWord for a table.
func StateWord(s supervisorv1.AgentState) output.Word {
	switch word := AgentWord(s); s {
	case supervisorv1.AgentState_AGENT_STATE_RUNNING:
		return output.Good(word)
	case supervisorv1.AgentState_AGENT_STATE_FAILED:
		return output.Bad(word)
	default:
		return output.Warn(word)
	}
}

// AgentWord returns the word for an agent's state: "running".
func AgentWord(s supervisorv1.AgentState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "AGENT_STATE_"))
}

// CallError returns an error of a supervisor without gRPC's prefix, with the last output of an agent that has ended. If
// the caller has no rights, it is a command.RejectedError.
func CallError(err error) error {
	e := client.ErrorOf(err)
	if e == nil {
		return err
	}
	text := line(e)
	for _, last := range e.Agent.GetStderrTail() {
		text += "\n  | " + output.Cell(last)
	}
	if e.Answer != nil {
		if how := output.Cell(client.HowEnded(e.Answer)); !strings.Contains(text, how) {
			text += " (" + how + ")"
		}
	}
	return inWords(e, text)
}

// CallErrorLine returns an error of a supervisor without gRPC's prefix, on one line. If the caller has no rights, it is
// a command.RejectedError.
func CallErrorLine(err error) error {
	if e := client.ErrorOf(err); e != nil {
		return inWords(e, line(e))
	}
	return err
}

func line(e *client.Error) string {
	text := e.Message
	if message, refused := command.CertificateRefusal(text); refused {
		text = message
	}
	return output.Cell(strings.ReplaceAll(text, "\n", "; "))
}

func inWords(e *client.Error, text string) error {
	if e.Code == codes.PermissionDenied {
		return &command.RejectedError{Text: text}
	}
	return errors.New(text)
}
