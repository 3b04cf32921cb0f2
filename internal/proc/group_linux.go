package proc

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// EnterGroup makes a process that is started with attr start in a control group (version 2), by the group's folder. An
// empty folder changes nothing. The caller calls done when the process has started.
func EnterGroup(attr *syscall.SysProcAttr, folder string) (done func(), err error) {
	if folder == "" {
		return func() {}, nil
	}
	dir, err := os.OpenFile(folder, unix.O_DIRECTORY|unix.O_PATH, 0)
	if err != nil {
		return nil, fmt.Errorf("open the control group: %w", err)
	}
	attr.UseCgroupFD, attr.CgroupFD = true, int(dir.Fd())
	return func() { _ = dir.Close() }, nil
}
