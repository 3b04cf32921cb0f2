package doctor

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/certs"
	"github.com/acphost/acphost/internal/users"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/host"
	"github.com/acphost/acphost/services/supervisor/internal/policy/secret"
)

const todoUnconfined = "correct its settings, or have a handler run commands that can: acphost's own termd, on Linux on amd64 or arm64"

// within returns a context with a timeout, and with a cause for users.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
}

// todoFailed returns what to do about a handler that cannot be used.
func todoFailed(sidecar bool, err error) string {
	switch text := err.Error(); { // gRPC keeps only the text of crypto/tls's errors
	case strings.Contains(text, "certificate has expired"), strings.Contains(text, "expired certificate"):
		return certs.RenewHint
	case sidecar:
		return "start the sidecar, or correct its address and keys in the configuration"
	}
	return "run it by itself to see more, or leave it out of the configuration"
}

// handlers starts and stops every handler.
func (d *doctor) handlers(ctx context.Context, c *config.Config) {
	in := d.in(Handlers)
	ctx, cancel := within(ctx, handlersTimeout)
	defer cancel()
	checked, routes := host.CheckHandlers(ctx, host.Options{Config: c, Programs: d.Programs, Version: d.Version, Logger: d.Logger}, d.Env)
	for _, h := range checked {
		s := h.Status
		where := s.GetAddress()
		if where == "" {
			where = strings.Join(secret.RedactedArgv(s.GetCommand()), " ")
		}
		if h.Err != nil {
			in.problem(s.GetName(), where+": "+h.Err.Error(), todoFailed(s.GetAddress() != "", h.Err))
			continue
		}
		switch entry := c.Effective().GetHandlers()[s.GetName()]; {
		case strings.HasPrefix(s.GetAddress(), "unix:") && s.GetUser() != "":
			where += ", which user " + s.GetUser() + " serves, as it has to be: the kernel says so"
		case strings.HasPrefix(s.GetAddress(), "unix:"):
			where += ", whose user counts for nothing, as its certificate does"
		case s.GetUser() != "" && s.GetUser() != users.Self():
			where += ", as user " + s.GetUser()
		case entry.GetAddress() != "":
			where += ", known by its certificate"
		}
		in.ok(s.GetName(), strings.Join(append([]string{s.GetDescription() + ", " + where}, s.GetNotes()...), "\n"))
		switch entry := c.Effective().GetHandlers()[s.GetName()]; {
		case entry.GetNoTls():
			in.warn(s.GetName(), "its connection is not protected by mutual TLS: other programs of yours can call it",
				"leave no_tls out, if the handler can do TLS")
		case entry.GetAgentMayCall():
			in.warn(s.GetName(), "agents may call it by themselves, past the policy: agent_may_call says so",
				"leave agent_may_call out where agents run as another user (agent.user)")
		}
	}
	for _, h := range checked {
		switch {
		case h.Unconfined == "":
		case c.Proto.GetSandbox().GetRequire():
			in.problem(h.Status.GetName(), "it cannot run commands in the sandbox, so no agent is started (sandbox.require): "+h.Unconfined, todoUnconfined)
		default:
			in.warn(h.Status.GetName(), "what commands do by themselves is not decided: it cannot run them in the sandbox: "+h.Unconfined, todoUnconfined)
		}
		d.paths(h)
	}
	if routes != nil && len(checked) == 0 {
		in.problem("handlers", routes.Error(), "correct it in the configuration")
	} else if routes != nil {
		in.problem("routes", routes.Error(), "correct \"routes\" in the configuration, or the handler that declares the method")
	}
}

// paths checks whether a sidecar has the folders of its path mapping.
func (d *doctor) paths(h host.HandlerCheck) {
	in, name := d.in(Handlers), h.Status.GetName()
	there := map[string]string{}
	var maps []string
	for _, m := range h.Status.GetPaths() {
		there[m.GetHere()] = m.GetThere()
		maps = append(maps, m.GetHere()+" is "+m.GetThere()+" there")
	}
	detail := strings.Join(maps, "\n")
	switch {
	case len(maps) == 0 || h.Err != nil:
		return
	case h.Silent:
		in.warn(name, detail+"\nit cannot say whether it has these folders (CheckFolders)", "see that they are mounted there")
	case h.Unasked != nil:
		in.problem(name, detail+"\nwhether it has these folders cannot be asked: "+h.Unasked.Error(), "correct handlers."+name+".paths")
	case len(h.Missing) == 0:
		in.ok(name, detail)
	}
	for _, m := range h.Missing {
		if host.FolderDenied(m) {
			in.problem(name, fmt.Sprintf("%s is to be %s there, and that cannot be read: %s", m.GetPath(), there[m.GetPath()], m.GetReason()),
				"let the user that the sidecar runs as read and enter the folder and those above it")
			continue
		}
		in.problem(name, fmt.Sprintf("%s is to be %s there, but that is missing: %s", m.GetPath(), there[m.GetPath()], m.GetReason()),
			"mount the folder in the sidecar, or correct handlers."+name+".paths")
	}
	for _, m := range h.Status.GetPaths() {
		if info, err := os.Stat(m.GetHere()); err != nil || !info.IsDir() {
			in.warn(name, m.GetHere()+" is no folder that can be seen from here: sessions can be opened in it all the same, but files that a policy has commands leave out cannot be looked for",
				"correct handlers."+name+".paths, if that is not meant")
		}
	}
}
