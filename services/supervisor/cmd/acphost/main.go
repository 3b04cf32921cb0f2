// Command acphost hosts coding agents that speak the Agent Client Protocol (ACP). It stands between an agent and everything
// that the agent can touch.
package main

import "github.com/acphost/acphost/services/supervisor/daemon"

// version is set by the build: -ldflags "-X main.version=…".
var version string

func main() { daemon.Main(version, false) }
