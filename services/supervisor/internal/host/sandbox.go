package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/sandbox"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/launch"
	"github.com/acphost/acphost/services/supervisor/internal/acp/transcode"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/containment"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/kernel"
)

// The states of the sandbox in its status.
const (
	standsFull     = "full"
	standsLandlock = "landlock"
	standsNone     = "none"
	// proxyVariables means that the agent has a proxy, but can connect without it.
	proxyVariables = "variables"
)

// policyTimeout is how long the start of an agent in a sandbox waits for the policy.
const policyTimeout = launch.ChildTimeout + 5*time.Second

// start starts the agent in the configured sandbox. If this system supports none, the agent starts without it, unless
// the sandbox is required.
func (la *linkedAgent) start(s agent.Spec) (err error) {
	mode := la.host.opts.Config.Sandbox()
	la.sandbox = &supervisorv1.SandboxStatus{Mode: mode}
	if mode == config.SandboxOff {
		la.Process, err = agent.Start(s)
		return err
	}
	if err := la.openProxy(&s); err != nil {
		return err
	}
	if err := la.openTempDir(&s); err != nil {
		la.agentProxy.close()
		return err
	}
	if err = la.startConfined(s); err != nil {
		la.agentProxy.close()
		la.tempDir.remove()
		la.group.remove()
		return err
	}
	la.group.until(la.Process.Done())
	la.agentProxy.until(la.Process.Done())
	la.tempDir.until(la.Process.Done())
	la.noteSandbox()
	return nil
}

// enforced are the variables of all processes whose actions the sandbox decides.
var enforced = []string{git.SandboxVariable + "=1"}

// startConfined starts the agent in the sandbox.
func (la *linkedAgent) startConfined(s agent.Spec) (err error) {
	cfg, mode := la.host.config.GetSandbox(), la.host.opts.Config.Sandbox()
	closed := closedBy[la.host.opts.Config.Network()]
	own := make([]string, len(cfg.GetOwn()))
	for i, file := range cfg.GetOwn() {
		own[i] = paths.Real(file)
	}
	var files kernel.Files
	if la.host.opts.Files != nil {
		files = la.host.opts.Files(la.identity.Name)
	}
	mine := kernel.NewOwn(files.State, s.Env).With(la.tempDir.folder)
	env := append(la.agentProxy.env(), "TMPDIR="+la.tempDir.folder, "TMUX_TMPDIR="+la.tempDir.folder)
	if mode == config.SandboxEnforce {
		env = append(env, enforced...)
		switch folder, caches, err := la.openCaches(&s, files.CacheVariables()); {
		case err != nil:
			la.host.log.Warn("the agent's commands use the user's caches, and are refused what they write there", "agent", s.Name, "error", err)
		case folder != "":
			mine, env = mine.With(folder), append(env, caches...)
		}
	}
	// The policy must be ready when the agent's processes begin to ask. Until then they are denied.
	ctx, cancel := context.WithTimeout(context.Background(), policyTimeout)
	_, _ = la.host.handlers.ready(ctx)
	k := &containment.Sandbox{Own: own, Mine: mine, Closed: closed, Env: env, Require: cfg.GetRequire(), How: sandbox.Confinement{
		Observe: mode == config.SandboxObserve, Reads: la.host.opts.Config.Reads(), Closed: closed != "", Proxy: la.agentProxy.address(),
	}}
	terminals, terminalsWhy := la.host.handlers.confine(ctx, k)
	k.Terminals = terminals == standsFull
	cancel()
	if mode == config.SandboxEnforce {
		if err := la.limit(&s, k); err != nil {
			return err
		}
	}
	if k.Require && terminals == standsNone {
		return agent.Exit{Name: s.Name, Reason: agent.StartFailed, Code: 126, Detail: "sandbox.require is set, and not all commands of terminals can be confined: " +
			terminalsWhy + ": have another handler run them, or leave out sandbox.require"}
	}
	confined := s
	if mode == config.SandboxEnforce {
		confined.Env = replaced(s.Env, enforced)
	}
	confined.Sandbox = &agent.Sandbox{Confinement: k.How, Judge: la.decider, Generation: la.host.generation}
	la.Process, err = agent.Start(confined)
	switch {
	case err == nil:
		la.decider.SetSandbox(k)
		la.sandbox.Stands, la.sandbox.Terminals, la.sandbox.TerminalsWhy = standsFull, terminals, terminalsWhy
		if terminalsWhy != "" {
			la.host.log.Warn("the commands of terminals run without the sandbox: what they do by themselves is not decided", "agent", s.Name, "why", terminalsWhy)
		}
		if closed != "" {
			la.sandbox.NetworkStands = standsFull
		}
		return nil
	case !errors.Is(err, agent.ErrNoSandbox):
		return err
	case cfg.GetRequire():
		return agent.Exit{Name: s.Name, Reason: agent.StartFailed, Code: 126, Detail: fmt.Sprintf(
			"sandbox.require is set, and %v: use a system that can confine it, or leave out sandbox.require", err)}
	}
	if s.Group == "" && la.sandbox.Limits != "" {
		la.sandbox.Limits = limitsNone
	}
	why := strings.TrimSpace(err.Error())
	s.Confinement.OnePort, s.Confinement.Port = closed != "" && mode == config.SandboxEnforce, la.agentProxy.port()
	if la.Process, err = agent.Start(s); err != nil {
		return err
	}
	la.sandbox.Stands, la.sandbox.Why = standsNone, why
	if la.Restrictions().Landlock {
		la.sandbox.Stands = standsLandlock
	}
	switch {
	case la.Restrictions().OnePort:
		la.sandbox.NetworkStands = standsLandlock
	case la.agentProxy != nil:
		la.sandbox.NetworkStands = proxyVariables
	case closed != "":
		la.sandbox.NetworkStands = standsNone
	}
	la.host.log.Warn("the agent runs without the sandbox: what it does by itself is not decided", "agent", s.Name, "why", why)
	return nil
}

