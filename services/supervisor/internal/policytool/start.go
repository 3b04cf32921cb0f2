package policytool

import (
	"context"
	"fmt"
	"log/slog"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/sdk/launch"
)

// StartPermd starts permd's command, its program an absolute path, as a child, and returns when it can be asked. ctx
// bounds the start alone. The caller calls stop, whose context bounds how long its end is waited for: then it is
// killed.
func StartPermd(
	ctx context.Context, argv []string, log *slog.Logger,
) (service permissionv1.PolicyServiceClient, stop func(context.Context) error, err error) {
	instance, err := launch.Start(ctx, launch.Spec{Name: "permission", Command: argv, Logger: log})
	if err != nil {
		return nil, nil, fmt.Errorf("start permd: %w", err)
	}
	return permissionv1.NewPolicyServiceClient(instance), instance.Stop, nil
}
