// Package policytool implements the functions of "acphost policy": it checks rule files, explains decisions, decides
// recorded actions again, imports the rules of other programs, and edits the list of workspace rule files that the user
// trusts.
//
// It knows files, the list of trusted files, and the format of the output. It must not know how rules work: permd does,
// and answers through PolicyService. The decisions of this package do not allow any action of an agent.
package policytool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/regular"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/config"
)

// maxFile limits the bytes of one rule file, action or file to import, as YAML files are limited.
const maxFile = 16 << 20

// ReadPolicy returns the rule file with a name: a ready policy, or a file. "-" means stdin.
func ReadPolicy(
	ctx context.Context, service permissionv1.PolicyServiceClient, name string, stdin io.Reader, layer permissionv1.Layer,
) (*permissionv1.PolicyFile, error) {
	if config.IsReadyPolicy(name) {
		content, err := ReadyPolicy(ctx, service, name)
		if err != nil {
			return nil, err
		}
		return &permissionv1.PolicyFile{Name: name, Content: content, Layer: layer}, nil
	}
	content, err := ReadFile(name, stdin)
	if errors.Is(err, fs.ErrNotExist) && !strings.Contains(name, "/") {
		return nil, fmt.Errorf("there is no file %s, nor is that the name of a ready policy: these are %s", name, strings.Join(config.ReadyPolicies(), ", "))
	}
	if err != nil {
		return nil, err
	}
	return &permissionv1.PolicyFile{Name: name, Content: content, Layer: layer}, nil
}

// ReadFile returns the content of a regular file of at most 16 MiB. "-" means stdin.
func ReadFile(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return regular.ReadAll(stdin, name, maxFile)
	}
	return regular.Read(name, maxFile)
}

// serverError returns permd's error without the text that gRPC adds.
func serverError(doing string, err error) error {
	if s, ok := status.FromError(err); ok {
		return fmt.Errorf("%s: %s", doing, s.Message())
	}
	return fmt.Errorf("%s: %w", doing, err)
}
