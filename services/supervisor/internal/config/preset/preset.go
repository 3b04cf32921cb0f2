// Package preset provides agents by name: the command that runs an agent, whether the agent is installed, and how to
// install it.
//
// The names come from manifests in the format of the ACP registry (https://github.com/agentclientprotocol/registry): one that
// is built in, and two files in the user's configuration folder, registry.json (downloaded) and agents.json (written by hand).
// Because a preset says which program is executed, the package reads nothing else: no file of a workspace, and no program or
// package that it would find by the working directory.
//
// The package reads files. It starts no program but npx, in Fetch. It must not know how an agent is run, nor what ACP is.
package preset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/yamlproto"
	"github.com/acphost/acphost/services/supervisor/internal/policy/dialect"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/kernel"
)

// Agent is one entry of a manifest.
type Agent struct {
	// ID is the agent's name for commands and policies: a-z, then a-z, 0-9 and "-".
	ID string `json:"id"`
	// Name is for people; the id where the manifest has none.
	Name string `json:"name"`
	// Version is the version that the manifest stands for, empty where it says none.
	Version string `json:"version"`
	// Description is a line for people; may be empty.
	Description string `json:"description"`
	// Distribution says how the agent comes.
	Distribution Distribution `json:"distribution"`
	// Own is what the registry's format has no place for.
	Own Own `json:"acphost"`
	// Source is the file that the entry is from; empty: it is built in.
	Source string `json:"-"`
}

// Distribution holds the ways in which an agent comes. Those of kinds that are not known here are left out.
type Distribution struct {
	// NPX is a package of npm.
	NPX *Package `json:"npx"`
	// UVX is a Python package that uv runs.
	UVX *Package `json:"uvx"`
	// Binary is an archive for each platform: "linux-x86_64", "darwin-aarch64".
	Binary map[string]*Binary `json:"binary"`
}

// Package is a package with a command.
type Package struct {
	// Package is its name, with or without a version: "@scope/name@1.2.3".
	Package string `json:"package"`
	// Cmd is the name of the command in the package. Empty: the package's only one, or the one that is called like it.
	Cmd  string            `json:"cmd"`
	Args []string          `json:"args"`
	Env  map[string]string `json:"env"`
}

// Binary is a program in an archive.
type Binary struct {
	// Archive is its URL; may be empty for a program that is there anyway.
	Archive string `json:"archive"`
	// Cmd is the program: relative to the archive's content, or absolute.
	Cmd  string            `json:"cmd"`
	Args []string          `json:"args"`
	Env  map[string]string `json:"env"`
}

// Own is acphost's own addition to an entry.
type Own struct {
	// Notes say where the facts come from, for people.
	Notes []string `json:"notes"`
	// Aliases are further names. An id of another agent comes first.
	Aliases []string `json:"aliases"`
	// Login are the arguments with which the agent's command lets a person log in; empty: none are needed. Nil: not known.
	Login []string `json:"login"`
	// Defaults are variables that the agent gets where the environment does not set them: what has it ask before it acts.
	Defaults map[string]string `json:"defaults"`
	// Hosts are the machines without which the agent does not work: those that serve its models, and those by which it logs in. They
	// are patterns as rules have in host. Nil: they are not known.
	Hosts []string `json:"hosts"`
	// Unneeded are machines that the agent connects to and works without, such as those for telemetry, in the form of
	// Hosts. Behind acphost's proxy, connections to them are refused where the policy would ask. Nil: none are known.
	Unneeded []string `json:"unneeded_hosts"`
	// State are the files in which the agent keeps what it remembers, as kernel.CheckState describes them: sessions,
	// logs, caches. In the sandbox only deny rules count for them. What runs later (settings, hooks, extensions) is not
	// among them.
	State []string `json:"state"`
	// Caches are environment variables that name folders for what the agent fetches or unpacks, and then runs. In the
	// sandbox they name folders of acphost's, which the user's own starts of the agent do not use.
	Caches []string `json:"caches"`
	// Modes are the modes in which the agent asks before it acts, by the ids that it gives them. A session that the agent opens in
	// another mode is put in the first of them that it offers. Empty: any mode is accepted. Nil: not known.
	Modes []string `json:"modes"`
	// Tested are the versions, as the agent reports them at initialize, that acphost was tested with. Nil: none are known.
	Tested []string `json:"tested"`
	// TerminalTools are the tools that run commands by the client's terminals alone. Nil: none are known.
	TerminalTools *TerminalTools `json:"terminal_tools"`
	// Dialect is how the agent describes its tools, over what is known of it; nil: nothing more. Only the user's own agents.json
	// has a say.
	Dialect *dialect.Dialect `json:"dialect"`
}

// TerminalTools are tools of an agent that run every command by terminal/create, if the client has terminals, and nothing else.
// acphost then decides about the command at the call, and leaves the permission request of such a tool to the call. An agent that
// runs a command by itself after such a request must not be among them.
type TerminalTools struct {
	// Versions are the versions, as the agent reports them at initialize, whose program was read. Other versions have no such tools.
	Versions []string `json:"versions"`
	// Titles are the titles of the permission requests of these tools.
	Titles []string `json:"titles"`
}

// Catalog is what is known of agents. It is immutable, and safe for concurrent use.
type Catalog struct {
	agents []Agent // by id
	env    func(string) string
}

// Agents returns all agents, sorted by their ids.
func (c *Catalog) Agents() []Agent { return slices.Clone(c.agents) }

