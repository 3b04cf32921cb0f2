package host

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/supervise"
	"github.com/acphost/acphost/services/supervisor/internal/policy/secret"
)

// adminOptions returns the options of the services that do not depend on how agents are started.
func (h *host) adminOptions() admin.Options {
	return admin.Options{
		Socket:     h.config.GetAdmin().GetSocket(),
		ControlOff: h.controlOff(),
		State:      h,
		Control:    h,
		Events:     h.hub,
		Files:      h.hub,
		Approvals:  h.approvals,
		Decisions:  h,
		Logger:     h.log,
	}
}

var _ admin.State = (*host)(nil)

// GetStatus implements admin.State.
func (h *host) GetStatus(context.Context, *supervisorv1.GetStatusRequest) (*supervisorv1.GetStatusResponse, error) {
	out := &supervisorv1.GetStatusResponse{
		Version:    h.opts.Version,
		Pid:        int64(os.Getpid()),
		StartTime:  timestamppb.New(h.started),
		Mode:       h.opts.Mode,
		ConfigFile: h.opts.Config.File,
		Link:       h.agents.counters(),
		Gate:       h.gate.Counters(),
		Goroutines: uint32(runtime.NumGoroutine()),
		HeapBytes:  heapBytes(),
		Protection: &supervisorv1.Protection{
			Undumpable: h.protection.undumpable,
			AgentUser:  h.config.GetAgent().GetUser(),
			Notes:      slices.Clone(h.protection.notes),
		},
	}
	if h.handlers != nil {
		out.FolderHandlers = h.handlers.folderHandlers()
	}
	agents := h.agents.list()
	out.Agents = uint32(len(agents))
	for i, la := range agents {
		walls := la.Restrictions()
		out.Protection.AgentLandlock = walls.Landlock && (i == 0 || out.Protection.AgentLandlock)
		out.Protection.AgentSeccomp = walls.Seccomp && (i == 0 || out.Protection.AgentSeccomp)
		for _, note := range walls.Notes {
			if !slices.Contains(out.Protection.Notes, note) {
				out.Protection.Notes = append(out.Protection.Notes, note)
			}
		}
		if out.Agent == nil {
			out.Agent = la.status()
		}
	}
	return out, nil
}

// heapBytes returns the size of this process's heap objects, including garbage. Reading it does not stop the world.
func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// status returns the status of the agent.
func (la *linkedAgent) status() *supervisorv1.AgentStatus {
	reported := la.Reported()
	st := &supervisorv1.AgentStatus{
		Name:            la.identity.Name,
		Command:         secret.RedactedArgv(la.command),
		State:           "starting",
		Pid:             int64(la.PID()),
		ReportedName:    reported.Name,
		ReportedVersion: reported.Version,
		ProtocolVersion: uint32(max(0, reported.ProtocolVersion)),
		StderrTail:      secret.Lines(la.StderrTail()),
		Sandbox:         la.sandbox,
	}
	if reported.ProtocolVersion > 0 {
		st.State = "running"
	}
	select {
	case <-la.Done():
		st.State, st.Exit, st.Pid = "exited", secret.Text(la.Exit().String()), 0
	default:
	}
	return st
}

// ListHandlers implements admin.State.
func (h *host) ListHandlers(context.Context, *supervisorv1.ListHandlersRequest) (*supervisorv1.ListHandlersResponse, error) {
	out := &supervisorv1.ListHandlersResponse{}
	if h.opts.Mode != ModeObserve {
		for _, name := range h.handlers.names() {
			out.Handlers = append(out.Handlers, h.statusOf(name))
		}
	}
	return out, nil
}

// shown masks secrets in a handler's status. It modifies st, which is a copy.
func shown(st *supervisorv1.HandlerStatus) *supervisorv1.HandlerStatus {
	st.Command, st.Error = secret.RedactedArgv(st.GetCommand()), secret.Text(st.GetError())
	return st
}

// ListRoutes implements admin.State.
func (h *host) ListRoutes(context.Context, *supervisorv1.ListRoutesRequest) (*supervisorv1.ListRoutesResponse, error) {
	out := &supervisorv1.ListRoutesResponse{}
	if table := h.handlers.routesNow(); table != nil {
		for _, r := range table.Routes() {
			out.Routes = append(out.Routes, r.State())
		}
	}
	return out, nil
}

// ListSessions implements admin.State.
func (h *host) ListSessions(context.Context, *supervisorv1.ListSessionsRequest) (*supervisorv1.ListSessionsResponse, error) {
	var all []*supervisorv1.Session
	for _, la := range h.agents.list() {
		all = append(all, la.Sessions()...)
	}
	slices.SortStableFunc(all, func(a, b *supervisorv1.Session) int {
		return a.GetStartTime().AsTime().Compare(b.GetStartTime().AsTime())
	})
	return &supervisorv1.ListSessionsResponse{Sessions: all}, nil
}

