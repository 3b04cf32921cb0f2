package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/cgroup"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/shell"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/config/agentspec"
	"github.com/acphost/acphost/services/supervisor/internal/config/preset"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/policy/secret"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/handshake"
)

// slow is the time to an agent's answer from which on a warning is reported.
const slow = 10 * time.Second

// adviceUser describes what to do if agents cannot run as their user.
const adviceUser = "correct agent.user in the configuration, or run acphost as root"

// adviceSandbox describes what to do if agents cannot be confined.
const adviceSandbox = "use Linux 6.12 or later on amd64 or arm64; in a container, have its seccomp profile allow the system call"

// adviceVersion2 describes the limits of an agent that supports only version 2 of ACP.
const adviceVersion2 = "sessions, prompts, questions and logins work; ACP 2 has no methods for files and terminals, " +
	"so handlers serve this agent nothing: it reaches files and runs commands itself"

// agent starts the agent as run would, sends it initialize, and ends it.
func (d *doctor) agent(ctx context.Context, c *config.Config) {
	in := d.in(Agent)
	in.ok("command", strings.Join(secret.RedactedArgv(d.Agent.Command), " "))
	cfg := c.Effective().GetAgent()
	walls, err := c.AgentConfinement()
	if err != nil {
		in.problem("walls", err.Error(), "correct agent.capabilities in the configuration")
		return
	}
	user, err := c.AgentUser()
	if err != nil {
		in.problem("user", err.Error(), adviceUser)
		return
	}
	env, err := agentspec.Environ(user.Environ(os.Environ()), agentspec.Resolver{Config: cfg}.Variables(d.Agent.Env))
	if err != nil {
		in.problem("environment", err.Error(), "correct agent.env in the configuration")
		return
	}
	spec := agent.Spec{
		Name: d.Agent.Name, Command: d.Agent.Command, Env: env, Dir: d.Dir, User: user, Guard: d.Guard, Logger: d.Logger,
		Confinement: walls, StopGrace: time.Duration(cfg.GetStopGraceMs()) * time.Millisecond,
	}
	d.node(ctx, env)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(cfg.GetInitializeTimeoutSeconds())*time.Second)
	defer cancel()
	answer, err := d.Ask(ctx, spec, d.Version)
	if err != nil {
		in.problem("handshake", err.Error(), adviceFor(err))
		return
	}
	title := strings.TrimSpace(answer.Name + " " + answer.Version)
	title = cmp.Or(title, "it does not say its name")
	took := answer.Took.Round(time.Millisecond)
	detail := fmt.Sprintf("%s, ACP %d, after %v", title, answer.Protocol, took)
	switch {
	case answer.Protocol == 0:
		in.problem("handshake", title+" does not say which version of ACP it speaks", "is it an ACP agent?")
	case answer.Protocol > acp.LatestVersion:
		in.problem("handshake", detail, fmt.Sprintf("get a version of the agent that speaks ACP %d or before", acp.LatestVersion))
	case answer.Protocol == 2:
		in.warn("handshake", title+fmt.Sprintf(", ACP 2 alone, after %v", took), adviceVersion2)
	case took > slow:
		in.warn("handshake", detail, "editors may give up before that; an agent that is installed starts faster than one that npx runs")
	default:
		in.ok("handshake", detail)
	}
	if tested := d.Agent.Tested; len(tested) > 0 && !slices.Contains(tested, answer.Version) {
		in.warn("version", fmt.Sprintf("acphost was not tested with version %q of this agent, which may ask for less than the tested versions do",
			answer.Version), "install a tested version: "+strings.Join(tested, ", "))
	}
	in.ok("capabilities", capabilities(answer.Capabilities))
	d.authentication(answer.AuthMethods)
	if walls := answer.Walls; len(walls.Notes) > 0 {
		in.warn("walls", strings.Join(walls.Notes, "\n"), "see what the machine lacks, above, and agent.no_landlock and agent.no_seccomp")
	} else {
		in.ok("walls", "started under a guard, in a Landlock domain, behind a seccomp filter, without capabilities")
	}
	d.sandbox(c)
}

