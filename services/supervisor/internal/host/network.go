package host

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/reason"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/containment"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/egress"
)

// closedBy maps the network setting to the reason why the processes of an agent cannot connect to other machines
// directly.
var closedBy = map[string]string{
	config.NetworkProxy: reason.NoDirectNetwork.String(),
	config.NetworkNone:  reason.NoNetwork.String(),
}

// agentProxy is the proxy of one agent. All methods of a nil agentProxy do nothing.
type agentProxy struct {
	proxy *egress.Proxy
	done  chan struct{} // closed when the proxy has ended; nil: the agent has not started
}

// openProxy starts the agent's proxy, if one is configured, and sets the agent's environment variables for it.
func (la *linkedAgent) openProxy(s *agent.Spec) error {
	h := la.host
	network := h.opts.Config.Network()
	la.sandbox.Network = network
	if network != config.NetworkProxy {
		return nil
	}
	proxy := containment.Proxy{Observe: h.opts.Config.Sandbox() == config.SandboxObserve}
	if h.opts.Machines != nil {
		proxy.Machines = h.opts.Machines(la.identity.Name)
	}
	la.decider.SetProxy(proxy)
	p, err := egress.Start(egress.Options{Decide: la.decider.Reaches, Upstream: egress.UpstreamFromEnvironment(), Logger: h.log.With("agent", la.identity.Name)})
	if err != nil {
		return err
	}
	la.agentProxy = &agentProxy{proxy: p}
	if s.Env == nil {
		s.Env = s.User.Environ(os.Environ())
	}
	s.Env = replaced(s.Env, p.Env())
	return nil
}

// replaced returns an environment with other values for some variables. It replaces the first entry of a name, which
// programs use.
func replaced(env, values []string) []string {
	is := func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.ContainsFunc(values, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	}
	return append(slices.DeleteFunc(slices.Clone(env), is), values...)
}

func (w *agentProxy) address() string {
	if w == nil {
		return ""
	}
	return w.proxy.Address().String()
}

func (w *agentProxy) port() uint16 {
	if w == nil {
		return 0
	}
	return w.proxy.Address().Port()
}

// env returns the environment variables that configure programs to use the proxy.
func (w *agentProxy) env() []string {
	if w == nil {
		return nil
	}
	return w.proxy.Env()
}

func (w *agentProxy) close() {
	if w != nil {
		_ = w.proxy.Close()
	}
}

// until closes the proxy once done is closed: the agent has ended.
func (w *agentProxy) until(done <-chan struct{}) {
	if w == nil {
		return
	}
	w.done = make(chan struct{})
	go func() {
		defer close(w.done)
		defer panics.Recover(nil, "closing an agent's proxy")
		<-done
		w.close()
	}()
}

// wait waits until the proxy has ended, or ctx ends.
func (w *agentProxy) wait(ctx context.Context) {
	if w == nil {
		return
	}
	select {
	case <-w.done:
	case <-ctx.Done():
	}
}
