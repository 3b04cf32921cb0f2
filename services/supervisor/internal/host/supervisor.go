package host

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/certs"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/config/agentspec"
	"github.com/acphost/acphost/services/supervisor/internal/headless/programs"
)

// Supervisor is a running supervisor without an editor: its services start agents and open sessions. It is safe for
// concurrent use.
type Supervisor struct {
	host     *host
	programs *programs.Registry
	conn     grpc.ClientConnInterface
	activity func()             // stops the feed of file activity; nil: none
	cancel   context.CancelFunc // ends links and handlers
}

// Start starts a supervisor without an editor. It uses all fields of o except Agent, Stdin and Stdout. When it returns,
// the services answer and the handlers are starting; see Ready. The supervisor runs until Close: ctx only supplies
// values.
func Start(ctx context.Context, o Options) (_ *Supervisor, err error) {
	o.Mode = cmp.Or(o.Mode, ModeServe)
	h := newHost(o)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &Supervisor{host: h, cancel: cancel}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if !o.Private {
		if err := o.Config.CheckListen(); err != nil {
			return nil, err
		}
	}
	if err := h.open(ctx); err != nil {
		return nil, err
	}
	cfg := h.config
	restarts := int(cfg.GetAgent().GetMaxRestarts())
	if o.Mode == ModePrompt {
		restarts = 0 // a command has one turn, which has failed
	}
	s.programs = programs.New(programs.Options{
		Start: func(starting context.Context, spec programs.Spec) (programs.Process, error) {
			return h.startProgram(starting, ctx, spec)
		},
		Hub:               h.hub,
		Agents:            agentspec.Resolver{Config: cfg.GetAgent(), Presets: o.Presets},
		Env:               h.environ(),
		Protect:           h.protectKeys,
		InitializeTimeout: time.Duration(cfg.GetAgent().GetInitializeTimeoutSeconds()) * time.Second,
		MaxRestarts:       restarts,
		MaxAgents:         int(cfg.GetServe().GetMaxAgents()),
		MaxSessions:       int(cfg.GetServe().GetMaxSessions()),
		GatewayAgents:     gatewayAgents(cfg.GetServe().GetGatewayAgents()),
		Version:           o.Version,
		Logger:            h.log,
	})
	if err := s.serveAdmin(); err != nil {
		return nil, err
	}
	if !o.Private {
		s.activity = h.serveActivity("", s.programs)
	}
	return s, nil
}

// serveAdmin starts the services: within this process, on the admin socket and over TCP. A private supervisor runs
// without the socket if it cannot be created.
func (s *Supervisor) serveAdmin() error {
	h := s.host
	o := h.adminOptions()
	o.Agents, o.Sessions, o.Gateway = s.programs, s.programs, s.programs
	o.NoSocket = !h.opts.Admin || h.config.GetAdmin().GetDisabled()
	if !h.opts.Private {
		t := h.config.GetAdmin().GetTls()
		o.Listen, o.Listener = h.config.GetAdmin().GetListen(), h.opts.Listener
		o.Metrics = h.telemetry.Handler()
		o.TLS = certs.Files{CA: t.GetCa(), Cert: t.GetCert(), Key: t.GetKey()}
	}
	server, err := admin.Start(o)
	if err != nil && h.opts.Private && !o.NoSocket {
		h.log.Warn("others cannot look into this supervisor", "error", err)
		o.NoSocket = true
		server, err = admin.Start(o)
	}
	if err != nil {
		return err
	}
	h.admin.Store(server)
	s.conn, err = server.Local()
	return err
}

// Ready waits until every handler answers. Its error names a handler that does not, with the reason.
func (s *Supervisor) Ready(ctx context.Context) error {
	_, err := s.host.handlers.ready(ctx)
	return err
}

// Conn returns a connection to the services with all rights. It works until Close.
func (s *Supervisor) Conn() grpc.ClientConnInterface { return s.conn }

// Addresses returns the addresses of the services: the admin socket, "unix://PATH", the control socket, "unix:@NAME",
// and the TCP address, each with its purpose.
func (s *Supervisor) Addresses() []string {
	var at []string
	server := s.host.admin.Load()
	if path := server.Path(); path != "" {
		at = append(at, "unix://"+path+" (only shows what is)")
	}
	if control, _ := server.Control(); control != "" {
		at = append(at, "unix:"+control)
	}
	if address := server.Address(); address != "" {
		at = append(at, address+" (mutual TLS)")
	}
	return at
}

// Drain rejects new work and waits for active turns until ctx ends; then it cancels them, and waits half a second. It
// returns an error if turns are still active.
func (s *Supervisor) Drain(ctx context.Context) error {
	s.host.admin.Load().Draining()
	return s.programs.Drain(ctx)
}

// Close ends the agents with all processes that they started, then the handlers. It returns when all have ended, and
// may be called again.
func (s *Supervisor) Close() {
	if s.programs != nil {
		s.programs.Close()
	}
	if server := s.host.admin.Load(); server != nil {
		s.host.stopServing(server)
	}
	if s.activity != nil {
		s.activity()
	}
	s.cancel()
	s.host.close()
}

var (
	_ admin.Agents     = (*programs.Registry)(nil)
	_ admin.Sessions   = (*programs.Registry)(nil)
	_ admin.Gateway    = (*programs.Registry)(nil)
	_ programs.Process = (*linkedAgent)(nil)
)

// StartRequest returns the request for an agent of the configuration.
func StartRequest(c *configv1.ServeAgent) *supervisorv1.StartAgentRequest {
	return &supervisorv1.StartAgentRequest{
		Preset: c.GetPreset(), Command: c.GetCommand(), Name: c.GetName(), Cwd: c.GetCwd(), Env: agentspec.Values(c.GetEnv()),
	}
}

// gatewayAgents returns the agents that gateways may start, by name.
func gatewayAgents(configured []*configv1.ServeAgent) map[string]*supervisorv1.StartAgentRequest {
	all := map[string]*supervisorv1.StartAgentRequest{}
	for _, c := range configured {
		all[config.GatewayAgentName(c)] = StartRequest(c)
	}
	return all
}