// sandbox reports the restrictions that the sandbox would have. The agent was started without it, because no policy is
// running.
func (d *doctor) sandbox(c *config.Config) {
	in, mode, err := d.in(Agent), c.Sandbox(), sandbox.Supported()
	switch {
	case mode == config.SandboxOff:
		in.ok("sandbox", "off: what the agent does by itself is not decided (sandbox.mode)")
	case err == nil && c.SandboxWithoutRules() != "":
		in.warn("sandbox", "no rules: "+c.SandboxWithoutRules(), "set permission.policy, for example to workspace")
	case err == nil && mode == config.SandboxObserve:
		in.ok("sandbox", "observe: what the agent does by itself is recorded, and nothing is refused")
	case err == nil:
		in.warn("sandbox", "enforce: the policy decides about what the agent does by itself. The agent was started outside the sandbox here: "+
			"whether the policy lets it start inside was not tried", "try it: acphost prompt --sandbox enforce "+d.agentWords()+"; \"acphost policy why --denied\" says what was denied last")
	case c.Proto.GetSandbox().GetRequire():
		in.problem("sandbox", err.Error()+": no agent is started (sandbox.require)", adviceSandbox)
	default:
		in.warn("sandbox", err.Error()+": what the agent does by itself is not decided", adviceSandbox)
	}
	if mode == config.SandboxEnforce && err == nil && c.PolicySet() && !c.Reads() {
		in.warn("reads", "not decided: processes may read every file", "remove sandbox.reads from the configuration")
	}
	d.network(c, err)
	d.limits(c, err)
}

// limits reports how the processes and the memory of an agent would be limited. confined is as in network.
func (d *doctor) limits(c *config.Config, confined error) {
	if c.Sandbox() != config.SandboxEnforce {
		return
	}
	const advice = "run acphost in a control group of its own: a systemd service or scope with Delegate=yes, or a " +
		"container with a writable /sys/fs/cgroup"
	in, s, err := d.in(Agent), c.Effective().GetSandbox(), cgroup.Delegated()
	processes := fmt.Sprintf("at most %d processes", s.GetMaxProcesses())
	switch {
	case err == nil:
		in.ok("limits", processes+", by a control group")
	case confined != nil:
		in.warn("limits", fmt.Sprintf("none, because there is no sandbox, and %v", err), advice)
	case s.GetMaxMemoryBytes() > 0:
		in.warn("limits", fmt.Sprintf(
			"%s, counted once a second; memory is not limited (sandbox.max_memory_bytes): %v", processes, err), advice)
	default:
		in.ok("limits", processes+", counted once a second")
	}
}

// agentWords returns the arguments of a command that runs the agent: the flags of doctor, and the agent.
func (d *doctor) agentWords() string {
	flags := ""
	if len(d.Flags) > 0 {
		flags = shell.Quote(d.Flags) + " "
	}
	if d.Agent.Preset {
		return flags + "--agent " + d.Agent.Name + " hello"
	}
	return flags + "hello -- " + strings.Join(secret.RedactedArgv(d.Agent.Command), " ")
}

// network reports the restrictions of the network. confined is the reason why the agent cannot be
// confined, or nil.
func (d *doctor) network(c *config.Config, confined error) {
	in, network, observed := d.in(Agent), c.Network(), c.Sandbox() == config.SandboxObserve
	const policy = "set a policy, with rules that name machines (host)"
	switch proxied := network == config.NetworkProxy; {
	case network == config.NetworkOpen && c.Sandbox() == config.SandboxEnforce && c.PolicySet() && confined == nil:
		in.warn("network", "open: connections are not decided, except by deny rules that name addresses",
			"remove sandbox.network from the configuration")
	case network == config.NetworkOpen:
	case confined != nil && !observed && proc.ConfineSupported() == nil:
		in.warn("network", "by Landlock alone: TCP connects to the port of acphost's proxy alone, or with \"none\" to no port, and other sockets are as before", "see sandbox")
	case confined != nil && proxied:
		in.warn("network", "by variables alone: programs that read HTTPS_PROXY use acphost's proxy, and nothing keeps the agent from connecting past it", "see sandbox")
	case confined != nil:
		in.warn("network", "nothing keeps the agent from the network", "see sandbox")
	case observed:
		in.ok("network", network+": what would be refused is recorded, and nothing is refused")
	case proxied && !c.PolicySet():
		in.warn("network", "proxy: the agent reaches every machine on the internet, as there is no policy", policy)
	case proxied:
		in.ok("network", "proxy: the policy decides about machines by their names, and nothing leads past the proxy")
	default:
		in.ok("network", "none: the agent connects to no machine")
	}
	if network == config.NetworkProxy {
		for _, name := range []string{"HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
			if value := d.Env(name); value != "" {
				in.warn("other proxy", name+" is set, and acphost's proxy does not use another proxy: it connects to machines itself", "see sandbox.network")
				break
			}
		}
	}
}

// nodeTimeout limits the time until Node.js reports its version.
const nodeTimeout = 10 * time.Second

