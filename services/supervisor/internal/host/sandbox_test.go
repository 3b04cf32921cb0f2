package host

import (
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestSandbox_AuditNote(t *testing.T) {
	for want, s := range map[string]*supervisorv1.SandboxStatus{
		`agent "x" runs in the sandbox (enforce), and so do commands in terminals`: {Mode: "enforce", Stands: standsFull, Terminals: standsFull},
		`agent "x" runs in the sandbox (enforce); a control group limits its processes`: {
			Mode: "enforce", Stands: standsFull, Limits: limitsGroup,
		},
		`agent "x" runs in the sandbox (enforce); acphost counts its processes: no group`: {
			Mode: "enforce", Stands: standsFull, Limits: limitsCount, LimitsWhy: "no group",
		},
		`agent "x" runs in the sandbox (observe), and commands in terminals run without it: handler t: it maps paths`: {
			Mode: "observe", Stands: standsFull, Terminals: standsNone, TerminalsWhy: "handler t: it maps paths",
		},
		`agent "x" runs without the sandbox, and what it does by itself is not decided (enforce, none: no Landlock); network proxy, variables: ` +
			"programs are told of the proxy, and may go past it": {
			Mode: "enforce", Stands: standsNone, Why: "no Landlock", Network: "proxy", NetworkStands: proxyVariables,
		},
	} {
		if got := sandboxNote("x", s); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
