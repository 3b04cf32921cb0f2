// Command plainfs answers an agent's fs/* requests: it reads and writes text files on this machine. It is a template for
// handlers of files, complete for its service: what it does with a file is here, and what makes it a handler, and where
// a call may go, is the SDK's (packages handler and roots).
//
// Package os holds it to the root that a path leads into, also where an agent swaps folders and links meanwhile. Within
// that root a swapped link can still lead it to another file; acphost's own fsd refuses that, too.
package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc"

	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	"github.com/acphost/acphost/sdk/handler"
	"github.com/acphost/acphost/sdk/roots"
)

type settings struct {
	MaxBytes int64 `json:"max_bytes"` // the most that is read at once; by default 10 MiB
}

func (s *settings) check() error {
	if s.MaxBytes == 0 {
		s.MaxBytes = 10 << 20
	}
	if s.MaxBytes < 1 || s.MaxBytes > 60<<20 {
		return fmt.Errorf("max_bytes: %d is not from 1 to %d", s.MaxBytes, 60<<20)
	}
	return nil
}

type files struct {
	fsv1.UnimplementedFileSystemServiceServer
	settings handler.Settings[settings]
	writing  sync.Mutex // writes happen one after another
}

func newHandler() handler.Handler {
	f := &files{settings: handler.Settings[settings]{Check: (*settings).check}}
	return handler.Handler{
		Name: "plainfs", Version: "1.0.0", Configure: f.settings.Configure,
		Register: func(r grpc.ServiceRegistrar) { fsv1.RegisterFileSystemServiceServer(r, f) },
	}
}

func main() { handler.Main(newHandler()) }

// protected are the paths that no agent may touch.
func (f *files) protected() []string { return f.settings.Host().GetProtectedPaths() }

// Resolve returns where a path leads. The supervisor calls it before it decides about a call; agents cannot call it.
func (f *files) Resolve(_ context.Context, r *fsv1.ResolveRequest) (*fsv1.ResolveResponse, error) {
	return roots.Resolve(r.GetContext(), r.GetPath(), f.protected())
}

// ReadTextFile answers fs/read_text_file.
func (f *files) ReadTextFile(ctx context.Context, r *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
	at, err := roots.Enter(r.GetContext(), r.GetPath(), f.protected(), false)
	if err != nil {
		return nil, err
	}
	content, err := read(ctx, at, r, f.settings.Load().MaxBytes)
	if err != nil {
		return nil, agentError(err, r.GetPath())
	}
	return &fsv1.ReadTextFileResponse{Content: content}, nil
}

// WriteTextFile answers fs/write_text_file.
func (f *files) WriteTextFile(_ context.Context, r *fsv1.WriteTextFileRequest) (*fsv1.WriteTextFileResponse, error) {
	if strings.HasSuffix(r.GetPath(), "/") || strings.HasSuffix(r.GetPath(), "/.") {
		return nil, agentError(errFolder, r.GetPath())
	}
	f.writing.Lock()
	defer f.writing.Unlock()
	at, err := roots.Enter(r.GetContext(), r.GetPath(), f.protected(), true)
	if err != nil {
		return nil, err
	}
	if err := write(at, r.GetContent()); err != nil {
		return nil, agentError(err, r.GetPath())
	}
	return &fsv1.WriteTextFileResponse{}, nil
}
