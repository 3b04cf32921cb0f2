package reach

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
)

// Choices lists supervisors, one a line.
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

// messageOf is a message of the API for JSON output: its fields by their names in the .proto files, and the process id of
// the supervisor that it is from.
func messageOf(pid int, m proto.Message) (map[string]any, error) {
	data, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	fields["supervisor"] = pid
	return fields, nil
}

// PrintMessages prints messages of the API, each with the process id of its supervisor, as a JSON array.
func PrintMessages[T interface{ Message() (int, proto.Message) }](call *command.Call, list []T) error {
	out := []any{}
	for _, item := range list {
		fields, err := messageOf(item.Message())
		if err != nil {
			return err
		}
		out = append(out, fields)
	}
	return output.PrintJSON(call, out)
}

// Explained is an error of a supervisor's in its own words, with what an agent said of itself when it ended. Who may not
// call gets a command.RefusedError.
func Explained(err error) error {
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

// Plainly is an error of a supervisor's in its own words, on one line. Who may not call gets a command.RefusedError.
func Plainly(err error) error {
	if e := client.ErrorOf(err); e != nil {
		return inWords(e, line(e))
	}
	return err
}

func line(e *client.Error) string { return output.Cell(strings.ReplaceAll(e.Message, "\n", "; ")) }

func inWords(e *client.Error, text string) error {
	if e.Code == codes.PermissionDenied {
		return &command.RefusedError{Text: text}
	}
	return errors.New(text)
}
