package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"github.com/acphost/acphost/sdk/launch"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/route"
	"github.com/acphost/acphost/services/supervisor/internal/supervise"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"
)

// The names under which configuration holds the handlers of acphost's own capabilities; every other name is an
// extension's.
const (
	kindFS         = "fs"
	kindTerminal   = "terminal"
	kindPermission = "permission"
	kindExtension  = "extension"
)

// methodPermission is what configuration and flags route questions by.
const methodPermission = "session/request_permission"

// ownPrograms are acphost's own handlers.
var ownPrograms = map[string]string{kindFS: "fsd", kindTerminal: "termd", kindPermission: "permd"}

// handlers are all handlers of a supervisor.
type handlers struct {
	byName map[string]*supervise.Handler
	routes map[string]string
	policy bool
	log    *slog.Logger

	mu    sync.Mutex
	table *route.Table
}

// newHandlers makes the handlers that configuration names, and acphost's own where it names none. Nothing is started.
func newHandlers(o Options, instance string, protected []string, log *slog.Logger) (*handlers, error) {
	cfg := o.Config.Proto
	hs := &handlers{
		byName: map[string]*supervise.Handler{},
		routes: route.Override(cfg.GetRoutes(), o.Routes),
		log:    log,
	}
	hs.policy = cfg.GetPermission().GetPolicy() != "" || cfg.GetHandlers()[kindPermission] != nil
	names := map[string]bool{kindFS: true, kindTerminal: true, kindPermission: true}
	for name := range cfg.GetHandlers() {
		names[name] = true
	}
	for name := range names {
		spec, err := handlerSpec(o, name, log)
		if err != nil {
			return nil, err
		}
		settings, err := handlerSettings(o.Config, name)
		if err != nil {
			return nil, err
		}
		conf := &pluginv1.ConfigureRequest{
			Settings: settings,
			Host:     &pluginv1.Host{ProtectedPaths: protected, Instance: instance},
		}
		if name == kindTerminal {
			conf.Host.Environment = os.Environ()
		}
		hs.byName[name] = supervise.New(supervise.Options{
			Name:      name,
			Kind:      kindOf(name),
			Spec:      spec,
			Configure: conf,
			Logger:    log,
		})
	}
	return hs, nil
}

// handlerSpec says how a handler is reached.
func handlerSpec(o Options, name string, log *slog.Logger) (launch.Spec, error) {
	spec := launch.Spec{Name: name, Logger: log}
	entry := o.Config.Proto.GetHandlers()[name]
	if entry == nil {
		spec.Command = []string{filepath.Join(o.HandlerDir, ownPrograms[name])}
		return spec, nil
	}
	spec.SHA256 = entry.GetSha256()
	spec.NoTLS = entry.GetNoTls()
	spec.Address = entry.GetAddress()
	spec.UID = entry.Uid
	if t := entry.GetTls(); t != nil {
		spec.TLS = &launch.TLSFiles{CA: t.GetCa(), Cert: t.GetCert(), Key: t.GetKey(), ServerName: t.GetServerName()}
	}
	for _, k := range slices.Sorted(maps.Keys(entry.GetEnv())) {
		spec.Env = append(spec.Env, k+"="+entry.GetEnv()[k])
	}
	if cmd := entry.GetCommand(); len(cmd) > 0 {
		spec.Command = slices.Clone(cmd)
		if !strings.ContainsRune(cmd[0], filepath.Separator) { // a bare name stands next to acphost's own program
			spec.Command[0] = filepath.Join(o.HandlerDir, cmd[0])
		}
	} else if spec.Address == "" {
		spec.Command = []string{filepath.Join(o.HandlerDir, ownPrograms[name])}
		if ownPrograms[name] == "" {
			return spec, fmt.Errorf("handler %q has neither a command nor an address: give it one in the configuration", name)
		}
	}
	return spec, nil
}

// handlerSettings are a handler's settings; the policy file reaches acphost's own permission daemon as one of them.
func handlerSettings(c *config.Config, name string) (*structpb.Struct, error) {
	settings := c.Proto.GetHandlers()[name].GetSettings()
	if name != kindPermission || c.Proto.GetPermission().GetPolicy() == "" {
		return settings, nil
	}
	merged := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	maps.Copy(merged.Fields, settings.GetFields())
	if merged.Fields["policy"] != nil {
		return nil, errors.New("the policy is named twice in the configuration, at permission.policy and at handlers.permission.settings.policy: keep one")
	}
	merged.Fields["policy"] = structpb.NewStringValue(c.Proto.GetPermission().GetPolicy())
	return merged, nil
}

func kindOf(name string) string {
	if ownPrograms[name] != "" {
		return name
	}
	return kindExtension
}

// start starts all handlers at once; it does not wait for them.
func (hs *handlers) start(ctx context.Context) {
	for _, h := range hs.byName {
		h.Start(ctx)
	}
}

// ready waits until every handler has answered once, and returns the routes that follow from what they serve.
func (hs *handlers) ready(ctx context.Context) (*route.Table, error) {
	var claims []route.Claim
	for _, name := range slices.Sorted(maps.Keys(hs.byName)) {
		h := hs.byName[name]
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
			Kind:           kindOf(name),
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

// routesNow returns the routes, nil before the handlers are ready.
func (hs *handlers) routesNow() *route.Table {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return hs.table
}

// conn returns the connection to a handler, or at once why there is none.
func (hs *handlers) conn(name string) (grpc.ClientConnInterface, error) {
	h := hs.byName[name]
	if h == nil {
		return nil, fmt.Errorf("no handler is called %q", name)
	}
	return h.Conn()
}

// hold and drop tell the handlers of a session's life.
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

// policySet tells whether somebody chose a policy, so that its silence means no.
func (hs *handlers) policySet() bool { return hs.policy }

// permissionAtFront tells whether questions go to the front without the policy.
func (hs *handlers) permissionAtFront() bool { return hs.routes[methodPermission] == "front" }

// stop stops all handlers at once and waits for them.
func (hs *handlers) stop(ctx context.Context) {
	var wg sync.WaitGroup
	for name, h := range hs.byName {
		wg.Go(func() {
			if err := h.Stop(ctx); err != nil {
				hs.log.Warn("a handler could not be stopped cleanly", "handler", name, "error", err)
			}
		})
	}
	wg.Wait()
}

// names returns the handlers' names in order.
func (hs *handlers) names() []string { return slices.Sorted(maps.Keys(hs.byName)) }

const listTimeout = 2 * time.Second
