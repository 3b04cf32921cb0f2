package proc

import (
	"fmt"
	"slices"
	"strings"
)

// Capability is a Linux capability, a privilege that a process can have without being root; capabilities(7). Its value
// is the kernel's number.
type Capability uint

// capabilities are the kernel's names, ordered by number, without "CAP_".
var capabilities = []string{
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
	"LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
	"SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
	"SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
	"MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
	"CHECKPOINT_RESTORE",
}

// ParseCapabilities parses names such as "CHOWN" or "cap_chown".
func ParseCapabilities(names []string) ([]Capability, error) {
	var found []Capability
	for _, name := range names {
		number := slices.Index(capabilities, strings.TrimPrefix(strings.ToUpper(name), "CAP_"))
		if number < 0 {
			return nil, fmt.Errorf("%q is no capability; write them as in capabilities(7), such as CHOWN", name)
		}
		found = append(found, Capability(number))
	}
	return found, nil
}

// String returns the kernel's name, "CAP_CHOWN".
func (c Capability) String() string {
	if int(c) < len(capabilities) {
		return "CAP_" + capabilities[c]
	}
	return fmt.Sprintf("CAP_%d", uint(c))
}
