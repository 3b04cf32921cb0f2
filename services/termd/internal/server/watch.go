package server

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"

	"github.com/acphost/acphost/services/termd/internal/terminal"
)

// Watch streams a terminal's raw output and its end.
func (s *Server) Watch(req *terminalv1.WatchRequest, stream grpc.ServerStreamingServer[terminalv1.WatchResponse]) error {
	if req.GetScope() == "" {
		return status.Error(codes.InvalidArgument, "scope is required: it selects the terminal")
	}
	t, err := s.terminals.Find(req.GetScope(), req.GetTerminalId())
	if err != nil {
		return statusOfID(err, req.GetTerminalId())
	}
	err = t.Watch(stream.Context(), func(e terminal.Event) error {
		resp := &terminalv1.WatchResponse{}
		switch {
		case e.Exit != nil:
			resp.Event = &terminalv1.WatchResponse_Exit{Exit: exitStatus(e.Exit)}
		case e.Dropped > 0:
			resp.Event = &terminalv1.WatchResponse_DroppedBytes{DroppedBytes: e.Dropped}
		default:
			resp.Event = &terminalv1.WatchResponse_Data{Data: e.Data}
		}
		return stream.Send(resp)
	})
	if _, ours := status.FromError(err); ours {
		return err // the stream's own error: the client no longer reads
	}
	return statusOf(err)
}
