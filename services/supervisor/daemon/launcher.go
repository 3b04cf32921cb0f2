package daemon

import (
	"context"
	"os"
	"strconv"
	"syscall"
)

// launcherFD is the environment variable in which a launcher, such as the npm package's, names an open file of which it holds
// the other end. The file ends with the launcher.
const launcherFD = "ACPHOST_LAUNCHER_FD"

// withLauncher returns a context that is done when the launcher of this process has ended, if one has started it: a launcher that
// is killed cannot pass the signal on. What this process starts learns nothing of the launcher.
func withLauncher(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	number, set := os.LookupEnv(launcherFD)
	if !set {
		return ctx, cancel
	}
	_ = os.Unsetenv(launcherFD)
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 3 {
		return ctx, cancel
	}
	syscall.CloseOnExec(fd)
	file := os.NewFile(uintptr(fd), "launcher")
	go func() {
		// A launcher writes nothing.
		var b [1]byte
		for {
			if n, err := file.Read(b[:]); n == 0 || err != nil {
				cancel()
				return
			}
		}
	}()
	return ctx, cancel
}
