package host

import (
	"fmt"

	"github.com/acphost/acphost/internal/proc"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/sdk/handler"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
)

// controlOff returns the reason why agents and commands cannot be kept from the control socket, or "". The check of
// callers needs a /proc of this process's own pid namespace. In addition, one of two restrictions is required: a
// Landlock domain, which prevents agents from connecting, or a seccomp filter, which identifies them.
func (h *host) controlOff() string {
	if err := proc.ProcSupported(); err != nil {
		return "who makes them cannot be told (" + err.Error() + ")"
	}
	agents := h.config.GetAgent()
	var commands terminalv1.Settings // with the restrictions that all terminal handlers apply to commands
	for _, name := range h.answering(route.KindTerminal) {
		s := terminalSettings(h.config, name)
		commands.NoLandlock = commands.NoLandlock || s.GetNoLandlock()
		commands.NoSeccomp = commands.NoSeccomp || s.GetNoSeccomp()
	}
	domain := refused(agents.GetNoLandlock(), commands.GetNoLandlock(), "no_landlock", proc.ConfineSupported())
	if domain == "" {
		return ""
	}
	filter := refused(agents.GetNoSeccomp(), commands.GetNoSeccomp(), "no_seccomp", proc.FilterSupported())
	if filter == "" {
		return ""
	}
	return fmt.Sprintf("agents could not be kept from making them: there is no Landlock domain around them (%s) and no seccomp filter (%s)", domain, filter)
}

// refused returns the reason why a restriction does not apply to all processes of agents, or "".
func refused(agents, commands bool, setting string, unsupported error) string {
	switch {
	case agents:
		return "agent." + setting + " is set"
	case commands:
		return "the terminal setting " + setting + " is set"
	case unsupported != nil:
		return unsupported.Error()
	}
	return ""
}

// terminalSettings returns the settings of a terminal handler that termd supports.
func terminalSettings(cfg *configv1.Config, name string) *terminalv1.Settings {
	settings := &terminalv1.Settings{}
	if given := cfg.GetHandlers()[name].GetSettings(); given != nil {
		_ = handler.DecodeSettings(given, settings) // the handler itself reports invalid settings
	}
	return settings
}
