// Package doctor checks whether acphost can work on this machine: the system, the configuration, the handlers and an
// agent. It describes each problem and its solution.
//
// A check changes nothing, and ends each process that it starts. Each check calls the package that does the real work.
package doctor

import (
	"context"
	"log/slog"
	"time"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/ownhandler"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/handshake"
)

// Level is the severity of a finding.
type Level string

// The levels. Their text is stable: it is in the JSON.
const (
	// OK means that there is no problem.
	OK Level = "ok"
	// Warning means that it works, but not as well or as safely as possible.
	Warning Level = "warning"
	// Problem means that it does not work.
	Problem Level = "problem"
)

// The areas, in the order of the checks. Their text is stable.
const (
	Machine       = "machine"
	Configuration = "configuration"
	Handlers      = "handlers"
	Agent         = "agent"
)

// Finding is the result of one check. The JSON names are stable, because scripts use them.
type Finding struct {
	Area  string `json:"area"`
	Check string `json:"check"` // a few words: "landlock"
	Level Level  `json:"level"`
	// Detail describes the result. It may have several lines.
	Detail string `json:"detail"`
	// Todo describes what to do next, or is empty.
	Todo string `json:"todo,omitempty"`
}

// Options configure the checks.
type Options struct {
	// Env looks up environment variables, as os.Getenv does. Required.
	Env func(string) string
	// ConfigFile is the configuration file. Empty means the default one.
	ConfigFile string
	// Override changes the configuration, as flags of the commands that run agents do. Nil changes nothing.
	Override func(*config.Config) error
	// Flags are the flags that correspond to Override and ConfigFile, without --sandbox. Commands in advice have them,
	// too.
	Flags []string
	// Dir is the working folder of the agent, whose rule file is checked, too. Required.
	Dir string
	// Programs locates acphost's own handlers. Required.
	Programs ownhandler.Programs
	// Version is the version of acphost.
	Version string
	// Permd starts permd, which checks rule files. Required.
	Permd func(context.Context) (permissionv1.PolicyServiceClient, func(context.Context) error, error)
	// Agent is the agent to check, or nil.
	Agent *AgentCommand
	// Ask starts an agent and sends it initialize, as handshake.Query does. Required with Agent.
	Ask func(context.Context, agent.Spec, string) (*handshake.Answer, error)
	// Guard is the command that guards the agent, as agent.Spec has it.
	Guard []string
	// Logger receives the logs of the parts that are checked. Required.
	Logger *slog.Logger
}

// AgentCommand is an agent to check.
type AgentCommand struct {
	// Name is its name for users and in hints.
	Name string
	// Command is its command line. Env are the variables of its preset. agent.env and the environment of this process
	// are added to them.
	Command, Env []string
	// Preset means that "acphost agents login NAME" accepts it.
	Preset bool
	// Login means that the preset has a login command, independent of the methods that the agent offers.
	Login bool
	// Tested are the versions of the agent that acphost was tested with, or nil if they are unknown.
	Tested []string
}

// handlersTimeout limits the starts of all handlers together.
const handlersTimeout = 30 * time.Second

// Run runs all checks and passes each finding to tell. It returns the number of problems.
func Run(ctx context.Context, o Options, tell func(Finding)) (problems int) {
	d := &doctor{Options: o, tell: func(f Finding) {
		if f.Level == Problem {
			problems++
		}
		tell(f)
	}}
	d.machine()
	c, handlers := d.configuration(ctx)
	if handlers {
		d.handlers(ctx, c)
	}
	switch {
	case o.Agent == nil:
	case c == nil: // the user and the confinement of the agent are unknown
		d.in(Agent).warn("command", "not started: the configuration says as which user an agent runs, and it cannot be used",
			"correct what the configuration's part above says, and run doctor again")
	default:
		d.agent(ctx, c)
	}
	return problems
}

type doctor struct {
	Options
	tell func(Finding)
}

// area is the list of findings of one area.
type area struct {
	name string
	tell func(Finding)
}

func (d *doctor) in(name string) area { return area{name: name, tell: d.tell} }

func (a area) ok(check, detail string) {
	a.tell(Finding{Area: a.name, Check: check, Level: OK, Detail: detail})
}

func (a area) warn(check, detail, todo string) {
	a.tell(Finding{Area: a.name, Check: check, Level: Warning, Detail: detail, Todo: todo})
}

func (a area) problem(check, detail, todo string) {
	a.tell(Finding{Area: a.name, Check: check, Level: Problem, Detail: detail, Todo: todo})
}
