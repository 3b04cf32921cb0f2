// Package reach connects a command to the supervisors that its flags select: all of this user, one of them, or one at
// an address. It converts their errors to messages for users.
package reach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/config"
)

// Timeouts of calls. An operation may take as long as the start of a new handler and the end of an old one. A read
// needs neither.
const (
	VerbTimeout   = 2 * time.Minute
	ListTimeout   = 10 * time.Second
	remoteTimeout = 10 * time.Second // for a remote supervisor to report its status
)

// Flags contains the flags that select running supervisors: those of this user, one of them, or a remote one.
type Flags struct {
	PID                     int
	Config                  string // a file
	Socket, Address, TLSDir string

	addressFlag string // name of the flag for Address
}

// Register adds all flags to a command.
func (f *Flags) Register(cmd *cobra.Command) { f.RegisterAs(cmd, "address") }

// RegisterAs is Register for a command whose flag --address has another meaning. name replaces it.
func (f *Flags) RegisterAs(cmd *cobra.Command, name string) {
	f.addressFlag = name
	f.RegisterLocal(cmd)
	cmd.Flags().StringVar(&f.Address, name, "", "the supervisor's `HOST:PORT`, over TLS")
	cmd.Flags().StringVar(&f.TLSDir, "tls-dir", "", "for --"+name+": the `FOLDER` with ca.crt, client.crt and client.key")
	cliflag.Complete(cmd, "tls-dir", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	})
	cliflag.Complete(cmd, name, cliflag.Words())
}

// RegisterLocal adds the flags that select supervisors of this machine to a command.
func (f *Flags) RegisterLocal(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.PID, "pid", 0, "the supervisor's process id, `PID`, if several run")
	cmd.Flags().StringVar(&f.Config, "config", "", "the configuration `FILE`, which may name a socket")
	cmd.Flags().StringVar(&f.Socket, "socket", "", "the supervisor's admin `SOCKET`")
}

// Named reports whether the flags name one supervisor.
func (f *Flags) Named() bool { return f.PID != 0 || f.Socket != "" || f.Address != "" }

// Check returns a usage error for flags that contradict each other.
func (f *Flags) Check(cmd *cobra.Command) error {
	named := 0
	for _, set := range []bool{f.PID != 0, f.Socket != "", f.Address != ""} {
		if set {
			named++
		}
	}
	switch {
	case named > 1 && f.addressFlag == "":
		return command.UsageErrorf(cmd, "--pid and --socket: only one of them may be set")
	case named > 1:
		return command.UsageErrorf(cmd, "--pid, --socket, --%s: only one of them may be set", f.addressFlag)
	case f.Address != "" && f.TLSDir == "":
		return command.UsageErrorf(cmd, `--%s needs --tls-dir, a client's folder as "acphost certs init" makes it`, f.addressFlag)
	case f.Address == "" && f.TLSDir != "":
		return command.UsageErrorf(cmd, "--tls-dir is for --%s", f.addressFlag)
	}
	return nil
}

// Supervisor is a running supervisor that answers.
type Supervisor struct {
	PID   int
	Where string // its socket or its address
	Mode  string
	Agent string
	*client.Client

	elsewhere bool // its socket is in the runtime folder of another environment
}

// All connects to the selected supervisors. The caller calls closeAll, also after an error. It reports supervisors of
// this user that do not answer, and makes the command fail at its end. For a single selected supervisor, it returns the
// error.
func All(cmd *cobra.Command, call *command.Call, f *Flags) (all []*Supervisor, closeAll func(), err error) {
	closeAll = func() {
		for _, s := range all {
			_ = s.Close()
		}
	}
	if err := f.Check(cmd); err != nil {
		return nil, closeAll, err
	}
	if f.Socket != "" || f.Address != "" {
		one, err := f.dialNamed(cmd.Context())
		if err != nil {
			return nil, closeAll, err
		}
		all = append(all, one)
		return all, closeAll, nil
	}
	found, err := Find(cmd.Context(), call, f)
	if err != nil {
		return nil, closeAll, err
	}
	for _, s := range found {
		one, err := dialFound(s)
		switch {
		case err == nil:
			one.elsewhere = elsewhere(call, s)
			all = append(all, one)
		case f.PID != 0:
			return nil, closeAll, err
		default:
			call.PrintError(err)
			call.Status = command.StatusFailed
		}
	}
	return all, closeAll, nil
}

