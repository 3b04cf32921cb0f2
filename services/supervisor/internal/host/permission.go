package host

import (
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/policy/audit"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/grant"
)

// openGate opens the stores of grants and decisions, and the gate that uses them. A policy requires a record: without
// one, openGate returns an error with the reason.
func (h *host) openGate(protected []string) error {
	perm := h.config.GetPermission()
	if err := h.administered(config.DefaultAdminPolicy); err != nil {
		return err
	}
	policies := h.policies()
	enforced := len(policies) > 0 && h.opts.Config.PolicySet()
	workspace := ""
	if perm.GetWorkspacePolicy() != "ignore" {
		workspace = config.WorkspacePolicy
	}
	var err error
	if len(policies) > 0 && !perm.GetGrants().GetDisabled() {
		h.grants, err = grant.Open(grant.Options{File: perm.GetGrants().GetFile(), Days: int(perm.GetGrants().GetDays()), Logger: h.log})
		if err != nil {
			return fmt.Errorf("remembered answers (permission.grants): %w", err)
		}
	}
	if len(policies) > 0 && !perm.GetAudit().GetDisabled() {
		a := perm.GetAudit()
		o := audit.Options{File: a.GetFile(), MaxBytes: int64(a.GetMaxBytes()), Keep: int(a.GetKeep()), Syslog: a.GetSyslog(), Logger: h.log}
		o.Failing = func(err error) { h.unrecorded(RecordDecisions, err) }
		if a.GetStderr() && h.opts.Stderr != nil {
			o.Stderr = h.opts.Stderr
		}
		if o.File == "" {
			err = errNoRecord
		} else {
			h.audit, err = audit.Open(o)
		}
		if err != nil {
			if enforced && a.GetOnFailure() != "allow" {
				if !errors.Is(err, errNoRecord) { // it was reported with another error
					err = fmt.Errorf("%w: name a file that can be written by permission.audit.file, or another state folder by XDG_STATE_HOME; "+
						"\"acphost doctor\" looks at the folders", err)
				}
				return fmt.Errorf("the record of decisions (permission.audit): %w", err)
			}
			h.log.Warn("decisions are not recorded", "error", err)
			if !errors.Is(err, errNoRecord) { // otherwise no folder is configured for it
				h.unrecorded(RecordDecisions, err)
			}
		}
	}
	var decided func(*supervisorv1.AuditRecord)
	if h.telemetry != nil {
		decided = h.telemetry.Decided
	}
	h.gate = gate.New(gate.Options{
		Decided:         decided,
		Chain:           policies,
		Enforced:        enforced,
		WorkspacePolicy: workspace,
		Methods:         perm.GetGate(),
		Protected:       protected,
		Grants:          h.grants,
		Audit:           h.audit,
		AuditOptional:   perm.GetAudit().GetOnFailure() == "allow",
		Denied:          h.opts.Denied,
		Changed:         h.generation.Changed,
		PID:             os.Getpid(),
		Logger:          h.log,
	})
	for _, file := range h.opts.Config.KeyFiles() { // these files are also recognized by inode
		if _, err := h.gate.Protect(file); err != nil && !errors.Is(err, gate.ErrFolder) {
			return err
		}
	}
	return nil
}

// errNoRecord means that decisions cannot be recorded because no folder for the record is known.
var errNoRecord = errors.New("a policy decides, and its decisions are recorded, but there is no folder for the record, since neither XDG_STATE_HOME nor HOME is set: " +
	"name a file by permission.audit.file, or set permission.audit.disabled to record nothing")

// administered returns an error if the administrator's policy exists and would not be enforced. A user who can write
// acphost's configuration usually cannot write that file, and must not bypass it unnoticed.
func (h *host) administered(policy string) error {
	if h.opts.Mode == ModeObserve || !isThere(policy) {
		return nil
	}
	permd := h.opts.Config.Permd()
	switch {
	case h.handlers.permissionAtClient():
		return fmt.Errorf("--permission=front would turn off the administrator's policy %s: run without it", policy)
	case permd == nil:
		return fmt.Errorf("another policy is configured in place of permd, and the administrator's %s would not count: ask both (permission: [YOURS, permd])", policy)
	case permd.GetAdminPolicy() != policy:
		return fmt.Errorf("permission.admin_policy names %q, and the administrator's %s would not count: leave it out", permd.GetAdminPolicy(), policy)
	}
	return nil
}

func isThere(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func (h *host) closeGate() {
	if h.gate != nil {
		h.gate.Close()
	}
	if h.grants != nil {
		if err := h.grants.Close(); err != nil {
			h.log.Warn("close the remembered answers", "error", err)
		}
	}
	if h.audit != nil {
		if err := h.audit.Close(); err != nil {
			h.log.Warn("close the record of decisions", "error", err)
		}
	}
}

// policies returns the permission handlers, in the order of the chain. It returns none if permission requests are
// routed to the client.
func (h *host) policies() []gate.Policy {
	if h.opts.Mode == ModeObserve || h.handlers.permissionAtClient() {
		return nil
	}
	var chain []gate.Policy
	h.policyFiles = map[string]*policyFiles{}
	for name, handler := range h.handlers.all() {
		if config.Kind(name) != route.KindPermission {
			continue
		}
		files := newPolicyFiles(handler)
		h.policyFiles[name] = files
		chain = append(chain, gate.Policy{
			Name:    name,
			Conn:    func() (grpc.ClientConnInterface, error) { return handler.Conn() },
			Timeout: time.Duration(h.config.GetHandlers()[name].GetDecideTimeoutMs()) * time.Millisecond,
			Plugin:  func() string { return handler.Status().GetDescription() },
			Doubt:   files.distrustReason,
		})
	}
	return chain
}
