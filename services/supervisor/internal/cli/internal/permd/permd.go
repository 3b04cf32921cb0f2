// Package permd runs acphost's own permd for commands about rule files.
package permd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/sdk/launch"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/ownhandler"
)

// stopPermd bounds how long the end of permd is waited for.
const stopPermd = 10 * time.Second

// Starter starts permd, which the caller stops.
type Starter func(ctx context.Context, log *slog.Logger) (service permissionv1.PolicyServiceClient, stop func(context.Context) error, err error)

// Own returns the Starter of acphost's own permd.
func Own(call *command.Call) Starter {
	return func(ctx context.Context, log *slog.Logger) (permissionv1.PolicyServiceClient, func(context.Context) error, error) {
		programs, err := call.Programs()
		if err != nil {
			return nil, nil, err
		}
		return start(ctx, programs.Command([]string{ownhandler.Permission}), log)
	}
}

// start starts a command, its program an absolute path, as a child, and returns when it can be asked.
func start(
	ctx context.Context, argv []string, log *slog.Logger,
) (permissionv1.PolicyServiceClient, func(context.Context) error, error) {
	instance, err := launch.Start(ctx, launch.Spec{Name: "permission", Command: argv, Logger: log})
	if err != nil {
		return nil, nil, fmt.Errorf("start permd: %w", err)
	}
	return permissionv1.NewPolicyServiceClient(instance), instance.Stop, nil
}

// With runs permd for the time of one function.
func With(ctx context.Context, call *command.Call, starter Starter, do func(permissionv1.PolicyServiceClient) error) (err error) {
	level, ok := cliflag.Level(call.Env(cliflag.EnvLog))
	if !ok {
		level = slog.LevelWarn
	}
	service, stop, err := starter(ctx, slog.New(slog.NewTextHandler(call.Stderr, &slog.HandlerOptions{Level: level})))
	if err != nil {
		return err
	}
	defer func() {
		// Whatever ended the function, permd is stopped.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPermd)
		defer cancel()
		if stopErr := stop(ctx); stopErr != nil {
			err = errors.Join(err, fmt.Errorf("stop permd: %w", stopErr))
		}
	}()
	return do(service)
}