// unanswered returns the error for a supervisor of this machine that does not answer.
func unanswered(s client.Supervisor) error {
	switch e := client.ErrorOf(s.Err); {
	case e != nil && e.Code == codes.DeadlineExceeded:
		return fmt.Errorf("it is busy, or stopped (kill -CONT %d has it go on)", s.PID)
	case e != nil && e.Code == codes.Canceled:
		return errors.New("it was not waited for")
	}
	return CallErrorLine(s.Err)
}

func dialFound(s client.Supervisor) (*Supervisor, error) {
	if s.Err != nil {
		return nil, fmt.Errorf("supervisor %d does not answer at %s: %w", s.PID, s.Socket, unanswered(s))
	}
	c, err := s.Dial()
	if err != nil {
		return nil, err
	}
	return newSupervisor(s.Socket, s.Status, c), nil
}

// Dial returns a connection to the socket or the address in the flags, without a call.
func (f *Flags) Dial() (where string, c *client.Client, err error) {
	if f.Address != "" {
		c, err = client.DialTLS(f.Address, f.TLSDir)
		return f.Address, c, err
	}
	c, err = client.DialSocket(f.Socket)
	return f.Socket, c, err
}

// dialNamed is Dial with a call for the supervisor's status.
func (f *Flags) dialNamed(ctx context.Context) (*Supervisor, error) {
	where, c, err := f.Dial()
	if err != nil {
		return nil, err
	}
	one, err := At(ctx, where, c)
	if err != nil {
		_ = c.Close()
	}
	return one, err
}

// At requests the status of the supervisor at a connection. where is its name for users.
func At(ctx context.Context, where string, c *client.Client) (*Supervisor, error) {
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	st, err := c.State.GetStatus(ctx, &supervisorv1.GetStatusRequest{})
	if err == nil {
		return newSupervisor(where, st, c), nil
	}
	_, refused := command.CertificateRefusal(err.Error())
	said := CallErrorLine(err)
	switch e := client.ErrorOf(err); {
	case e != nil && e.Code == codes.Unauthenticated:
		return nil, fmt.Errorf("%s does not know who calls: is the token or the certificate one of its own, "+
			"and not expired? It says: %w", where, said)
	case e != nil && e.Code == codes.PermissionDenied:
		return nil, fmt.Errorf("%s refuses this caller: %w", where, said)
	case refused:
		return nil, fmt.Errorf("connect to %s: %w", where, said)
	}
	return nil, fmt.Errorf("no supervisor answers at %s: %w", where, said)
}

func newSupervisor(where string, st *supervisorv1.GetStatusResponse, c *client.Client) *Supervisor {
	return &Supervisor{PID: int(st.GetPid()), Where: where, Mode: st.GetMode(), Agent: st.GetAgent().GetName(), Client: c}
}

// With connects to the selected supervisors, as All does, while do runs.
func With(cmd *cobra.Command, call *command.Call, f *Flags, do func(all []*Supervisor) error) error {
	all, closeAll, err := All(cmd, call, f)
	defer closeAll()
	if err != nil {
		return err
	}
	return do(all)
}

// Completer completes the argument after args with items of supervisors.
type Completer func(ctx context.Context, call *command.Call, all []*Supervisor, args []string) []cobra.Completion

