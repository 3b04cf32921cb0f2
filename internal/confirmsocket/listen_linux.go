package confirmsocket

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
)

// Listen opens the socket. Its name is random, because any process can bind an abstract name before the gateway does.
func Listen() (net.Listener, string, error) {
	name := fmt.Sprintf("%s%d/%d-%s", prefix, os.Geteuid(), os.Getpid(), rand.Text())
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, "", fmt.Errorf("listen for \"acphost console\": %w", err)
	}
	return l, name, nil
}

// Find returns the names of the sockets of this user's gateways; for root, of all gateways. Abstract sockets belong to
// a network namespace, so it finds only those in the namespace of this process.
func Find() ([]string, error) {
	list, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	return parse(string(list), os.Geteuid()), nil
}
