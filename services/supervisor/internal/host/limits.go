package host

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/acphost/acphost/internal/cgroup"
	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/containment"
)

// The ways in which the limits of an agent are enforced.
const (
	limitsGroup = "cgroup"
	limitsCount = "count"
	limitsNone  = "none"
)

const (
	// removeTimeout limits the time until the commands of the terminals of an ended agent have ended.
	removeTimeout = 30 * time.Second
	removeRetry   = 100 * time.Millisecond
)

// limit limits the processes and the memory of an agent and of the commands of its terminals: by a control group if one
// is delegated to acphost, otherwise by counting processes.
func (la *linkedAgent) limit(s *agent.Spec, k *containment.Sandbox) error {
	cfg := la.host.config.GetSandbox()
	processes, memory := int(cfg.GetMaxProcesses()), cfg.GetMaxMemoryBytes()
	k.MaxProcesses = processes
	group, err := cgroup.New("agent-"+rand.Text(), cgroup.Limits{Tasks: processes, Memory: memory})
	if err == nil {
		la.group = &agentGroup{group}
		s.Group, k.Group, la.sandbox.Limits = group.Path, group.Path, limitsGroup
		return nil
	}
	if memory > 0 && cfg.GetRequire() {
		return agent.Exit{Name: s.Name, Reason: agent.StartFailed, Code: 126, Detail: fmt.Sprintf(
			"sandbox.require and sandbox.max_memory_bytes are set, and memory cannot be limited: %v: delegate a control group "+
				"to acphost (Delegate=yes for a systemd service), or leave out one of the settings", err)}
	}
	if memory > 0 {
		la.host.log.Warn("the memory of an agent is not limited (sandbox.max_memory_bytes)", "agent", s.Name, "why", err)
	}
	k.How.MaxProcesses = processes
	la.sandbox.Limits, la.sandbox.LimitsWhy = limitsCount, err.Error()
	return nil
}

// agentGroup is the control group of an agent. All methods of a nil agentGroup do nothing.
type agentGroup struct{ *cgroup.Group }

func (g *agentGroup) remove() {
	if g != nil {
		_ = g.Remove()
	}
}

// until removes the group when done is closed and the commands of terminals in the group have ended. A group that
// cannot be removed remains, without processes of the agent.
func (g *agentGroup) until(done <-chan struct{}) {
	if g == nil {
		return
	}
	go func() {
		defer panics.Recover(nil, "removing an agent's control group")
		<-done
		for until := time.Now().Add(removeTimeout); g.Remove() != nil && time.Now().Before(until); {
			time.Sleep(removeRetry)
		}
	}()
}
