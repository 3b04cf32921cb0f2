// Command termd answers an agent's terminal/* requests: it runs commands on pseudo-terminals.
package main

import "github.com/acphost/acphost/services/termd/daemon"

// version is set by the build: -ldflags "-X main.version=…".
var version string

func main() { daemon.Main(version) }
