package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/acphost/acphost/internal/certs"
	"github.com/acphost/acphost/internal/ownfile"
	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/users"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
)

// CheckExposed returns an error for every handler that an agent could call without the policy, unless the configuration
// allows that: its secret or its key is a file that the agent's user can read, or it has neither. The error joins one
// *yamlproto.Error for each problem. Handlers that acphost starts are excluded, because acphost creates their keys.
func (c *Config) CheckExposed() error {
	v := checker{doc: c.doc}
	look := func(at path, name string, h *configv1.Handler) {
		if field, err := exposed(name, h, c.Proto.GetAgent()); err != nil {
			v.problem(at+path("."+field), "%v", err)
		}
	}
	effective := c.Effective().GetHandlers()
	for _, name := range slices.Sorted(maps.Keys(effective)) {
		if err := Discloses(name, effective[name], c.Proto.GetAgent()); err != nil {
			v.problem("agent.unreadable", "%v", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Proto.GetHandlers())) {
		look(path("handlers").to(name), name, c.Proto.GetHandlers()[name])
	}
	for i, h := range c.Proto.GetPermission().GetChain() {
		look(path("permission.chain").to(i), route.KindPermission, h)
	}
	return v.err()
}

// Exposed returns an error if agents could call a handler by themselves, unless the handler's configuration allows
// that.
func Exposed(name string, h *configv1.Handler, agents *configv1.Agent) error {
	_, err := exposed(name, h, agents)
	return err
}

// Discloses returns an error if a handler could give agents the content of files that they must not read: acphost
// starts it without the confinement that closes those files, and it acts for agents.
func Discloses(name string, h *configv1.Handler, agents *configv1.Agent) error {
	if len(agents.GetUnreadable()) == 0 || h.GetAddress() != "" || Kind(name) == route.KindPermission {
		return nil
	}
	return fmt.Errorf("the handler %s, which acphost starts, could be asked for these files: make it a sidecar (handlers.%s.address) "+
		"that does not have them, or run agents as another user (agent.user) in place of this", name, name)
}

func exposed(name string, h *configv1.Handler, agents *configv1.Agent) (field string, err error) {
	agentUser := agents.GetUser()
	if h.GetAgentMayCall() || h.GetAddress() == "" && !h.GetNoTls() {
		return "", nil
	}
	const meant = "say agent_may_call: true if an agent may call this handler by itself, past the policy"
	if h.GetNoTls() {
		return "no_tls", fmt.Errorf("without TLS, agents of the user that the handler runs as can call it; let it do TLS, or %s", meant)
	}
	who, err := readerOf(agentUser)
	if err != nil {
		return "address", fmt.Errorf("whether the agent could call the sidecar by itself cannot be told: agent.user: %w", err)
	}
	file, field, theirs := h.GetTls().GetKey(), "tls.key", "key"
	if h.GetSecretFile() != "" {
		file, field, theirs = h.GetSecretFile(), "secret_file", "secret"
	}
	if file == "" {
		return "address", fmt.Errorf("the sidecar demands neither a certificate nor a secret, so that an agent could call it by itself: "+
			"give it mutual TLS (tls) or a secret (secret_file), or %s", meant)
	}
	if why := who.reads(file); why != "" && !closedToAgents(agents, file) {
		return field, fmt.Errorf("an agent could read this %s, %s, and call the sidecar by itself: %s; %s, or %s", theirs, file, why, who.remedy(file), meant)
	}
	if h.GetSecretFile() != "" && sidecarUID(name, h, agentUser != "", who) == who.uid {
		return field, fmt.Errorf("agents run as user %d, and so does the sidecar, so that an agent could read the sidecar's copy of this secret and call it by itself: use mutual TLS, where the sidecar has no key to call with, or %s", who.uid, meant)
	}
	return "", nil
}

// CheckListen returns an error if agents could read keys of callers beside the server's own, unless the configuration
// allows that. Over TCP only the certificate counts, so agents could answer their own questions.
func (c *Config) CheckListen() error {
	a := c.Proto.GetAdmin()
	if a.GetListen() == "" || a.GetAgentsMayUseKeys() {
		return nil
	}
	files := certs.Files{CA: a.GetTls().GetCa(), Cert: a.GetTls().GetCert(), Key: a.GetTls().GetKey()}
	keys := certs.CallerKeys(files)
	if len(keys) == 0 {
		return nil
	}
	who, err := readerOf(c.Proto.GetAgent().GetUser())
	if err != nil {
		return fmt.Errorf("serve at %s: whether agents could take callers' keys cannot be told: agent.user: %w", a.GetListen(), err)
	}
	for _, key := range keys {
		if why := who.reads(key); why != "" && !closedToAgents(c.Proto.GetAgent(), key) {
			return fmt.Errorf("serve at %s: an agent could read %s and call with it, which is all that counts over TCP: %s; "+
				"move it to where its owner is (a server needs ca.crt, server.crt and server.key alone, which \"acphost certs init\" "+
				"puts into a folder of their own, to be taken elsewhere), or run agents as another user (agent.user), or, on a machine "+
				"for tests, accept it with admin.agents_may_use_keys or --agents-may-use-keys", a.GetListen(), key, why)
		}
	}
	return nil
}

// sidecarUID returns the user that a sidecar on a unix socket must run as: if agent.user is set, that user, unless the
// sidecar is a policy.
func sidecarUID(name string, h *configv1.Handler, agentUser bool, agent reader) uint32 {
	switch {
	case h.Uid != nil:
		return h.GetUid()
	case agentUser && Kind(name) != route.KindPermission:
		return agent.uid
	}
	return uint32(os.Geteuid())
}

// closedToAgents reports whether the confinement of agents closes a file, independent of their user.
func closedToAgents(agents *configv1.Agent, file string) bool {
	real := paths.Real(filepath.Clean(file))
	return slices.ContainsFunc(agents.GetUnreadable(), func(dir string) bool { return paths.Below(paths.Real(dir), real) })
}

// reader is the user that agents run as, with the attributes that file permissions depend on.
type reader struct {
	uid    uint32
	groups []uint32
}

// readerOf looks up a user by name or number. An empty name means the user of this process.
func readerOf(name string) (reader, error) {
	if name == "" {
		return reader{uid: uint32(os.Geteuid())}, nil
	}
	u, err := users.Find(name)
	if err != nil {
		return reader{}, err
	}
	return reader{uid: u.UID, groups: append(slices.Clone(u.Groups), u.GID)}, nil
}

// reads returns the reason why a process of the user can read a file that this process can read, or "". It does not
// check the parent folders, because their permissions may change. It assumes that only this user can read a missing
// file.
func (r reader) reads(file string) string {
	info, err := os.Stat(file)
	switch {
	case r.uid == 0 && os.Geteuid() != 0:
		return "it runs as root"
	case r.uid == uint32(os.Geteuid()):
		if err == nil && ownedByOther(info) && unreadable(file) {
			return ""
		}
		return fmt.Sprintf("it runs as the same user as acphost (%d)", r.uid)
	case err != nil:
		return ""
	}
	mode := info.Mode().Perm()
	owner, group, known := ownfile.Owner(info)
	switch {
	case !known:
		return "whose file it is cannot be told"
	case owner == int(r.uid):
		return fmt.Sprintf("%s belongs to user %d, as whom it runs", file, r.uid)
	case mode&0o004 != 0:
		return fmt.Sprintf("%s is open to everybody (mode %04o)", file, mode)
	case mode&0o040 != 0 && slices.Contains(r.groups, uint32(group)):
		return fmt.Sprintf("%s is open to the group %d, which user %d is in", file, group, r.uid)
	}
	return ""
}

// ownedByOther reports whether a file belongs to another user, so that this user cannot change its mode.
func ownedByOther(info fs.FileInfo) bool {
	owner, _, known := ownfile.Owner(info)
	return known && owner != os.Geteuid()
}

// unreadable reports whether this process may not open a file.
func unreadable(file string) bool {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err == nil {
		_ = f.Close()
	}
	return errors.Is(err, fs.ErrPermission)
}

// remedy says how to make a file unreadable for the user.
func (r reader) remedy(file string) string {
	if r.uid == uint32(os.Geteuid()) || r.uid == 0 {
		return "run agents as another user (agent.user, which takes root), or close the file to them (agent.unreadable)"
	}
	return "give the file to acphost's user and close it: chmod 0600 " + file
}
