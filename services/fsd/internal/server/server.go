// Package server serves package files as acphost.fs.v1.FileSystemService. It translates messages to calls and errors to
// gRPC status, and makes no decisions.
package server

import (
	"context"
	"log/slog"

	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/acphost/acphost/services/fsd/internal/files"
)

// Server is the service. It is safe for concurrent use.
type Server struct {
	fsv1.UnimplementedFileSystemServiceServer

	disk *files.Disk
	log  *slog.Logger
}

// New returns a server for the disk.
func New(disk *files.Disk, log *slog.Logger) *Server {
	return &Server{disk: disk, log: log}
}

// Register adds the service to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	fsv1.RegisterFileSystemServiceServer(r, s)
}

// statusError converts an error to a gRPC status, and logs errors that only the operator of this machine can fix. It
// logs neither paths nor contents of ordinary calls.
func (s *Server) statusError(ctx context.Context, rpc string, err error) error {
	st := statusOf(err)
	if st.Code() == codes.Internal || st.Code() == codes.ResourceExhausted {
		s.log.WarnContext(ctx, "file system call failed", "rpc", rpc, "code", st.Code().String(), "error", err)
	}
	return st.Err()
}