// Find returns the agent of a name: its id, or one of its aliases.
func (c *Catalog) Find(name string) (Agent, error) {
	i := slices.IndexFunc(c.agents, func(a Agent) bool { return a.ID == name })
	if i < 0 {
		i = slices.IndexFunc(c.agents, func(a Agent) bool { return slices.Contains(a.Own.Aliases, name) })
	}
	if i >= 0 {
		return c.agents[i], nil
	}
	unknown := &UnknownError{Name: name}
	var words []string
	for _, a := range c.agents {
		unknown.Known = append(unknown.Known, a.ID)
		words = append(append(words, a.ID), a.Own.Aliases...)
	}
	unknown.Near = yamlproto.Nearest(name, words)
	return Agent{}, unknown
}

// Dialect returns how the user says that the agent of a name describes its tools; nil: nothing is said of it.
func (c *Catalog) Dialect(name string) *dialect.Dialect {
	a, err := c.Find(name)
	if err != nil {
		return nil
	}
	return a.Own.Dialect
}

// Machines returns the machines that the agent of a name is known to connect to. Entries of a downloaded registry name
// none.
func (c *Catalog) Machines(name string) hosts.Known {
	a, err := c.Find(name)
	if err != nil {
		return hosts.Known{}
	}
	return hosts.Known{Needed: patterns(a.Own.Hosts), Unneeded: patterns(a.Own.Unneeded)}
}

// patterns parses patterns that were checked when they were read.
func patterns(texts []string) (all []hosts.Pattern) {
	for _, text := range texts {
		if p, err := hosts.ParsePattern(text); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// Files returns the files that the agent of a name is known to have. Entries of a downloaded registry name
// none.
func (c *Catalog) Files(name string) kernel.Files {
	a, err := c.Find(name)
	if err != nil {
		return kernel.Files{}
	}
	return kernel.Files{State: a.Own.State, Caches: a.Own.Caches}
}

// Modes returns the modes in which the agent of a name asks before it acts; nil: they are not known.
func (c *Catalog) Modes(name string) []string {
	a, err := c.Find(name)
	if err != nil {
		return nil
	}
	return a.Own.Modes
}

// Tested returns the versions of the agent of a name that acphost was tested with; nil: they are not known.
func (c *Catalog) Tested(name string) []string {
	a, err := c.Find(name)
	if err != nil {
		return nil
	}
	return a.Own.Tested
}

// TerminalTools returns the tools of the agent with an id that run commands by the client's terminals alone; nil: none are known.
// Aliases are no ids.
func (c *Catalog) TerminalTools(id string) *TerminalTools {
	a, err := c.Find(id)
	if err != nil || a.ID != id {
		return nil
	}
	return a.Own.TerminalTools
}

// UnknownError says that no agent has a name.
type UnknownError struct {
	// Name is what was asked for, Known the ids that there are. Near is the name that it is a slip of; empty: it is near none.
	Name  string
	Known []string
	Near  string
}

// Error lists what there is, unless that is a whole registry.
func (e *UnknownError) Error() string {
	near := ""
	if e.Near != "" {
		near = fmt.Sprintf(": did you mean %q?", e.Near)
	}
	if len(e.Known) > 12 {
		return fmt.Sprintf("no agent is called %q; \"acphost agents list\" shows all %d%s", e.Name, len(e.Known), near)
	}
	return fmt.Sprintf("no agent is called %q; there are %s%s", e.Name, strings.Join(e.Known, ", "), near)
}

// merge puts the entries of a later manifest in the place of earlier ones.
func merge(into map[string]Agent, from []Agent) {
	for _, a := range from {
		if before, ok := into[a.ID]; ok {
			a.inherit(before)
		}
		into[a.ID] = a
	}
}

// inherit takes over what an entry does not say and the one that it replaces does: names for people, how to log in, the
// defaults, how the agent comes, and, for the same package, the command in it. A registry as downloaded has none of acphost's own.
func (a *Agent) inherit(before Agent) {
	if a.Own.Aliases == nil {
		a.Own.Aliases = before.Own.Aliases
	}
	if a.Own.Login == nil {
		a.Own.Login = before.Own.Login
	}
	if a.Own.Defaults == nil {
		a.Own.Defaults = before.Own.Defaults
	}
	if a.Own.Hosts == nil {
		a.Own.Hosts = before.Own.Hosts
	}
	if a.Own.Unneeded == nil {
		a.Own.Unneeded = before.Own.Unneeded
	}
	if a.Own.State == nil {
		a.Own.State = before.Own.State
	}
	if a.Own.Caches == nil {
		a.Own.Caches = before.Own.Caches
	}
	if a.Own.Modes == nil {
		a.Own.Modes = before.Own.Modes
	}
	if a.Own.Tested == nil {
		a.Own.Tested = before.Own.Tested
	}
	if d := a.Distribution; d.NPX == nil && d.UVX == nil && len(d.Binary) == 0 {
		a.Version, a.Distribution = before.Version, before.Distribution
		if a.Own.TerminalTools == nil { // which are known of this program alone
			a.Own.TerminalTools = before.Own.TerminalTools
		}
	}
	a.Description = cmp.Or(a.Description, before.Description)
	mine, its := a.Distribution.NPX, before.Distribution.NPX
	if mine != nil && its != nil && mine.Cmd == "" && nameOf(mine.Package) == nameOf(its.Package) {
		same := *mine
		same.Cmd = its.Cmd
		a.Distribution.NPX = &same
	}
}

// environment returns variables as a process takes them, in order.
func environment(vars map[string]string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		list = append(list, name+"="+vars[name])
	}
	return list
}
