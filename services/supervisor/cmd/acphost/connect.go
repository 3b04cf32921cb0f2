package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/certs"
	"github.com/acphost/acphost/services/supervisor/internal/transcript"
)

// remoteTimeout is how long a supervisor at an address may take to say what it is.
const remoteTimeout = 10 * time.Second

// reachFlags say which running supervisors are meant: those of this user, one of them, or one elsewhere.
type reachFlags struct {
	supervisorFlags
	socket  string
	address string
	tlsDir  string
}

func (f *reachFlags) register(cmd *cobra.Command) {
	f.supervisorFlags.register(cmd)
	cmd.Flags().StringVar(&f.socket, "socket", "", "the supervisor's admin `SOCKET`, instead of looking for it")
	cmd.Flags().StringVar(&f.address, "address", "", "the supervisor's `HOST:PORT`, over TLS")
	cmd.Flags().StringVar(&f.tlsDir, "tls-dir", "", "for --address: the `FOLDER` with ca.crt, client.crt and client.key")
	complete(cmd, "tls-dir", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	})
	complete(cmd, "address", words())
}

// check returns a usage error for flags that contradict each other.
func (f *reachFlags) check(cmd *cobra.Command) error {
	named := 0
	for _, set := range []bool{f.pid != 0, f.socket != "", f.address != ""} {
		if set {
			named++
		}
	}
	switch {
	case named > 1:
		return wrongUse(cmd, "--pid, --socket, --address: one of them says which supervisor is meant")
	case f.address != "" && f.tlsDir == "":
		return wrongUse(cmd, `--address needs --tls-dir, a client's folder as "acphost certs init" makes it`)
	case f.address == "" && f.tlsDir != "":
		return wrongUse(cmd, "--tls-dir is for --address")
	}
	return nil
}

// reached is a running supervisor that answers.
type reached struct {
	pid   int
	where string // its socket or its address
	mode  string
	agent string
	conn  *grpc.ClientConn
}

// reachAll connects to the supervisors that are meant. The caller calls close. Those of this user that do not answer are
// complained of, and make the command fail in the end; one that was named is an error.
func (a *app) reachAll(cmd *cobra.Command, f *reachFlags) (all []*reached, closeAll func(), err error) {
	closeAll = func() {
		for _, r := range all {
			_ = r.conn.Close()
		}
	}
	if err := f.check(cmd); err != nil {
		return nil, closeAll, err
	}
	if f.socket != "" || f.address != "" {
		one, err := f.reachNamed(cmd.Context())
		if err != nil {
			return nil, closeAll, err
		}
		all = append(all, one)
		return all, closeAll, nil
	}
	found, err := a.supervisors(cmd.Context(), &f.supervisorFlags)
	if err != nil {
		return nil, closeAll, err
	}
	for _, s := range found {
		one, err := reachFound(s)
		switch {
		case err == nil:
			all = append(all, one)
		case f.pid != 0:
			return nil, closeAll, err
		default:
			a.complain(err)
			a.status = statusFailed
		}
	}
	return all, closeAll, nil
}

func reachFound(s admin.Supervisor) (*reached, error) {
	if s.Err != nil {
		return nil, fmt.Errorf("supervisor %d does not answer at %s: %w", s.PID, s.Socket, plainly(s.Err))
	}
	conn, err := admin.Dial(s.Socket)
	if err != nil {
		return nil, err
	}
	return newReached(s.Socket, s.Status, conn), nil
}

// reachNamed connects to the supervisor at a socket or an address.
func (f *reachFlags) reachNamed(ctx context.Context) (*reached, error) {
	where, dial := f.socket, func() (*grpc.ClientConn, error) { return admin.Dial(f.socket) }
	if f.address != "" {
		where, dial = f.address, func() (*grpc.ClientConn, error) { return admin.DialTLS(f.address, certs.ClientFiles(f.tlsDir)) }
	}
	conn, err := dial()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	st, err := supervisorv1.NewSupervisorStateServiceClient(conn).GetStatus(ctx, &supervisorv1.GetStatusRequest{})
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("no supervisor answers at %s: %w", where, plainly(err))
	}
	return newReached(where, st, conn), nil
}

func newReached(where string, st *supervisorv1.GetStatusResponse, conn *grpc.ClientConn) *reached {
	return &reached{pid: int(st.GetPid()), where: where, mode: st.GetMode(), agent: st.GetAgent().GetName(), conn: conn}
}

// reachOne connects to the one supervisor that is meant: of those that fits picks, where there are several and fits is not
// nil. what says what it is to be, for people. The caller calls close.
func (a *app) reachOne(cmd *cobra.Command, f *reachFlags, what string, fits func(*reached) bool) (*reached, func(), error) {
	all, closeAll, err := a.reachAll(cmd, f)
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	fitting := all
	if fits != nil && f.pid == 0 && f.socket == "" && f.address == "" {
		fitting = nil
		for _, r := range all {
			if fits(r) {
				fitting = append(fitting, r)
			}
		}
	}
	switch len(fitting) {
	case 1:
		return fitting[0], closeAll, nil
	case 0:
		closeAll()
		return nil, nil, fmt.Errorf("no %s is running", what)
	}
	closeAll()
	return nil, nil, fmt.Errorf("%d supervisors are running: say which one is meant%s", len(fitting), choices(fitting))
}

// choices lists supervisors, one a line.
func choices(all []*reached) string {
	var text strings.Builder
	for _, r := range all {
		fmt.Fprintf(&text, "\n  --pid %d  %s", r.pid, cell(r.agent))
		if r.mode != "" {
			fmt.Fprintf(&text, ", %s", cell(r.mode))
		}
	}
	return text.String()
}

// asked asks every supervisor for a list and puts the lists together. Those that have none of that kind are left out; those
// that fail are complained of, and make the command fail in the end.
func asked[T any](ctx context.Context, a *app, all []*reached, what string, ask func(context.Context, *reached) ([]T, error)) []T {
	list := []T{}
	for _, r := range all {
		ctx, cancel := context.WithTimeout(ctx, listTimeout)
		some, err := ask(ctx, r)
		cancel()
		switch {
		case err == nil:
			list = append(list, some...)
		case status.Code(err) != codes.Unimplemented:
			a.complain(fmt.Errorf("supervisor %d does not say which %s it has: %w", r.pid, what, plainly(err)))
			a.status = statusFailed
		}
	}
	return list
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

// printMessages prints messages of the API as a JSON array.
func printMessages[T interface{ message() (int, proto.Message) }](a *app, list []T) error {
	out := []any{}
	for _, item := range list {
		fields, err := messageOf(item.message())
		if err != nil {
			return err
		}
		out = append(out, fields)
	}
	data, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.stdout, transcript.HarmlessJSON(data))
	return err
}

// explained is an error of a supervisor's in its own words, with what an agent said of itself when it ended.
func explained(err error) error {
	if err == nil {
		return nil
	}
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	text := cell(strings.ReplaceAll(s.Message(), "\n", "; "))
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *supervisorv1.AgentError:
			for _, line := range d.GetStderrTail() {
				text += "\n  | " + cell(line)
			}
		case *supervisorv1.ApprovalAnswer:
			if who := cell(d.GetAnsweredBy()); !strings.Contains(text, "by "+who) {
				text += fmt.Sprintf(" (%s by %s)", cell(d.GetOutcome()), who)
			}
		}
	}
	return errors.New(text)
}