// confine asks the handlers that run commands whether they can use a sandbox. It returns the state of the sandbox, and
// the reason if it is limited. The state is "" if no handler runs commands.
func (hs *handlers) confine(ctx context.Context, k *containment.Sandbox) (stands, why string) {
	for _, name := range route.Answering(hs.routes, route.KindTerminal) {
		if hs.byName[name] == nil {
			continue
		}
		if why := hs.unconfined(ctx, name, k); why != "" {
			return standsNone, fmt.Sprintf("handler %s: %s", name, why)
		}
		stands = standsFull
	}
	return stands, ""
}

// unconfined returns the reason why a handler cannot run commands in a sandbox, or "".
func (hs *handlers) unconfined(ctx context.Context, name string, k *containment.Sandbox) string {
	conn, err := hs.conn(name)
	why := ""
	if err == nil {
		why, err = k.Confines(ctx, conn)
	}
	if err != nil {
		return transcode.ErrorFrom(err, name).Message
	}
	return why
}

// noteSandbox records the state of the sandbox in the audit log.
func (la *linkedAgent) noteSandbox() {
	la.note(sandboxNote(la.identity.Name, la.sandbox))
}

// note records a note in the audit log, if there is one.
func (la *linkedAgent) note(text string) {
	if la.host.audit == nil {
		return
	}
	if err := la.host.audit.Write(&supervisorv1.AuditRecord{Note: text}); err != nil {
		la.host.log.Warn("a note was not written to the audit log", "note", text, "error", err)
	}
}

// sandboxNote describes the state of an agent's sandbox.
func sandboxNote(agent string, s *supervisorv1.SandboxStatus) string {
	note := fmt.Sprintf("agent %q runs in the sandbox (%s)", agent, s.GetMode())
	if s.GetStands() != standsFull {
		note = fmt.Sprintf("agent %q runs without the sandbox, and what it does by itself is not decided (%s, %s: %s)", agent, s.GetMode(), s.GetStands(), s.GetWhy())
	}
	switch s.GetTerminals() {
	case standsFull:
		note += ", and so do commands in terminals"
	case standsNone:
		note += ", and commands in terminals run without it: " + s.GetTerminalsWhy()
	}
	switch s.GetLimits() {
	case limitsGroup:
		note += "; a control group limits its processes"
	case limitsCount:
		note += "; acphost counts its processes: " + s.GetLimitsWhy()
	case limitsNone:
		note += "; its processes are not limited: " + s.GetLimitsWhy()
	}
	if stands := s.GetNetworkStands(); stands != "" {
		note += fmt.Sprintf("; network %s, %s: %s", s.GetNetwork(), stands, networkWords[stands])
	}
	return note
}

// networkWords describes the state of a restricted network.
var networkWords = map[string]string{
	standsFull:     "nothing leads past it without a decision, or a record",
	standsLandlock: "TCP goes nowhere else, and other sockets are as they were",
	proxyVariables: "programs are told of the proxy, and may go past it",
	standsNone:     "nothing keeps the agent from the network",
}
