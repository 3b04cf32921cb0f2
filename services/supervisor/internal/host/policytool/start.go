package policytool

import (
	"context"
	"fmt"
	"log/slog"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/sdk/launch"
)

// StartPermd starts permd as a child process, and returns when it is ready. The program in the command is an absolute
// path. ctx limits only the start. The caller must call stop. After the end of stop's context, permd is killed.
func StartPermd(
	ctx context.Context, argv []string, log *slog.Logger,
) (service permissionv1.PolicyServiceClient, stop func(context.Context) error, err error) {
	instance, err := launch.Start(ctx, launch.Spec{Name: "permission", Command: argv, Logger: log})
	if err != nil {
		return nil, nil, fmt.Errorf("start permd: %w", err)
	}
	return permissionv1.NewPolicyServiceClient(instance), instance.Stop, nil
}
