// Package activation takes the socket that a service manager has opened for this process, as sd_listen_fds(3) describes it:
// systemd, and every program that follows it.
package activation

import (
	"fmt"
	"net"
	"os"
	"strconv"
)

// firstFD is the first file that a service manager passes.
const firstFD = 3

// variables are what a service manager sets. They are meant for one process, and not for what that starts.
var variables = []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID"}

// TCP returns the listening TCP socket that was passed to this process; nil: none was. It removes the variables that tell of it
// from the environment, and must be called once, before anything is started. An error says that something else was passed.
func TCP() (net.Listener, error) {
	pid, fds := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	for _, name := range variables {
		if err := os.Unsetenv(name); err != nil {
			return nil, err
		}
	}
	if fds == "" || pid != strconv.Itoa(os.Getpid()) {
		return nil, nil // none, or another process's
	}
	if fds != "1" {
		return nil, fmt.Errorf("the service manager has passed %s sockets (LISTEN_FDS): give the service one socket, with one ListenStream", fds)
	}
	file := os.NewFile(firstFD, "LISTEN_FD_3")
	if file == nil {
		return nil, fmt.Errorf("the service manager has passed a socket (LISTEN_FDS), and file %d is not open", firstFD)
	}
	defer file.Close()
	listener, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("take the socket that the service manager has passed (LISTEN_FDS): %w", err)
	}
	if _, ok := listener.(*net.TCPListener); !ok {
		_ = listener.Close()
		return nil, fmt.Errorf("the service manager has passed a socket at %s, which is not of TCP: write ListenStream=PORT", listener.Addr())
	}
	return listener, nil
}
