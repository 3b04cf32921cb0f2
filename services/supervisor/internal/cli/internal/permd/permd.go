// Package permd runs acphost's own permd for commands about rule files.
package permd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/ownhandler"
	"github.com/acphost/acphost/services/supervisor/internal/host/policytool"
)

// stopPermd limits the time until permd ends.
const stopPermd = 10 * time.Second

// Starter starts permd. The caller stops it.
type Starter func(ctx context.Context, log *slog.Logger) (service permissionv1.PolicyServiceClient, stop func(context.Context) error, err error)

// Own returns the Starter of acphost's own permd.
func Own(call *command.Call) Starter {
	return func(ctx context.Context, log *slog.Logger) (permissionv1.PolicyServiceClient, func(context.Context) error, error) {
		programs, err := call.Programs()
		if err != nil {
			return nil, nil, err
		}
		return policytool.StartPermd(ctx, programs.Command([]string{ownhandler.Permission}), log)
	}
}

// With runs permd while do runs.
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
		// Stop permd even if the context has ended.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPermd)
		defer cancel()
		if stopErr := stop(ctx); stopErr != nil {
			err = errors.Join(err, fmt.Errorf("stop permd: %w", stopErr))
		}
	}()
	return do(service)
}
