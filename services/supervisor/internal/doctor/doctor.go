// Package doctor checks whether acphost can work on this machine: the system, the configuration, the handlers and an agent. It
// describes each problem in words, and says what to do about it.
//
// A check changes nothing: what it starts, it ends. The package decides nothing itself: each check calls the package that does
// the real work.
package doctor

import (
	"context"
	"log/slog"
	"time"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/agent"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/handshake"
	"github.com/acphost/acphost/services/supervisor/internal/ownhandler"
)

// Level says how good what was found is.
type Level string

// The levels. Their text is stable: it is in the JSON.
const (
	// OK: as it should be.
	OK Level = "ok"
	// Warning: it works, but not as well or as safely as it could.
	Warning Level = "warning"
	// Problem: it does not work.
	Problem Level = "problem"
)

// The areas, in the order in which they are looked at. Their text is stable.
const (
	Machine       = "machine"
	Configuration = "configuration"
	Handlers      = "handlers"
	Agent         = "agent"
)

// Finding is one thing that was looked at. The JSON names are for scripts and stay.
type Finding struct {
	Area  string `json:"area"`
	Check string `json:"check"` // a few words: "landlock"
	Level Level  `json:"level"`
	// Detail is what was found. It may have several lines.
	Detail string `json:"detail"`
	// Todo is what to do next; empty: nothing.
	Todo string `json:"todo,omitempty"`
}

// Options say what to look at.
type Options struct {
	// Env looks up environment variables, as os.Getenv does. Required.
	Env func(string) string
	// ConfigFile is the configuration file; empty: the usual one.
	ConfigFile string
	// Override changes what the configuration says, as flags of the commands that run agents do; nil: nothing does.
	Override func(*config.Config) error
	// Flags are the flags that Override and ConfigFile stand for, but --sandbox. Advised commands have them too.
	Flags []string
	// Dir is the folder that the agent works in, whose rule file counts too. Required.
	Dir string
	// Programs says where acphost's own handlers are. Required.
	Programs ownhandler.Programs
	// Version is acphost's.
	Version string
	// Permd starts permd, which alone can read rule files. Required.
	Permd func(context.Context) (permissionv1.PolicyServiceClient, func(context.Context) error, error)
	// Agent is the agent to start and ask; nil: none is.
	Agent *AgentCommand
	// Ask starts an agent and asks it, as handshake.Ask does. Required with Agent.
	Ask func(context.Context, agent.Spec, string) (*handshake.Answer, error)
	// Guard is the command that guards the agent, as agent.Spec has it.
	Guard []string
	// Logger gets what the parts log. Required.
	Logger *slog.Logger
}

// AgentCommand is an agent to look at.
type AgentCommand struct {
	// Name is its name for people and in hints.
	Name string
	// Command is its command line. Env are the variables of its preset, which agent.env and this process's are added to.
	Command, Env []string
	// Preset: "acphost agents login NAME" knows it.
	Preset bool
	// Login: of a preset, the command that logs in is known, whatever the agent offers.
	Login bool
	// Tested are the versions of the agent that acphost was tested with; nil: they are not known.
	Tested []string
}

// handlersTimeout bounds the starts of all handlers together.
const handlersTimeout = 30 * time.Second

// Run looks at everything and hands over what it finds, as it finds it. It returns the number of problems.
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
	case c == nil: // as whom it is to run, and behind which walls, is not known
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

// area says what is found in one area.
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
