package handler

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/acphost/acphost/internal/panics"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
)

// pluginService implements PluginService.
type pluginService struct {
	pluginv1.UnimplementedPluginServiceServer

	h        Handler
	services []string // as registered by Register; written before the handler serves
	sidecar  bool
	meta     *structpb.Struct
	holds    *holds
	reload   func(context.Context) ([]string, error) // reads a sidecar's own settings, returns notes; nil: none

	configuring sync.Mutex
	ownNotes    atomic.Pointer[[]string] // a sidecar's notes about its own settings; nil: not read yet
}

// Describe describes the handler.
func (p *pluginService) Describe(context.Context, *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	return &pluginv1.DescribeResponse{
		Name:            p.h.Name,
		Version:         p.h.Version,
		Services:        p.services,
		DescriptorSet:   p.h.DescriptorSet,
		MaxMessageBytes: p.h.MaxMessageBytes,
		CapabilityMeta:  p.meta,
	}, nil
}

// Configure passes settings to the handler, one request at a time. A sidecar only checks them, because another
// supervisor may use it.
func (p *pluginService) Configure(
	ctx context.Context, req *pluginv1.ConfigureRequest,
) (*pluginv1.ConfigureResponse, error) {
	if !p.sidecar {
		notes, err := p.configure(ctx, req)
		if err != nil {
			return nil, err
		}
		res := &pluginv1.ConfigureResponse{Notes: notes}
		if p.h.Keep != nil {
			res.Keep = p.h.Keep()
		}
		return res, nil
	}
	if req.GetReload() && p.reload != nil {
		if err := p.readOwn(ctx); err != nil {
			return nil, err
		}
	}
	var notes []string // of the current settings, not of settings that were only checked
	if ownNotes := p.ownNotes.Load(); ownNotes != nil {
		notes = slices.Clone(*ownNotes)
	}
	if len(req.GetSettings().GetFields()) > 0 {
		if _, err := p.configure(ctx, &pluginv1.ConfigureRequest{Settings: req.GetSettings(), ValidateOnly: true}); err != nil {
			return nil, err
		}
		notes = append(notes, "a sidecar keeps the settings that it was started with: these were only checked")
	}
	if len(req.GetHost().GetProtectedPaths()) > 0 {
		notes = append(notes, "a sidecar does not take protected paths: "+
			"what no agent may touch has to be among its own settings, or out of its reach")
	}
	return &pluginv1.ConfigureResponse{Notes: notes}, nil
}

// readOwn makes a sidecar read its own settings, and the handler the files that they name.
func (p *pluginService) readOwn(ctx context.Context) error {
	notes, err := p.reload(ctx)
	if err == nil {
		p.ownNotes.Store(&notes)
	}
	return err
}

func (p *pluginService) configure(ctx context.Context, req *pluginv1.ConfigureRequest) ([]string, error) {
	p.configuring.Lock()
	defer p.configuring.Unlock()
	if p.h.Configure == nil {
		for name := range req.GetSettings().GetFields() {
			return nil, status.Errorf(codes.InvalidArgument, "settings: %s: %s has no settings", name, p.h.Name)
		}
		return nil, nil
	}
	notes, err := p.h.Configure(ctx, req)
	if err == nil {
		return slices.Clone(notes), nil
	}
	if s, ok := status.FromError(err); ok {
		return nil, s.Err()
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil, status.FromContextError(err).Err()
	}
	return nil, status.Error(codes.InvalidArgument, err.Error())
}

// Hold holds a scope while the stream is open.
func (p *pluginService) Hold(req *pluginv1.HoldRequest, stream grpc.ServerStreamingServer[pluginv1.HoldResponse]) error {
	if !isScope(req.GetScope()) {
		return status.Error(codes.InvalidArgument, "scope must be 32 characters of lower-case hexadecimal")
	}
	drop, err := p.holds.acquire(stream.Context(), req.GetScope())
	if err != nil {
		return status.FromContextError(err).Err()
	}
	defer drop()
	if err := stream.Send(&pluginv1.HoldResponse{}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return status.FromContextError(stream.Context().Err()).Err()
}

// HoldAll holds scopes while the stream is open, or until the caller drops them.
func (p *pluginService) HoldAll(stream grpc.BidiStreamingServer[pluginv1.HoldAllRequest, pluginv1.HoldAllResponse]) error {
	ctx, cancel := context.WithCancel(stream.Context())
	held := keeper{ctx: ctx, holds: p.holds, scopes: map[string]*keptScope{}}
	defer held.dropAll()
	defer cancel()
	if err := stream.Send(&pluginv1.HoldAllResponse{}); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { // it ends with the stream, and the stream ends when HoldAll returns
		defer panics.Recover(p.h.Logger, "holding scopes", func(err error) { ended <- status.Error(codes.Internal, err.Error()) })
		for {
			req, err := stream.Recv()
			if err == nil && !isScope(req.GetScope()) {
				err = status.Error(codes.InvalidArgument, "scope must be 32 characters of lower-case hexadecimal")
			}
			if err != nil {
				ended <- err
				return
			}
			if req.GetDrop() {
				held.drop(req.GetScope())
			} else {
				held.hold(req.GetScope())
			}
		}
	}()
	select {
	case err := <-ended:
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// Release releases a scope whose session has ended.
func (p *pluginService) Release(ctx context.Context, req *pluginv1.ReleaseRequest) (*pluginv1.ReleaseResponse, error) {
	if !isScope(req.GetScope()) {
		return nil, status.Error(codes.InvalidArgument, "scope must be 32 characters of lower-case hexadecimal")
	}
	if err := p.holds.releaseNow(ctx, req.GetScope()); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	return &pluginv1.ReleaseResponse{}, nil
}

// maxFolders limits the folders of one request.
const maxFolders = 1000

// CheckFolders checks whether folders exist and can be entered.
func (p *pluginService) CheckFolders(_ context.Context, req *pluginv1.CheckFoldersRequest) (*pluginv1.CheckFoldersResponse, error) {
	if n := len(req.GetPaths()); n == 0 || n > maxFolders {
		return nil, status.Errorf(codes.InvalidArgument, "paths: expected 1 to %d, got %d", maxFolders, n)
	}
	res := &pluginv1.CheckFoldersResponse{}
	for i, path := range req.GetPaths() {
		if !filepath.IsAbs(path) {
			return nil, status.Errorf(codes.InvalidArgument, "paths[%d]: expected an absolute path, got %q", i, path)
		}
		_, err := os.Stat(strings.TrimRight(path, "/") + "/.") // requires a folder that can be entered
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			err = pathErr.Err
		}
		if err != nil {
			res.Missing = append(res.Missing, &pluginv1.MissingFolder{Path: path, Reason: err.Error()})
		}
	}
	return res, nil
}

func isScope(s string) bool { return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == "" }
