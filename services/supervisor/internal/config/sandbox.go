package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
)

// Modes of the sandbox.
const (
	SandboxOff     = "off"
	SandboxObserve = "observe"
	SandboxEnforce = "enforce"
)

// SandboxModes are the modes of the sandbox.
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
	if why := sandboxConflict(c); why != "" {
		v.problem(at.to("mode"), "%s", why)
	}
}

// sandboxConflict says which setting the sandbox cannot stand beside; empty: none.
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

// SetSandbox has another mode count than sandbox.mode. It is for a flag, before anything is started.
func (c *Config) SetSandbox(mode string) error {
	if !slices.Contains(SandboxModes(), mode) {
		return fmt.Errorf("expected one of %s, got %q", strings.Join(SandboxModes(), ", "), mode)
	}
	if c.Proto.Sandbox == nil {
		c.Proto.Sandbox = &configv1.Sandbox{}
	}
	before := c.Proto.Sandbox.Mode
	c.Proto.Sandbox.Mode = mode
	if why := sandboxConflict(c.Proto); why != "" {
		c.Proto.Sandbox.Mode = before
		return fmt.Errorf("%s", why)
	}
	return nil
}

// Sandbox is the mode of the sandbox; SandboxOff where nothing is said.
func (c *Config) Sandbox() string {
	if m := c.Proto.GetSandbox().GetMode(); m != "" {
		return m
	}
	return SandboxOff
}
