package proc

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// dropCapabilities removes all capabilities that children of the calling thread could inherit, except those in Keep.
// The thread keeps the capabilities that it needs to start a process as another user.
//
// There are two ways, and each suffices where it works: the bounding set limits the capabilities that user 0 gets when
// it executes a program; and with no_new_privs, no program gets capabilities that its caller lacks.
func (c Confinement) dropCapabilities() error {
	keep := uint64(0)
	for _, k := range c.Keep {
		keep |= 1 << k
	}
	bounded := true
	for number := Capability(0); ; number++ {
		switch has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(number), 0, 0, 0); {
		case errors.Is(err, unix.EINVAL): // the kernel has no more
			return c.limitThread(keep, bounded)
		case err != nil:
			return fmt.Errorf("read the capability bounding set: %w", err)
		case has == 0 || keep&(1<<number) != 0:
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(number), 0, 0, 0); err != nil {
			bounded = false // it needs CAP_SETPCAP
		}
	}
}

// limitThread removes capabilities from the thread's own sets. bounded: the bounding set was limited.
func (c Confinement) limitThread(keep uint64, bounded bool) error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	had := uint64(sets[0].Permitted) | uint64(sets[1].Permitted)<<32
	for i := range sets {
		half := uint32(keep >> (32 * i))
		sets[i].Inheritable &= half
		if !c.ChangesUser {
			sets[i].Permitted &= half
			sets[i].Effective &= half
			sets[i].Inheritable |= sets[i].Permitted // for the ambient set
		}
	}
	if !c.ChangesUser && had&^keep != 0 && !bounded {
		if err := noNewPrivs(); err != nil {
			return err
		}
	}
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return fmt.Errorf("give capabilities up: %w", err)
	}
	if c.ChangesUser || unix.Geteuid() == 0 {
		return nil
	}
	// A process that is not root keeps a capability across an exec only in the ambient set.
	for _, k := range c.Keep {
		if had&(1<<k) == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(k), 0, 0); err != nil {
			return fmt.Errorf("keep %s: %w", k, err)
		}
	}
	return nil
}
