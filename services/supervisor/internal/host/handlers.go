package host

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/proc"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/launch"
	"github.com/acphost/acphost/services/supervisor/internal/acp/pathmap"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/supervise"
)

// methodPermission is the method by which configuration and flags route permission questions.
const methodPermission = "session/request_permission"

// handlers holds all handlers of a supervisor.
type handlers struct {
	byName map[string]*supervise.Handler
	maps   map[string]*pathmap.Maps // by name, of handlers with mapped paths
	routes map[string]string
	log    *slog.Logger

	mu    sync.Mutex
	table *route.Table
}

// newHandlers creates the handlers of the effective configuration. It starts none. user is the user of handlers that
// act for agents; nil means the supervisor's user. The error names the handler that cannot be created.
func newHandlers(
	o Options, cfg *configv1.Config, user *proc.User, instance string, protected []string, changed func(*supervisorv1.HandlerStatus), anything func(),
) (*handlers, error) {
	hs := &handlers{
		byName: map[string]*supervise.Handler{},
		maps:   map[string]*pathmap.Maps{},
		routes: route.Override(cfg.GetRoutes(), o.Routes),
		log:    o.Logger,
	}
	terminals := route.Answering(hs.routes, route.KindTerminal)
	for name, entry := range cfg.GetHandlers() {
		conf := &pluginv1.ConfigureRequest{
			Settings: entry.GetSettings(),
			Host:     &pluginv1.Host{ProtectedPaths: protected, Instance: instance},
		}
		if slices.Contains(terminals, name) {
			conf.Host.Environment = user.Environ(os.Environ())
		}
		spec, err := specOf(name, entry, o, user)
		if err != nil {
			return nil, err
		}
		if hs.maps[name], err = config.PathMaps(entry); err != nil {
			return nil, fmt.Errorf("handlers.%s: %w", name, err)
		}
		var needs []string
		if config.Kind(name) == route.KindPermission {
			needs = []string{permissionv1.PermissionService_ServiceDesc.ServiceName} // its other services are for tools
		}
		hs.byName[name] = supervise.New(supervise.Options{
			Needs:     needs,
			Name:      name,
			Kind:      config.Kind(name),
			Spec:      spec,
			Configure: conf,
			Version:   o.Version,
			OnChange:  changed,
			Changed:   anything,
			Logger:    o.Logger,
		})
	}
	return hs, nil
}

// specOf returns how to start or connect to a handler, and its user.
func specOf(name string, entry *configv1.Handler, o Options, user *proc.User) (launch.Spec, error) {
	spec := launch.Spec{
		Name:    name,
		SHA256:  entry.GetSha256(),
		NoTLS:   entry.GetNoTls(),
		Address: entry.GetAddress(),
		UID:     entry.Uid,
		Logger:  o.Logger,

		SecretFile: entry.GetSecretFile(),
	}
	if cmd := entry.GetCommand(); len(cmd) > 0 {
		spec.Command = o.Programs.Command(cmd)
	}
	if t := entry.GetTls(); t != nil {
		spec.TLS = &launch.TLSFiles{CA: t.GetCa(), Cert: t.GetCert(), Key: t.GetKey(), ServerName: t.GetServerName()}
	}
	for _, k := range slices.Sorted(maps.Keys(entry.GetEnv())) {
		spec.Env = append(spec.Env, k+"="+entry.GetEnv()[k])
	}
	if spec.Address == "" && config.Kind(name) != route.KindPermission {
		keep, err := capabilitiesOf(o.Config.Effective(), name, route.Override(o.Config.Proto.GetRoutes(), o.Routes))
		if err != nil {
			return launch.Spec{}, err
		}
		spec.Limited, spec.Keep = true, keep
	}
	return spec, runAsAgentsUser(&spec, entry, actsAs(config.Kind(name), user))
}