// node checks whether an agent that is an npm package supports the Node.js that would run it.
func (d *doctor) node(ctx context.Context, env []string) {
	in := d.in(Agent)
	node, program := lookPath(env, "node"), d.Agent.Command[0]
	if !strings.Contains(program, "/") {
		program = lookPath(env, program)
	}
	if len(d.Agent.Command) > 1 && filepath.Base(program) == "node" {
		node, program = program, d.Agent.Command[1]
	}
	name, versions := preset.NodeOf(program)
	if versions == "" {
		return
	}
	if node == "" {
		in.problem("node", name+" needs Node.js "+versions+", and there is no node on PATH", "install Node.js")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	output, err := exec.CommandContext(ctx, node, "--version").Output()
	if err != nil {
		in.problem("node", fmt.Sprintf("%s does not say its version: %v", node, err), "install Node.js "+versions)
		return
	}
	version := strings.TrimSpace(string(output))
	switch supported, known := preset.SupportsNode(versions, version); {
	case !known:
		in.ok("node", fmt.Sprintf("%s %s; %s says that it needs %s", node, version, name, versions))
	case !supported:
		in.problem("node", fmt.Sprintf("%s needs Node.js %s, and %s is %s", name, versions, node, version),
			"install a Node.js that it supports, and put it first on PATH")
	default:
		in.ok("node", fmt.Sprintf("%s %s, as %s needs (%s)", node, version, name, versions))
	}
}

// lookPath finds a program in the absolute folders of an environment's PATH. It returns "" if none exists.
func lookPath(environ []string, program string) string {
	for _, entry := range slices.Backward(environ) { // the last one counts
		list, ok := strings.CutPrefix(entry, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			file := filepath.Join(dir, program)
			if info, err := os.Stat(file); filepath.IsAbs(dir) && err == nil && !info.IsDir() && info.Mode().Perm()&0o111 != 0 {
				return file
			}
		}
		return ""
	}
	return ""
}

// adviceFor describes what to do about an agent that did not answer.
func adviceFor(err error) string {
	exit, ended := errors.AsType[agent.Exit](err)
	if step := event.NextStep(strings.Join(exit.Tail, "\n") + "\n" + err.Error()); step != "" {
		return strings.TrimPrefix(step, "; ")
	}
	silent, late := errors.AsType[*handshake.Unanswered](err)
	switch {
	case ended && exit.Reason == agent.NotFound:
		return "install it, or correct the command; \"acphost agents list\" says how to get known agents"
	case ended && exit.Reason == agent.StartFailed:
		return "correct the command or the file's mode"
	case late && silent.Dropped != "":
		return "have it write each message on one line of its standard output, and everything else to standard error; " +
			"is it given the flag that makes it speak ACP, as --acp for gemini?"
	case late:
		return "pass the flag that makes it speak ACP, as --acp for gemini"
	}
	return "run it by itself to see what it says; is it given the flag that makes it speak ACP?"
}

// authentication lists the ways to log in, with commands for the user. A preset's login command works even if the agent
// offers no method, and may be the only one that works on a terminal.
func (d *doctor) authentication(methods []handshake.AuthMethod) {
	in := d.in(Agent)
	detail := "the agent offers none"
	var ids []string
	terminal := d.Agent.Login
	for _, m := range methods {
		ids = append(ids, fmt.Sprintf("%s (%s)", m.ID, m.Type))
		terminal = terminal || m.Type == "terminal"
	}
	if len(ids) > 0 {
		detail = strings.Join(ids, ", ")
	}
	todo := ""
	if d.Agent.Preset && terminal {
		todo = "if you are not logged in: acphost agents login " + d.Agent.Name
	}
	in.tell(Finding{Area: in.name, Check: "login", Level: OK, Detail: detail, Todo: todo})
}

// capabilities formats the capabilities of an agent in a line: members that are true, and the members of objects.
func capabilities(raw []byte) string {
	var names []string
	walk(raw, "", 3, &names)
	if len(names) == 0 {
		return "none beyond what every agent has"
	}
	const limit = 40
	if len(names) > limit {
		names = append(names[:limit], "…")
	}
	return strings.Join(names, ", ")
}

func walk(raw []byte, prefix string, depth int, names *[]string) {
	_ = acp.Members(raw, func(name string, value []byte) bool {
		if name == "_meta" {
			return true
		}
		name = prefix + strings.TrimSuffix(name, "Capabilities")
		switch {
		case string(value) == "true":
			*names = append(*names, name)
		case value[0] == '{':
			before := len(*names)
			if depth > 1 {
				walk(value, name+".", depth-1, names)
			}
			if len(*names) == before && prefix != "" { // an empty object means that it has the capability
				*names = append(*names, name)
			}
		}
		return true
	})
}