// Complete returns a function that completes up to limit arguments with a Completer. It returns no completions if the
// supervisors cannot be reached.
func Complete(call *command.Call, f *Flags, limit int, list Completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
		if len(args) < limit {
			_ = With(cmd, call, f, func(all []*Supervisor) error {
				found = list(cmd.Context(), call, all, args)
				return nil
			})
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// Perform performs an operation at the one selected supervisor, with the timeout VerbTimeout. If several are selected
// and fits is not nil, it uses only those for which fits returns true; of several, that in this environment's runtime
// folder. what describes the supervisor for users.
func Perform(
	cmd *cobra.Command, call *command.Call, f *Flags, what string, fits func(*Supervisor) bool, do func(context.Context, *Supervisor) error,
) error {
	return With(cmd, call, f, func(all []*Supervisor) error {
		if fits != nil && !f.Named() {
			all = slices.DeleteFunc(slices.Clone(all), func(s *Supervisor) bool { return !fits(s) })
		}
		all = here(all, func(s *Supervisor) bool { return !s.elsewhere })
		switch len(all) {
		case 0:
			return None(call, what)
		case 1:
			ctx, cancel := context.WithTimeout(cmd.Context(), VerbTimeout)
			defer cancel()
			return CallErrorLine(do(ctx, all[0]))
		}
		return fmt.Errorf("%d supervisors are running: select one%s", len(all), Choices(all))
	})
}

// None returns the error of a command that finds no supervisor of a kind: none is running, or none of the running ones
// answers.
func None(call *command.Call, what string) error {
	if call.Status == command.StatusFailed { // it was already reported
		return fmt.Errorf("no %s answers", what)
	}
	return fmt.Errorf("no %s is running", what)
}

// Running returns the running supervisors of this user, including those that do not answer, and the one whose socket
// the configuration names. It reports an invalid configuration, which is not necessary to find supervisors with their
// own sockets.
func Running(ctx context.Context, call *command.Call, configFile string) []client.Supervisor {
	var further []string
	if conf, err := config.Load(configFile, call.Env); err != nil {
		call.PrintError(err)
	} else if socket := conf.Proto.GetAdmin().GetSocket(); socket != "" {
		further = []string{socket}
	}
	return client.Find(ctx, call.Sockets(call.Env), further...)
}

// elsewhere reports whether a supervisor was found outside of this environment's runtime folder.
func elsewhere(call *command.Call, s client.Supervisor) bool {
	dirs := call.Sockets(call.Env)
	return s.Folder != "" && len(dirs) > 0 && s.Folder != dirs[0]
}

// here returns the items in this environment's runtime folder if there are any, else all.
func here[T any](all []T, in func(T) bool) []T {
	only := slices.DeleteFunc(slices.Clone(all), func(s T) bool { return !in(s) })
	if len(only) == 1 {
		return only
	}
	return all
}

// withoutSilent removes supervisors of other runtime folders that do not answer, if one of this environment answers,
// because the user means that one.
func withoutSilent(call *command.Call, found []client.Supervisor) []client.Supervisor {
	if !slices.ContainsFunc(found, func(s client.Supervisor) bool { return s.Err == nil && !elsewhere(call, s) }) {
		return found
	}
	return slices.DeleteFunc(found, func(s client.Supervisor) bool { return s.Err != nil && elsewhere(call, s) })
}

// Find returns the running supervisors of this user that the flags select. It is an error if there are none, unless all
// are selected. Supervisors that may belong to agents are reported and omitted, unless their process id was given.
// Supervisors of other runtime folders that do not answer are omitted if one of this environment answers.
func Find(ctx context.Context, call *command.Call, f *Flags) ([]client.Supervisor, error) {
	found := Running(ctx, call, f.Config)
	if f.PID == 0 {
		return withoutSilent(call, slices.DeleteFunc(found, func(s client.Supervisor) bool { return MayBeAgents(call, s) })), nil
	}
	for _, s := range found {
		if s.PID != f.PID {
			continue
		}
		if _, ok := errors.AsType[*client.DoubtError](s.Err); ok {
			s = s.Named(ctx)
		}
		return []client.Supervisor{s}, nil
	}
	return nil, fmt.Errorf("no supervisor runs as process %d; \"acphost ps\" lists those that run", f.PID)
}

// One returns the one selected supervisor of this user, with no more calls than Find. Of several, it returns that in
// this environment's runtime folder.
func One(ctx context.Context, call *command.Call, f *Flags) (client.Supervisor, error) {
	found, err := Find(ctx, call, f)
	if err != nil {
		return client.Supervisor{}, err
	}
	found = here(found, func(s client.Supervisor) bool { return !elsewhere(call, s) })
	switch len(found) {
	case 0:
		return client.Supervisor{}, errors.New("no supervisor is running")
	case 1:
		return found[0], nil
	}
	var pids []string
	for _, s := range found {
		pids = append(pids, fmt.Sprint(s.PID))
	}
	slices.Sort(pids)
	return client.Supervisor{}, fmt.Errorf("%d supervisors are running: select one with --pid (%s)", len(found), strings.Join(pids, ", "))
}

// MayBeAgents reports whether a supervisor may belong to an agent, and prints a warning.
func MayBeAgents(call *command.Call, s client.Supervisor) bool {
	_, doubted := errors.AsType[*client.DoubtError](s.Err)
	if doubted {
		call.PrintError(fmt.Errorf("what answers at %s is left out: %w", output.Cell(s.Socket), CallErrorLine(s.Err)))
	}
	return doubted
}
