package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/acphost/acphost/internal/fault"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/launch"
	"github.com/acphost/acphost/services/supervisor/internal/acp/transcode"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/ownhandler"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/supervise"
	"github.com/acphost/acphost/services/supervisor/internal/policy/grant"
	"github.com/acphost/acphost/services/supervisor/internal/policy/secret"
)

var _ admin.Control = (*host)(nil)

// RestartHandler implements admin.Control.
func (h *host) RestartHandler(ctx context.Context, req *supervisorv1.RestartHandlerRequest) (*supervisorv1.RestartHandlerResponse, error) {
	handler, err := h.handlerNamed(req.GetName())
	if err != nil {
		return nil, err
	}
	sidecar := handler.Status().GetAddress() != "" // a sidecar keeps running: only the connection is renewed
	leave := h.checkTerminals(req.GetName(), req.GetForce() || sidecar)
	if err := leave(ctx); err != nil {
		return nil, h.wrapKept(req.GetName(), fmt.Errorf("restart handler %s: %w", req.GetName(), err))
	}
	if err := handler.Restart(ctx, leave); err != nil {
		return nil, h.wrapKept(req.GetName(), err)
	}
	h.log.Warn("a handler was restarted on a person's order", "handler", req.GetName(), "forced", req.GetForce())
	return &supervisorv1.RestartHandlerResponse{Handler: h.statusOf(req.GetName())}, nil
}

// wrapKept adds to an error that the present handler stays in use. It shortens a long error at its end.
func (h *host) wrapKept(name string, err error) error {
	if err == nil {
		return nil
	}
	if h.statusOf(name).GetState() == supervisorv1.HandlerState_HANDLER_STATE_READY {
		return fmt.Errorf("the old handler stays in place and serves: %w", err)
	}
	return fmt.Errorf("the old handler stays in place, and is not ready (\"acphost handler list\" says why): %w", err)
}