// GetSession implements admin.State.
func (h *host) GetSession(_ context.Context, req *supervisorv1.GetSessionRequest) (*supervisorv1.GetSessionResponse, error) {
	agentID := req.GetAgentId()
	var all []*supervisorv1.Session
	for _, la := range h.agents.list() {
		if agentID == "" || agentID == la.identity.ID || agentID == la.identity.Name {
			all = append(all, la.Sessions()...)
		}
	}
	s, err := oneSession(all, req.GetSessionId())
	return &supervisorv1.GetSessionResponse{Session: s}, err
}

// oneSession returns the session with an id. It returns an error if there is none or several.
func oneSession(all []*supervisorv1.Session, sessionID string) (*supervisorv1.Session, error) {
	var found *supervisorv1.Session
	for _, s := range all {
		switch {
		case s.GetSessionId() != sessionID:
		case found != nil:
			return nil, fault.New(fault.Precondition, "the agents %s and %s both have a session %q: say whose is meant", found.GetAgentId(), s.GetAgentId(), sessionID)
		default:
			found = s
		}
	}
	if found == nil {
		return nil, fault.New(fault.NotFound, "no session %q is open here", sessionID)
	}
	return found, nil
}

// showTimeout limits the wait for the latest messages.
const showTimeout = 200 * time.Millisecond

// Sessions implements programs.Process.
func (la *linkedAgent) Sessions() []*supervisorv1.Session {
	ctx, cancel := context.WithTimeout(context.Background(), showTimeout)
	defer cancel()
	_ = la.host.hub.Sync(ctx)  // include the latest messages, unless there are very many
	all := la.table.Snapshot() // after Sync: for a tool call, the members of the snapshot count
	for _, s := range all {
		s.AgentId = la.identity.ID
		la.host.hub.Show(la.identity.ID, s)
	}
	return all
}

// ListTerminals implements admin.State.
func (h *host) ListTerminals(ctx context.Context, _ *supervisorv1.ListTerminalsRequest) (*supervisorv1.ListTerminalsResponse, error) {
	out := &supervisorv1.ListTerminalsResponse{}
	if h.opts.Mode == ModeObserve {
		return out, nil
	}
	names := h.terminalHandlers()
	for _, name := range names {
		terminals, err := h.terminalsOf(ctx, name)
		switch code := status.Code(err); {
		case err == nil:
		case len(names) > 1 && (code == codes.Unimplemented || code == codes.Unavailable || errors.As(err, new(*supervise.Unavailable))):
			continue // list the terminals of the other handlers
		default:
			return nil, fmt.Errorf("list terminals: %w", err)
		}
		out.Terminals = append(out.Terminals, terminals...)
	}
	slices.SortStableFunc(out.Terminals, func(a, b *supervisorv1.Terminal) int {
		return a.GetStartTime().AsTime().Compare(b.GetStartTime().AsTime())
	})
	return out, nil
}

// terminalHandlers returns the handlers that may have terminals of this supervisor, sorted.
func (h *host) terminalHandlers() []string {
	return slices.DeleteFunc(h.answering(route.KindTerminal), func(name string) bool { return h.handlers.byName[name] == nil })
}

// terminalsOf lists the terminals of this supervisor at a handler.
func (h *host) terminalsOf(ctx context.Context, name string) (all []*supervisorv1.Terminal, err error) {
	conn, err := h.handlers.conn(name)
	if err != nil {
		return nil, err
	}
	terminals, err := h.ownTerminals(ctx, name, terminalv1.NewTerminalServiceClient(conn))
	if err != nil {
		return nil, err
	}
	for t, session := range terminals {
		if t.GetReleased() {
			continue
		}
		st := &supervisorv1.Terminal{
			TerminalId:  t.GetTerminalId(),
			SessionId:   session,
			Argv:        secret.RedactedArgv(t.GetArgv()),
			Cwd:         t.GetCwd(),
			StartTime:   timestamppb.New(time.UnixMilli(t.GetStartTimeMs())),
			Running:     t.GetExitStatus() == nil,
			OutputBytes: t.GetOutputBytes(),
		}
		if e := t.GetExitStatus(); e != nil {
			st.ExitCode = e.ExitCode
			st.Signal = e.GetSignal()
		}
		all = append(all, st)
	}
	return all, nil
}

// ownTerminals yields the terminals of this supervisor with their sessions. A sidecar may also have those of other
// supervisors.
func (h *host) ownTerminals(ctx context.Context, name string, client terminalv1.TerminalServiceClient) (iter.Seq2[*terminalv1.Terminal, string], error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	res, err := client.List(ctx, &terminalv1.ListRequest{})
	if err != nil {
		return nil, err
	}
	shared := h.isSidecar(name)
	return func(yield func(*terminalv1.Terminal, string) bool) {
		for _, t := range res.GetTerminals() {
			if session := h.agents.sessionOf(t.GetScope()); (session != "" || !shared) && !yield(t, session) {
				return
			}
		}
	}, nil
}
