package host

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/route"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// serveAdmin opens the admin socket. It comes last, since it shows the rest.
func (h *host) serveAdmin() (*admin.Server, error) {
	return admin.Start(admin.Options{
		Socket:    h.config.GetAdmin().GetSocket(),
		State:     h,
		Control:   h,
		Agents:    editorsAgent{h},
		Sessions:  editorsSessions{},
		Events:    h.hub,
		Approvals: h.approvals,
		Logger:    h.log,
	})
}

// Status implements admin.State.
func (h *host) Status() *supervisorv1.GetStatusResponse {
	out := &supervisorv1.GetStatusResponse{
		Version:    h.opts.Version,
		Pid:        int64(os.Getpid()),
		StartTime:  timestamppb.New(h.started),
		Mode:       h.opts.Mode,
		ConfigFile: h.opts.Config.File,
		Link:       h.joints.counters(),
		Gate:       h.gate.Counters(),
		Protection: &supervisorv1.Protection{
			Undumpable: h.protection.undumpable,
			AgentUser:  h.config.GetAgent().GetUser(),
			Notes:      slices.Clone(h.protection.notes),
		},
	}
	if server := h.admin.Load(); server != nil {
		out.AdminSocket, out.AdminAddress = server.Path(), server.Address()
	}
	joints := h.joints.list()
	out.Agents = uint32(len(joints))
	for i, j := range joints {
		walled := j.process.Landlocked()
		out.Protection.AgentLandlock = walled && (i == 0 || out.Protection.AgentLandlock)
		for _, note := range j.process.Notes() {
			if !slices.Contains(out.Protection.Notes, note) {
				out.Protection.Notes = append(out.Protection.Notes, note)
			}
		}
		if out.Agent == nil {
			out.Agent = j.status()
		}
	}
	return out
}

// status is what is known of the agent.
func (j *joint) status() *supervisorv1.AgentStatus {
	reported := j.link.Reported()
	st := &supervisorv1.AgentStatus{
		Name:            j.identity.Name,
		Command:         j.command,
		State:           "starting",
		Pid:             int64(j.process.PID()),
		ReportedName:    reported.Name,
		ReportedVersion: reported.Version,
		ProtocolVersion: uint32(max(0, reported.ProtocolVersion)),
		StderrTail:      j.process.StderrTail(),
	}
	if reported.ProtocolVersion > 0 {
		st.State = "running"
	}
	select {
	case <-j.process.Done():
		st.State, st.Exit, st.Pid = "exited", j.process.Exit().String(), 0
	default:
	}
	return st
}

// Handlers implements admin.State.
func (h *host) Handlers() []*supervisorv1.HandlerStatus {
	var out []*supervisorv1.HandlerStatus
	if h.opts.Mode == ModeObserve {
		return nil
	}
	table := h.handlers.routesNow()
	for _, name := range h.handlers.names() {
		st := h.handlers.byName[name].Status()
		if table != nil {
			st.Methods = table.Methods(name)
		}
		out = append(out, st)
	}
	return out
}

// Routes implements admin.State.
func (h *host) Routes() []*supervisorv1.Route {
	table := h.handlers.routesNow()
	if table == nil {
		return nil
	}
	var out []*supervisorv1.Route
	for _, r := range table.Routes() {
		out = append(out, r.State())
	}
	return out
}

// Sessions implements admin.State.
func (h *host) Sessions() []*supervisorv1.Session {
	var all []*supervisorv1.Session
	for _, j := range h.joints.list() {
		all = append(all, j.sessions()...)
	}
	slices.SortStableFunc(all, func(a, b *supervisorv1.Session) int {
		return a.GetStartTime().AsTime().Compare(b.GetStartTime().AsTime())
	})
	return all
}

// settleTimeout bounds the wait for what passed just now.
const settleTimeout = 200 * time.Millisecond

// sessions are those of one agent, oldest first.
func (j *joint) sessions() []*supervisorv1.Session {
	all := j.book.Snapshot()
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	_ = j.host.hub.Settle(ctx) // what passed a moment ago is shown too, unless very much passes
	for _, s := range all {
		s.AgentId = j.identity.ID
		j.host.hub.Show(j.identity.ID, s)
	}
	return all
}

// Terminals implements admin.State.
func (h *host) Terminals(ctx context.Context) ([]*supervisorv1.Terminal, error) {
	if h.opts.Mode == ModeObserve {
		return nil, nil
	}
	conn, err := h.handlers.conn(route.KindTerminal)
	if err != nil {
		return nil, fmt.Errorf("list terminals: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	res, err := terminalv1.NewTerminalServiceClient(conn).List(ctx, &terminalv1.ListRequest{})
	if err != nil {
		return nil, fmt.Errorf("list terminals: %w", err)
	}
	var out []*supervisorv1.Terminal
	for _, t := range res.GetTerminals() {
		if t.GetReleased() {
			continue
		}
		session := h.joints.sessionOf(t.GetScope())
		if session == "" && h.sharedTerminals() {
			continue // a sidecar's, of another supervisor
		}
		st := &supervisorv1.Terminal{
			TerminalId:  t.GetTerminalId(),
			SessionId:   session,
			Argv:        t.GetArgv(),
			Cwd:         t.GetCwd(),
			StartTime:   timestamppb.New(time.UnixMilli(t.GetStartTimeMs())),
			Running:     t.GetExitStatus() == nil,
			OutputBytes: t.GetOutputBytes(),
		}
		if e := t.GetExitStatus(); e != nil {
			st.ExitCode = e.ExitCode
			st.Signal = e.GetSignal()
		}
		out = append(out, st)
	}
	return out, nil
}

// sharedTerminals tells whether the terminal handler may serve other supervisors too.
func (h *host) sharedTerminals() bool {
	return h.config.GetHandlers()[route.KindTerminal].GetAddress() != ""
}
