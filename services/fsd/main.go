// Command fsd answers an agent's fs/* requests: it reads and writes text files below a session's roots.
package main

import "github.com/acphost/acphost/services/fsd/daemon"

// version is set by the build: -ldflags "-X main.version=…".
var version string

func main() { daemon.Main(version) }
