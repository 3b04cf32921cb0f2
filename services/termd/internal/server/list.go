package server

import (
	"context"

	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
)

// List lists terminals, including recently released ones.
func (s *Server) List(_ context.Context, req *terminalv1.ListRequest) (*terminalv1.ListResponse, error) {
	resp := &terminalv1.ListResponse{}
	for _, info := range s.terminals.List(req.GetScope()) {
		t := &terminalv1.Terminal{
			TerminalId:  info.ID,
			Scope:       info.Scope,
			Argv:        info.Args,
			Cwd:         info.Cwd,
			StartTimeMs: info.Start.UnixMilli(),
			ExitStatus:  exitStatus(info.Exit),
			OutputBytes: info.OutputBytes,
			Pid:         int64(info.PID),
			Released:    info.Released,
		}
		if info.Exit != nil {
			t.EndTimeMs = info.End.UnixMilli()
		}
		resp.Terminals = append(resp.Terminals, t)
	}
	return resp, nil
}
