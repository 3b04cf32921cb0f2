package reach

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/rundir"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
)

// Item is an item of a list with its supervisor.
type Item[T any] struct {
	At *Supervisor
	Of T
}

// ListFunc requests the items of one kind from a supervisor.
type ListFunc[T any] func(context.Context, *Supervisor) ([]T, error)

// List requests a list from every supervisor and joins the lists. It omits supervisors without such items, and those
// that have ended meanwhile. It reports supervisors that fail, and makes the command fail at its end.
func List[T any](ctx context.Context, call *command.Call, all []*Supervisor, what string, ask ListFunc[T]) []Item[T] {
	list := []Item[T]{}
	for _, at := range all {
		ctx, cancel := context.WithTimeout(ctx, ListTimeout)
		some, err := ask(ctx, at)
		cancel()
		if err != nil && status.Code(err) != codes.Unimplemented && !at.ended(err) {
			call.PrintError(fmt.Errorf("supervisor %d does not say which %s it has: %w", at.PID, what, CallErrorLine(err)))
			call.Status = command.StatusFailed
		}
		if err == nil {
			for _, one := range some {
				list = append(list, Item[T]{at, one})
			}
		}
	}
	return list
}

// ended reports whether a call failed because a supervisor of this machine has ended.
func (s *Supervisor) ended(err error) bool {
	return status.Code(err) == codes.Unavailable && filepath.IsAbs(s.Where) && rundir.AbandonedOrGone(s.Where)
}

// Lister completes a command that prints items of supervisors: list requests them from the supervisors that the flags
// select, and show prints them for users. With --json they are printed as JSON lines. of returns the properties for the
// filters of flags, the names of the flags of cliflag.ListFilter that the list supports.
func Lister[T proto.Message](
	cmd *cobra.Command, call *command.Call,
	list func(ctx context.Context, call *command.Call, all []*Supervisor) []Item[T], show func([]Item[T]) error,
	of func(Item[T]) cliflag.Listed, flags ...string,
) *cobra.Command {
	var which Flags
	var only cliflag.ListFilter
	var asJSON bool
	only.Register(cmd, call.Env, flags...)
	cmd.Args = command.NoArguments
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return With(cmd, call, &which, func(all []*Supervisor) error {
			found := cliflag.Filter(&only, list(cmd.Context(), call, all), of)
			if asJSON {
				return PrintMessages(call, found)
			}
			return show(found)
		})
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON lines")
	which.Register(cmd)
	return cmd
}

// PrintMessages prints messages of the API as JSON lines: the fields with their names in the .proto files, and the
// process id of the supervisor of each.
func PrintMessages[T proto.Message](call *command.Call, list []Item[T]) error {
	out, err := Objects(list)
	if err != nil {
		return err
	}
	return output.PrintLines(call, out)
}

// Objects returns the objects that PrintMessages prints.
func Objects[T proto.Message](list []Item[T]) ([]any, error) {
	out := []any{}
	for _, item := range list {
		data, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(item.Of)
		if err != nil {
			return nil, err
		}
		var fields map[string]any
		if err := json.Unmarshal(data, &fields); err != nil {
			return nil, err
		}
		fields["supervisor"] = item.At.PID
		out = append(out, fields)
	}
	return out, nil
}

// Select selects the items for an id: those with exactly this name, else those that match.
func Select[T any](list []T, same, like func(T) bool) []T {
	var exact, alike []T
	for _, item := range list {
		switch {
		case same(item):
			exact = append(exact, item)
		case like(item):
			alike = append(alike, item)
		}
	}
	if exact != nil {
		return exact
	}
	return alike
}

// SelectItems is Select for items of supervisors. Of several, it selects that of the supervisor in this environment's
// runtime folder.
func SelectItems[T any](list []Item[T], same, like func(Item[T]) bool) []Item[T] {
	return here(Select(list, same, like), func(item Item[T]) bool { return !item.At.elsewhere })
}
