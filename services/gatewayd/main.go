// Command gatewayd serves the agents of a supervisor to clients over the network, by ACP's remote transport.
package main

import "github.com/acphost/acphost/services/gatewayd/daemon"

// version is set by the build: -ldflags "-X main.version=…".
var version string

func main() { daemon.Main(version) }
