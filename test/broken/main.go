// Command broken is a file handler as somebody might write it in ten minutes: no roots, no limits, no care for what a
// path is. It exists to fail: a conformance suite that lets it pass proves nothing.
package main

import (
	"context"
	"os"

	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	"github.com/acphost/acphost/sdk/handler"
	"google.golang.org/grpc"
)

func main() {
	handler.Main(handler.Handler{
		Name:     "broken",
		Version:  "0",
		Services: []string{fsv1.FileSystemService_ServiceDesc.ServiceName},
		Register: func(r grpc.ServiceRegistrar) { fsv1.RegisterFileSystemServiceServer(r, files{}) },
	})
}

type files struct {
	fsv1.UnimplementedFileSystemServiceServer
}

func (files) ReadTextFile(_ context.Context, r *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
	content, err := os.ReadFile(r.GetPath())
	return &fsv1.ReadTextFileResponse{Content: string(content)}, err
}

func (files) WriteTextFile(_ context.Context, r *fsv1.WriteTextFileRequest) (*fsv1.WriteTextFileResponse, error) {
	return &fsv1.WriteTextFileResponse{}, os.WriteFile(r.GetPath(), []byte(r.GetContent()), 0o600)
}
