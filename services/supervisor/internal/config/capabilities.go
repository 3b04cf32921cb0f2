package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/acphost/acphost/internal/proc"
)

// dangers describes for each root capability how a process that keeps it can bypass all confinements of acphost, or
// damage the machine.
var dangers = map[string]string{
	"SYS_ADMIN":          "mount over acphost's files, and do most of what root does",
	"SYS_PTRACE":         "read and write the memory of acphost's processes, and so approve its own questions",
	"SYS_RESOURCE":       "set the limits of acphost's processes, and so end them",
	"SYS_MODULE":         "load its own code into the kernel",
	"SYS_RAWIO":          "read and write the machine's memory and disks",
	"SYS_BOOT":           "replace the running kernel",
	"BPF":                "load programs into the kernel that see other processes",
	"PERFMON":            "watch the memory of acphost's processes",
	"CHECKPOINT_RESTORE": "open the files and memory maps of acphost's processes",
	"DAC_READ_SEARCH":    "read every file, acphost's keys and those that belong to others among them",
	"DAC_OVERRIDE":       "read and write every file, acphost's policy and keys among them",
	"CHOWN":              "take any file for its own",
	"FOWNER":             "change the mode of any file",
	"SETUID":             "become any other user",
	"SETGID":             "enter any group",
	"SETPCAP":            "hand capabilities on, and keep what it should lose",
	"SETFCAP":            "give a program on the disk capabilities for everybody",
	"MKNOD":              "make devices, and read the disk by them",
	"MAC_ADMIN":          "change what a security module of the kernel forbids",
	"MAC_OVERRIDE":       "ignore what a security module of the kernel forbids",
	"NET_ADMIN":          "change the machine's network, and have others' connections led to itself",
	"SYS_CHROOT":         "run programs of others in a tree of files of its own making",
	"SYS_NICE":           "slow acphost's processes down",
	"KILL":               "end every process, where there is no Landlock domain",
}

// Dangers returns a line for each dangerous capability that agents, or the handlers that act for them, keep. Other
// capabilities have no known way around the confinements.
func (c *Config) Dangers() []string {
	var out []string
	look := func(field string, names []string) {
		keep, err := proc.ParseCapabilities(names)
		if err != nil {
			return // reported elsewhere
		}
		for _, k := range keep {
			name := k.String()[len("CAP_"):]
			if can := dangers[name]; can != "" {
				out = append(out, fmt.Sprintf("%s keeps %s: with it, an agent that runs as root can %s", field, name, can))
			}
		}
	}
	look("agent.capabilities", c.Proto.GetAgent().GetCapabilities())
	handlers := c.Proto.GetHandlers()
	for _, name := range slices.Sorted(maps.Keys(handlers)) {
		var names []string
		for _, v := range handlers[name].GetSettings().GetFields()["capabilities"].GetListValue().GetValues() {
			names = append(names, v.GetStringValue())
		}
		look("handlers."+name+".settings.capabilities", names)
	}
	return out
}
