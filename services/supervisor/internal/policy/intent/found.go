package intent

import (
	"path/filepath"

	"github.com/acphost/acphost/internal/shell"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/sdk/programs"
)

// SimpleCommands returns the simple commands of an action in the form of a request to the handler that runs them,
// which knows which programs they name.
func SimpleCommands(a *permissionv1.Action) []*acpv1.SimpleCommand {
	c := a.GetCommand()
	var all []*acpv1.SimpleCommand
	for _, sub := range c.GetSubCommands()[:min(len(c.GetSubCommands()), programs.MaxCommands)] {
		dir := c.GetCwd()
		if dir == "" && len(a.GetRoots()) > 0 {
			dir = a.GetRoots()[0]
		}
		if c.GetCwdDoubtful() {
			dir = ""
		}
		switch {
		case sub.GetCwdUnknown():
			dir = ""
		case filepath.IsAbs(sub.GetCwd()):
			dir = sub.GetCwd()
		case sub.GetCwd() != "":
			dir = ""
		}
		all = append(all, &acpv1.SimpleCommand{Argv: sub.GetArgv(), Wrappers: sub.GetWrappers(), Cwd: dir, Shell: len(c.GetArgv()) == 0})
	}
	return all
}

// Found adds to an action the programs and the repositories of its simple commands, as the handler returned them.
func Found(a *permissionv1.Action, all []*acpv1.Found) {
	for i, sub := range a.GetCommand().GetSubCommands() {
		if i >= len(all) {
			return
		}
		sub.Program, sub.WrapperPrograms, sub.Repository = all[i].GetProgram(), all[i].GetWrapperPrograms(), all[i].GetRepository()
		if len(sub.GetArgv()) == 0 || shell.DynamicWord(sub, 0) {
			sub.Program, sub.Repository = nil, nil // the program is only known when the command runs
		}
	}
}
