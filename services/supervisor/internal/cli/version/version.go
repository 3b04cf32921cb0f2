// Package version implements "acphost version": prints the version of this program and the protocols that it supports.
package version

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/acphost/acphost/internal/buildinfo"
	"github.com/acphost/acphost/sdk/launch"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
)

// report is the output of "version". The JSON names are stable, because scripts use them.
type report struct {
	buildinfo.Build
	ACP            []int    `json:"acp_versions"`
	PluginProtocol int      `json:"plugin_protocol"`
	GRPC           []string `json:"grpc_packages"`
}

// New returns the command "version".
func New(call *command.Call) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and the protocols",
		Long: `Print the version of acphost, its commit, and its protocols: versions of the Agent
Client Protocol (ACP), the protocol by which it starts handlers, and the gRPC
packages that it serves or calls.`,
		Args: command.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return output.PrintJSON(call, read(call.Version))
			}
			_, err := fmt.Fprint(call.Stdout, Text(call.Version))
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

// Text returns the output of "version" and "--version".
func Text(version string) string {
	r := read(version)
	versions := make([]string, len(r.ACP))
	for i, v := range r.ACP {
		versions[i] = strconv.Itoa(v)
	}
	return r.Text("acphost",
		[2]string{"ACP", "versions " + strings.Join(versions, ", ")},
		[2]string{"handlers", fmt.Sprintf("plugin protocol %d", r.PluginProtocol)},
		[2]string{"gRPC", strings.Join(r.GRPC, ", ")})
}

func read(version string) report {
	r := report{Build: buildinfo.Read(version), PluginProtocol: launch.ProtocolVersion}
	for v := 1; v <= acp.LatestVersion; v++ {
		r.ACP = append(r.ACP, v)
	}
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if name := string(file.Package()); strings.HasPrefix(name, "acphost.") && file.Services().Len() > 0 {
			r.GRPC = append(r.GRPC, name)
		}
		return true
	})
	slices.Sort(r.GRPC)
	r.GRPC = slices.Compact(r.GRPC)
	return r
}
