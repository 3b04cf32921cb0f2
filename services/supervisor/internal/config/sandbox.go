package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
)

// The modes of the sandbox.
const (
	SandboxOff     = "off"
	SandboxObserve = "observe"
	SandboxEnforce = "enforce"
)

// The networks of an agent's processes.
const (
	NetworkOpen  = "open"
	NetworkProxy = "proxy"
	NetworkNone  = "none"
)

// The smallest limits of an agent. Most agents do not start with less.
const (
	minMaxProcesses = 16
	minMaxMemory    = 16 << 20
)

// Networks returns the values of sandbox.network.
func Networks() []string { return []string{NetworkOpen, NetworkProxy, NetworkNone} }

// SandboxModes returns the values of sandbox.mode.
func SandboxModes() []string { return []string{SandboxOff, SandboxObserve, SandboxEnforce} }

// sandbox checks the settings of the sandbox.
func (v *checker) sandbox(c *configv1.Config) {
	s, at := c.GetSandbox(), path("sandbox")
	v.oneOf(at.to("mode"), s.GetMode(), SandboxModes()...)
	for i, file := range s.GetOwn() {
		p := at.to("own", i)
		switch full, err := v.expand(file); {
		case err != nil:
			v.problem(p, "%v", err)
		case file == "" || filepath.Clean(full) == "/":
			v.problem(p, "expected a file or a folder below /, got %q", file)
		default:
			s.Own[i] = full
		}
	}
	v.oneOf(at.to("network"), s.GetNetwork(), Networks()...)
	v.bound(at.to("max_processes"), uint64(s.GetMaxProcesses()), minMaxProcesses, math.MaxInt32)
	v.bound(at.to("max_memory_bytes"), s.GetMaxMemoryBytes(), minMaxMemory, math.MaxInt64)
	if why := sandboxConflict(c); why != "" {
		v.problem(at.to("mode"), "%s", why)
	}
	if why := networkConflict(c); why != "" {
		v.problem(at.to("network"), "%s", why)
	}
}

// networkConflict returns the reason why the configured network is not available without a sandbox, or "".
func networkConflict(c *configv1.Config) string {
	s := c.GetSandbox()
	if n := s.GetNetwork(); n == "" || n == NetworkOpen || s.GetMode() != "" && s.GetMode() != SandboxOff {
		return ""
	}
	return "nothing keeps an agent to the network without the sandbox: set sandbox.mode to enforce, or to observe, which refuses nothing; or leave out this"
}

// SetSandbox replaces sandbox.mode and sandbox.network. An empty value keeps the configured one. It is for flags, which
// its errors name, and must be called before anything is started.
func (c *Config) SetSandbox(mode, network string) error {
	s := &configv1.Sandbox{}
	if c.Proto.GetSandbox() != nil {
		s = proto.CloneOf(c.Proto.GetSandbox())
	}
	for _, given := range []struct {
		flag   string
		to     *string
		value  string
		values []string
	}{{"--sandbox", &s.Mode, mode, SandboxModes()}, {"--network", &s.Network, network, Networks()}} {
		if given.value == "" {
			continue
		}
		if !slices.Contains(given.values, given.value) {
			return fmt.Errorf("%s: expected one of %s, got %q", given.flag, strings.Join(given.values, ", "), given.value)
		}
		*given.to = given.value
	}
	before := c.Proto.Sandbox
	c.Proto.Sandbox = s
	if why := cmp.Or(sandboxConflict(c.Proto), networkConflict(c.Proto)); why != "" {
		c.Proto.Sandbox = before
		return errors.New("--sandbox, --network: " + why)
	}
	return nil
}

// SandboxWithoutRules returns a text that says that there is a sandbox without rules for its decisions, or "".
func (c *Config) SandboxWithoutRules() string {
	if c.Sandbox() == SandboxOff || c.PolicySet() {
		return ""
	}
	but := ""
	if c.WorkspaceRules() {
		but = ", but in a workspace with rules of its own (" + WorkspacePolicy + ")"
	}
	return "there is no policy: nothing that the agent does by itself is decided or recorded" + but
}

// Network returns the network of an agent's processes. The default is NetworkProxy with SandboxEnforce
// and a policy, else NetworkOpen.
func (c *Config) Network() string {
	switch n := c.Proto.GetSandbox().GetNetwork(); {
	case n != "":
		return n
	case c.enforcesPolicy():
		return NetworkProxy
	}
	return NetworkOpen
}

// Reads reports whether reads of files by an agent's processes are decided on. The default is true with
// SandboxEnforce and a policy, else false.
func (c *Config) Reads() bool {
	if s := c.Proto.GetSandbox(); s != nil && s.Reads != nil {
		return s.GetReads()
	}
	return c.enforcesPolicy()
}

// enforcesPolicy reports whether the sandbox enforces a policy. All process actions are then decided by default.
func (c *Config) enforcesPolicy() bool { return c.Sandbox() == SandboxEnforce && c.PolicySet() }

// sandboxConflict names the setting that cannot be combined with the sandbox, or returns "".
func sandboxConflict(c *configv1.Config) string {
	if m := c.GetSandbox().GetMode(); m == "" || m == SandboxOff {
		return ""
	}
	switch a := c.GetAgent(); {
	case len(a.GetCapabilities()) > 0:
		return "an agent in the sandbox has no capabilities: leave out agent.capabilities, or this"
	case a.GetNoLandlock():
		return "the sandbox is kept from its agent by Landlock: leave out agent.no_landlock, or this"
	case a.GetNoSeccomp():
		return "the sandbox consists of seccomp filters: leave out agent.no_seccomp, or this"
	}
	return ""
}

// Sandbox returns the mode of the sandbox. The default is SandboxOff.
func (c *Config) Sandbox() string {
	if m := c.Proto.GetSandbox().GetMode(); m != "" {
		return m
	}
	return SandboxOff
}