// capabilitiesOf returns the root capabilities that a handler which acts for agents may have: those of the agents, and
// for a terminal handler also those that it passes on to commands.
func capabilitiesOf(cfg *configv1.Config, name string, routes map[string]string) ([]proc.Capability, error) {
	names := slices.Clone(cfg.GetAgent().GetCapabilities())
	if slices.Contains(route.Answering(routes, route.KindTerminal), name) {
		names = append(names, terminalSettings(cfg, name).GetCapabilities()...)
	}
	keep, err := proc.ParseCapabilities(names)
	if err != nil {
		return nil, fmt.Errorf("capabilities: %w", err)
	}
	return keep, nil
}

// start starts all handlers concurrently, without waiting for them.
func (hs *handlers) start(ctx context.Context) {
	for _, h := range hs.byName {
		h.Start(ctx)
	}
}

// ready waits until every handler has answered once, and returns the routing table for the methods that they serve.
func (hs *handlers) ready(ctx context.Context) (*route.Table, error) {
	var claims []route.Claim
	for name, h := range hs.all() {
		if err := h.Ready(ctx); err != nil {
			return nil, fmt.Errorf("handler %s did not start: %w", name, err)
		}
		conn, err := h.Conn()
		if err != nil {
			return nil, fmt.Errorf("handler %s is not there: %w", name, err)
		}
		services, err := route.Descriptors(ctx, conn, h.Describe())
		if err != nil {
			return nil, fmt.Errorf("handler %s does not say what it serves: %w", name, err)
		}
		claims = append(claims, route.Claim{
			Handler:        name,
			Kind:           config.Kind(name),
			Services:       services,
			CapabilityMeta: h.Describe().GetCapabilityMeta(),
		})
	}
	routes := maps.Clone(hs.routes)
	delete(routes, methodPermission)
	table, err := route.Build(claims, routes)
	if err != nil {
		return nil, err
	}
	hs.mu.Lock()
	hs.table = table
	hs.mu.Unlock()
	return table, nil
}

// routesNow returns the routing table. It is nil before ready.
func (hs *handlers) routesNow() *route.Table {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return hs.table
}

// conn returns the connection to a handler, or immediately an error if there is none. It maps the client's paths to the
// handler's and back. All calls to handlers that answer methods must use it.
func (hs *handlers) conn(name string) (grpc.ClientConnInterface, error) {
	h := hs.byName[name]
	if h == nil {
		return nil, fmt.Errorf("no handler is called %q", name)
	}
	conn, err := h.Conn()
	if err != nil || hs.maps[name] == nil {
		return conn, err
	}
	return pathmap.Wrap(conn, hs.maps[name]), nil
}

// hold and drop notify the handlers of the start and end of a session.
func (hs *handlers) hold(scope string) {
	for _, h := range hs.byName {
		h.Hold(scope)
	}
}

func (hs *handlers) drop(scope string) {
	for _, h := range hs.byName {
		h.Drop(scope)
	}
}

// permissionAtClient reports whether permission requests go to the client without a policy.
func (hs *handlers) permissionAtClient() bool { return hs.routes[methodPermission] == "front" }

// stop stops all handlers concurrently and waits for them.
func (hs *handlers) stop(ctx context.Context) {
	var wg sync.WaitGroup
	for name, h := range hs.byName {
		wg.Go(func() {
			defer panics.Recover(hs.log, "stopping handler "+name)
			if err := h.Stop(ctx); err != nil {
				hs.log.Warn("a handler could not be stopped cleanly", "handler", name, "error", err)
			}
		})
	}
	wg.Wait()
}

// names returns the handlers' names, sorted.
func (hs *handlers) names() []string { return slices.Sorted(maps.Keys(hs.byName)) }

// all yields the handlers in the order of their names.
func (hs *handlers) all() iter.Seq2[string, *supervise.Handler] {
	return func(yield func(string, *supervise.Handler) bool) {
		for _, name := range hs.names() {
			if !yield(name, hs.byName[name]) {
				return
			}
		}
	}
}

const listTimeout = 2 * time.Second
