package config

import (
	"fmt"
	"os"
	"slices"

	"github.com/acphost/acphost/internal/ownfile"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/users"
)

// Unwritable says that agents and their commands cannot write in a folder although acphost runs as root, and what to
// do, or "" if they probably can. They have none of root's capabilities unless the configuration lists them, and so
// cannot write files of other users, such as those of a folder that is mounted into a container.
func (c *Config) Unwritable(dir string) string {
	agent := c.Proto.GetAgent()
	info, err := os.Stat(dir)
	if os.Geteuid() != 0 || agent.GetUser() != "" || err != nil {
		return ""
	}
	keep, err := proc.ParseCapabilities(agent.GetCapabilities())
	if err != nil || slices.ContainsFunc(keep, func(k proc.Capability) bool { return k.String() == "CAP_DAC_OVERRIDE" }) {
		return ""
	}
	owner, group, known := ownfile.Owner(info)
	mode := info.Mode().Perm()
	if !known || owner == 0 || mode&0o002 != 0 || group == 0 && mode&0o020 != 0 {
		return ""
	}
	remedy := "set agent.user to that user"
	if _, err := users.Find(fmt.Sprint(owner)); err != nil {
		remedy = "add that user, whom this system does not know yet, and set agent.user to it"
	}
	return fmt.Sprintf("agents and commands run as root without root's capabilities, and cannot write in %s, which belongs to user %d: "+
		"%s, or set agent.capabilities and the terminal setting capabilities to [CHOWN, DAC_OVERRIDE, FOWNER]", dir, owner, remedy)
}
