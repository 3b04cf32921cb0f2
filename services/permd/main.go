// Command permd decides about agents' actions by rule files, and helps users to write rule files.
package main

import "github.com/acphost/acphost/services/permd/daemon"

// version is set by the build: -ldflags "-X main.version=…".
var version string

func main() { daemon.Main(version) }
