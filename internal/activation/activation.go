// Package activation accepts the listening socket that a service manager opened for this process, by the protocol of
// sd_listen_fds(3): systemd's socket activation.
package activation

import (
	"fmt"
	"net"
	"os"
	"strconv"
)

// firstFD is the first file that a service manager passes.
const firstFD = 3

// variables are the environment variables that a service manager sets. They are for this process, not for the processes
// that it starts.
var variables = []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID"}

// TCP returns the listening TCP socket that was passed to this process, or nil if none was passed. It removes the
// variables of the protocol from the environment, and must be called once, before any other process is started. It
// returns an error if something other than one TCP socket was passed.
func TCP() (net.Listener, error) {
	pid, fds := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	for _, name := range variables {
		if err := os.Unsetenv(name); err != nil {
			return nil, err
		}
	}
	if fds == "" || pid != strconv.Itoa(os.Getpid()) {
		return nil, nil // not set, or set for another process
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
