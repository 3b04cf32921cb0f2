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

// Item is one thing of a list, and the supervisor that has it.
type Item[T any] struct {
	At *Supervisor
	Of T
}

// Asked asks one supervisor for what it has of one kind.
type Asked[T any] func(context.Context, *Supervisor) ([]T, error)

// List asks every supervisor for a list and puts the lists together. Those that have none of that kind, and those that ended
// meanwhile, are left out; those that fail are complained of, and make the command fail in the end.
func List[T any](ctx context.Context, call *command.Call, all []*Supervisor, what string, ask Asked[T]) []Item[T] {
	list := []Item[T]{}
	for _, at := range all {
		ctx, cancel := context.WithTimeout(ctx, ListTimeout)
		some, err := ask(ctx, at)
		cancel()
		if err != nil && status.Code(err) != codes.Unimplemented && !at.ended(err) {
			call.Complain(fmt.Errorf("supervisor %d does not say which %s it has: %w", at.PID, what, Plainly(err)))
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

// ended reports whether a call failed because the supervisor, one of this machine, has ended.
func (s *Supervisor) ended(err error) bool {
	return status.Code(err) == codes.Unavailable && filepath.IsAbs(s.Where) && rundir.AbandonedOrGone(s.Where)
}

// Lister completes a command that prints what supervisors have: list asks those that the command's flags mean, and show
// prints it for people. With --json it is printed as JSON lines. of says what the flags for lists go by; flags are those of
// cliflag.Only that the list has.
func Lister[T proto.Message](
	cmd *cobra.Command, call *command.Call,
	list func(ctx context.Context, call *command.Call, all []*Supervisor) []Item[T], show func([]Item[T]) error,
	of func(Item[T]) cliflag.Listed, flags ...string,
) *cobra.Command {
	var which Flags
	var only cliflag.Only
	var asJSON bool
	only.Register(cmd, call.Env, flags...)
	cmd.Args = command.NoArguments
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return With(cmd, call, &which, func(all []*Supervisor) error {
			found := cliflag.Kept(&only, list(cmd.Context(), call, all), of)
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

// PrintMessages prints messages of the API as JSON lines: the fields by their names in the .proto files, and with
// each the process id of the supervisor that it is from.
func PrintMessages[T proto.Message](call *command.Call, list []Item[T]) error {
	out, err := Objects(list)
	if err != nil {
		return err
	}
	return output.PrintLines(call, out)
}

// Objects are messages as PrintMessages prints them.
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

// Meant picks what an id means: what is called so, else all that may be meant.
func Meant[T any](list []T, same, like func(T) bool) []T {
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

// MeantOf is Meant for what supervisors have. Of several, the one that the supervisor in the runtime folder of this
// environment has is meant.
func MeantOf[T any](list []Item[T], same, like func(Item[T]) bool) []Item[T] {
	return here(Meant(list, same, like), func(item Item[T]) bool { return !item.At.elsewhere })
}
