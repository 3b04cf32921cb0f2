package confirmsocket

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
)

// Listen makes the socket. Its name cannot be guessed, so that nobody else has taken it: abstract sockets belong to nobody.
func Listen() (net.Listener, string, error) {
	name := fmt.Sprintf("%s%d/%d-%s", prefix, os.Geteuid(), os.Getpid(), rand.Text())
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, "", fmt.Errorf("listen for \"acphost console\": %w", err)
	}
	return l, name, nil
}

// Find returns the names of the gateways that listen for this user; for root, of all. They are those of the network namespace
// that this process is in, as abstract sockets are.
func Find() ([]string, error) {
	list, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	return parse(string(list), os.Geteuid()), nil
}