// SwapHandler implements admin.Control.
func (h *host) SwapHandler(ctx context.Context, req *supervisorv1.SwapHandlerRequest) (_ *supervisorv1.SwapHandlerResponse, err error) {
	handler, err := h.handlerNamed(req.GetName())
	if err != nil {
		return nil, err
	}
	defer func() { err = h.wrapKept(req.GetName(), err) }()
	failed := func(err error) error { return fmt.Errorf("swap handler %s: %w", req.GetName(), err) }
	spec, err := h.specFor(req)
	if err != nil {
		return nil, failed(err)
	}
	if config.Kind(req.GetName()) == route.KindPermission && h.handlers.permissionAtClient() {
		return nil, failed(errors.New("no policy is asked here: every question goes to the client (--permission=front)"))
	}
	if err := h.keepsAdministrator(req, config.DefaultAdminPolicy); err != nil {
		return nil, failed(err)
	}
	if file := req.GetSecretFile(); file != "" {
		if _, err := h.gate.Protect(file); err != nil {
			return nil, failed(err)
		}
		h.notifyOfKeys(ctx, []string{file})
	}
	table := h.handlers.routesNow()
	if table == nil {
		return nil, failed(errors.New("the handlers are not ready yet, and routes follow from what they serve: try again in a moment"))
	}
	leave := h.checkTerminals(req.GetName(), req.GetForce())
	if err := leave(ctx); err != nil {
		return nil, failed(err)
	}
	believe := h.markPolicyFiles(req.GetName(), req.GetCommand())
	forced, err := handler.Swap(ctx, supervise.Swap{
		Spec:      spec,
		Configure: h.settingsFor(req, handler.Configured()),
		Check: func(ctx context.Context, conn grpc.ClientConnInterface, d *pluginv1.DescribeResponse) error {
			services, err := route.Descriptors(ctx, conn, d)
			if err != nil {
				return err
			}
			claim := route.Claim{Handler: req.GetName(), Kind: config.Kind(req.GetName()), Services: services}
			if err := serves(claim, h.handlers.routes, table); err != nil {
				return err
			}
			if err := leave(ctx); err != nil {
				return err
			}
			believe()
			if claim.Kind == route.KindPermission && !isProgram(ownProgram(claim.Kind), req.GetCommand()) {
				h.gate.Enforce() // a policy is now set; before it gets its first question
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	if config.Kind(req.GetName()) == route.KindPermission {
		h.gate.Enforce()
	}
	h.log.Warn("a handler was swapped on a person's order", "handler", req.GetName(), "command", secret.RedactedArgv(req.GetCommand()),
		"address", req.GetAddress(), "unanswered", forced)
	return &supervisorv1.SwapHandlerResponse{Handler: h.statusOf(req.GetName()), Forced: uint32(max(0, forced))}, nil
}

// ReloadPolicy implements admin.Control.
func (h *host) ReloadPolicy(ctx context.Context, _ *supervisorv1.ReloadPolicyRequest) (*supervisorv1.ReloadPolicyResponse, error) {
	if h.opts.Mode == ModeObserve {
		return nil, errObserving
	}
	res := &supervisorv1.ReloadPolicyResponse{}
	var problems []error
	for name, handler := range h.handlers.all() {
		if config.Kind(name) != route.KindPermission {
			continue
		}
		believe := h.markPolicyFiles(name, handler.Status().GetCommand())
		if err := handler.Reload(ctx); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
			continue
		}
		believe()
		res.Handlers = append(res.Handlers, h.statusOf(name))
	}
	if h.grants != nil {
		problems = append(problems, h.grants.Reload())
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("reload the policy: %w", err)
	}
	return res, nil
}

// markPolicyFiles reads the marks of the files that a policy with this command uses, before the policy reads them on a
// user's order. believe records these marks as trusted.
func (h *host) markPolicyFiles(name string, command []string) (believe func()) {
	b := h.policyFiles[name]
	if b == nil {
		return func() {} // the handler is not a policy
	}
	marks := b.marks(command)
	return func() { b.trust(marks) }
}

// RevokeGrants implements admin.Control.
func (h *host) RevokeGrants(_ context.Context, req *supervisorv1.RevokeGrantsRequest) (*supervisorv1.RevokeGrantsResponse, error) {
	if h.grants == nil {
		return nil, fault.New(fault.NotFound, "revoke grants: this supervisor remembers no answers")
	}
	revoked, err := h.grants.Revoke(req.GetIds()...)
	if errors.Is(err, grant.ErrUnknown) {
		return nil, fault.New(fault.NotFound, "%w", err)
	}
	if err != nil {
		return nil, err
	}
	return &supervisorv1.RevokeGrantsResponse{Grants: shownGrants(revoked)}, nil
}

// ListGrants implements admin.State.
func (h *host) ListGrants(context.Context, *supervisorv1.ListGrantsRequest) (*supervisorv1.ListGrantsResponse, error) {
	out := &supervisorv1.ListGrantsResponse{}
	if h.grants != nil {
		out.Grants = shownGrants(h.grants.List())
	}
	return out, nil
}

// shownGrants returns copies of grants for display: the exact text of a grant may contain a secret, which is masked.
func shownGrants(grants []*supervisorv1.Grant) []*supervisorv1.Grant {
	out := make([]*supervisorv1.Grant, len(grants))
	for i, g := range grants {
		out[i] = proto.CloneOf(g)
		secret.Argv(out[i].GetArgv())
	}
	return out
}

var errObserving = errors.New("this supervisor only watches (run --observe) and has no handlers")

func (h *host) handlerNamed(name string) (*supervise.Handler, error) {
	if h.opts.Mode == ModeObserve {
		return nil, errObserving
	}
	handler := h.handlers.byName[name]
	if handler == nil {
		return nil, fault.New(fault.NotFound, "no handler is called %q; there are %s", name, strings.Join(h.handlers.names(), ", "))
	}
	return handler, nil
}

func (h *host) statusOf(name string) *supervisorv1.HandlerStatus {
	handler := h.handlers.byName[name]
	st := shown(handler.Status())
	st.Sha256 = handler.Digest()
	h.handlers.describe(st)
	return st
}

// specFor returns how to start or connect to a handler's replacement. The other parameters come from the configuration
// of the present handler.
func (h *host) specFor(req *supervisorv1.SwapHandlerRequest) (launch.Spec, error) {
	name := req.GetName()
	configured := h.config.GetHandlers()[name]
	entry := cmp.Or(proto.CloneOf(configured), &configv1.Handler{})
	entry.Command, entry.Address, entry.Sha256, entry.NoTls = req.GetCommand(), req.GetAddress(), req.GetSha256(), req.GetNoTls()
	entry.AgentMayCall = entry.GetAgentMayCall() || req.GetAgentMayCall()
	if req.Uid != nil {
		entry.Uid = req.Uid
	}
	switch {
	case entry.GetAddress() == "":
		entry.Tls, entry.Uid, entry.SecretFile = nil, nil, ""
	case req.GetSecretFile() != "":
		entry.Tls, entry.SecretFile = nil, req.GetSecretFile()
		fallthrough
	default:
		entry.Env = nil
	}
	kind := config.Kind(name)
	fixed := h.isOf(route.KindFS, name) || h.isOf(route.KindTerminal, name) || h.handlers.maps[name] != nil
	if fixed && (configured.GetAddress() == "") != (entry.GetAddress() == "") {
		// At the start it is determined whether files and terminals are local, shared with other supervisors, or mapped
		// to other paths.
		return launch.Spec{}, fmt.Errorf("a program cannot take the place of a sidecar here, nor a sidecar that of a program: change handlers.%s in the configuration and start acphost again", name)
	}
	if cmd := req.GetCommand(); len(cmd) > 0 && !filepath.IsAbs(cmd[0]) && cmd[0] != ownProgram(kind) {
		return launch.Spec{}, fmt.Errorf("%q is neither an absolute path nor acphost's own program for it%s", cmd[0], orOwn(kind))
	}
	if err := cmp.Or(config.Exposed(name, entry, h.config.GetAgent()), config.Discloses(name, entry, h.config.GetAgent())); err != nil {
		return launch.Spec{}, err
	}
	return specOf(name, entry, h.opts, h.user)
}

// keepsAdministrator returns an error if the swap would replace the only permd, which enforces the administrator's
// policy.
func (h *host) keepsAdministrator(req *supervisorv1.SwapHandlerRequest, policy string) error {
	if config.Kind(req.GetName()) != route.KindPermission || isProgram(ownProgram(route.KindPermission), req.GetCommand()) || !isThere(policy) {
		return nil
	}
	for name, handler := range h.handlers.all() {
		command := handler.Status().GetCommand()
		if name != req.GetName() && config.Kind(name) == route.KindPermission && isProgram(ownProgram(route.KindPermission), command) {
			return nil
		}
	}
	return fmt.Errorf("permd has the administrator's policy %s, which another program would not know: configure both (permission: [YOURS, permd])", policy)
}

// settingsFor returns the configuration of a handler's replacement. before is that of the configured handler. Settings
// belong to a program: acphost's own program gets its own settings, the configured program also gets those of the
// configuration, and any other program gets only those of the request.
func (h *host) settingsFor(req *supervisorv1.SwapHandlerRequest, before *pluginv1.ConfigureRequest) *pluginv1.ConfigureRequest {
	conf := cmp.Or(proto.CloneOf(before), &pluginv1.ConfigureRequest{})
	own, configured := ownProgram(config.Kind(req.GetName())), h.config.GetHandlers()[req.GetName()]
	was, is := isProgram(own, configured.GetCommand()), isProgram(own, req.GetCommand())
	switch {
	case req.GetSettings() != nil:
		conf.Settings = proto.CloneOf(req.GetSettings())
	case is && !was:
		conf.Settings = h.ownSettings(req.GetName())
	case is && was: // perhaps another build of the same program
	case req.GetAddress() == "" && !slices.Equal(req.GetCommand()[:1], first(configured.GetCommand())), req.GetAddress() != configured.GetAddress():
		conf.Settings = nil
	}
	return conf
}

// first returns the program of a command; empty if there is no command.
func first(command []string) []string { return command[:min(1, len(command))] }

// ownSettings returns the settings of acphost's own program if another program is configured: for permd, the rule files
// that it finds by default.
func (h *host) ownSettings(name string) *structpb.Struct {
	if config.Kind(name) != route.KindPermission {
		return nil
	}
	c := *h.opts.Config
	c.Proto = proto.CloneOf(c.Proto)
	delete(c.Proto.Handlers, route.KindPermission)
	if p := c.Proto.GetPermission(); p != nil {
		p.Command, p.Address, p.Chain = nil, "", nil
	}
	permd := c.Permd()
	settings := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	permd.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		settings.Fields[fd.TextName()] = structpb.NewStringValue(v.String())
		return true
	})
	return settings
}

var ownPrograms = map[string]string{
	route.KindFS: ownhandler.FS, route.KindTerminal: ownhandler.Terminal, route.KindPermission: ownhandler.Permission,
}

// ownProgram returns the name of acphost's own program of a kind, or "".
func ownProgram(kind string) string { return ownPrograms[kind] }

func isProgram(name string, command []string) bool {
	return name != "" && len(command) > 0 && filepath.Base(command[0]) == name
}

func orOwn(kind string) string {
	if own := ownProgram(kind); own != "" {
		return " (" + own + ")"
	}
	return ""
}

// checkTerminals returns a function that rejects the end of a handler with open terminals, because these would end,
// too.
func (h *host) checkTerminals(name string, force bool) func(context.Context) error {
	return func(ctx context.Context) error {
		if force || !h.isOf(route.KindTerminal, name) {
			return nil
		}
		held, err := h.terminalsOf(ctx, name)
		switch {
		case status.Code(err) == codes.Unavailable || errors.As(err, new(*supervise.Unavailable)):
			return nil // not running, so it has no terminals
		case err != nil:
			return fmt.Errorf("whether it holds terminals is not known (%w): use force to end them with it", err)
		case len(held) > 0:
			return fmt.Errorf("it holds terminals (%d), which would end with it: wait for them, or use force", len(held))
		}
		return nil
	}
}

// serves returns an error if a handler does not serve the methods that are routed to its name, or claims methods of
// another kind.
func serves(claim route.Claim, configured map[string]string, table *route.Table) error {
	mine := map[string]string{} // routed to it for every folder
	for name, target := range configured {
		if method, _ := route.SplitFolder(name); target == claim.Handler {
			mine[method] = target
		}
	}
	offers, err := route.Build([]route.Claim{claim}, mine)
	if err != nil {
		return err
	}
	var missing []string
	for _, r := range table.Routes() {
		if r.Target != route.Handler || r.Handler != claim.Handler || r.Method == nil {
			continue
		}
		offer := offers.Lookup([]byte(r.Name))
		switch {
		case offer == nil || offer.Target != route.Handler || offer.Method == nil:
			missing = append(missing, r.Name)
		case !sameRPC(r.Method, offer.Method):
			return fmt.Errorf("it answers %s by another RPC or with other messages than the routes were made for (%s): start acphost again to route by them",
				r.Name, r.Method.RPC)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("it does not answer what is routed to it: %s", strings.Join(missing, ", "))
	}
	return nil
}

// sameRPC reports whether two methods have the same name and compatible messages, so that a call for one can go to the
// other.
func sameRPC(a, b *transcode.Method) bool {
	return a.RPC == b.RPC && sameShape(a.Input, b.Input, map[protoreflect.FullName]bool{}) &&
		sameShape(a.Output, b.Output, map[protoreflect.FullName]bool{})
}

// sameShape compares two messages and all messages that they refer to. seen holds those that were compared already.
func sameShape(a, b protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
	if a == b || seen[a.FullName()] {
		return true
	}
	if a.FullName() != b.FullName() || !proto.Equal(protodesc.ToDescriptorProto(a), protodesc.ToDescriptorProto(b)) {
		return false
	}
	seen[a.FullName()] = true
	for i := range a.Fields().Len() { // b has as many; names and numbers must match
		x, y := a.Fields().Get(i), b.Fields().Get(i)
		if x.Message() != nil && !sameShape(x.Message(), y.Message(), seen) {
			return false
		}
		if x.Enum() != nil && !proto.Equal(protodesc.ToEnumDescriptorProto(x.Enum()), protodesc.ToEnumDescriptorProto(y.Enum())) {
			return false
		}
	}
	return true
}
