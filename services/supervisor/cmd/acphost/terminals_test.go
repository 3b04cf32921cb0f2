package main

import (
	"context"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
)

func (shown) GetSession(_, sessionID string) (*supervisorv1.Session, error) {
	return nil, fault.New(fault.NotFound, "no session %q is open here", sessionID)
}

func (shown) WatchOutput(_ context.Context, id string, _ func(*supervisorv1.WatchOutputResponse) error) error {
	return fault.New(fault.NotFound, "no terminal %q is here", id)
}
