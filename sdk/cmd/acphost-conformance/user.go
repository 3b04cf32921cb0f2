package main

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"github.com/acphost/acphost/sdk/launch"
)

// workAs makes the cases work as the user of a sidecar, which could not use their files otherwise. The connection keeps
// the user who runs the suite: the kernel recorded the user when it was made.
func workAs(instance *launch.Instance, uid *uint32) error {
	if !instance.Sidecar() || uid == nil || int(*uid) == os.Geteuid() {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("the sidecar runs as user %d and could not use the files of the cases: run the suite as root or as that user", *uid)
	}
	gid := int(*uid)
	if u, err := user.LookupId(strconv.FormatUint(uint64(*uid), 10)); err == nil {
		if n, err := strconv.Atoi(u.Gid); err == nil {
			gid = n
		}
	}
	if err := syscall.Setgroups([]int{gid}); err != nil {
		return fmt.Errorf("work as user %d: %w", *uid, err)
	}
	if err := syscall.Setegid(gid); err != nil {
		return fmt.Errorf("work as user %d: %w", *uid, err)
	}
	if err := syscall.Seteuid(int(*uid)); err != nil {
		return fmt.Errorf("work as user %d: %w", *uid, err)
	}
	return nil
}
