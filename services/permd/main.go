// Command permd decides about an agent's actions by a rule file.
package main

import (
	"github.com/acphost/acphost/sdk/handler"

	"github.com/acphost/acphost/services/permd/internal/server"
)

// version is set by the linker.
var version = "dev"

func main() {
	permissions := server.New(handler.Logger())
	handler.Main(handler.Handler{
		Name:      "permd",
		Version:   version,
		Services:  []string{server.ServiceName},
		Register:  permissions.Register,
		Configure: permissions.Configure,
	})
}
