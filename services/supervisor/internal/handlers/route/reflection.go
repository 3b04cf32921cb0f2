package route

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Limits of reflection: descriptors of a handler have a few kilobytes, and the handler is not trusted.
const (
	maxReflectedFiles = 1000
	maxReflectedBytes = 64 << 20
)

// reflectionV1Alpha is the older name of grpc.reflection.v1; the messages are the same on the wire.
const reflectionV1Alpha = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"

// reflectFiles reads the files of services, and all their imports, by a handler's gRPC reflection. It uses the older
// v1alpha if v1 is not served.
func reflectFiles(ctx context.Context, conn grpc.ClientConnInterface, services []string) ([]*descriptorpb.FileDescriptorProto, error) {
	files, err := walk(ctx, conn, reflectionv1.ServerReflection_ServerReflectionInfo_FullMethodName, services)
	if status.Code(err) == codes.Unimplemented {
		files, err = walk(ctx, conn, reflectionV1Alpha, services)
	}
	return files, err
}

// walk requests the services' files, then imports until none is missing.
func walk(ctx context.Context, conn grpc.ClientConnInterface, method string, services []string) ([]*descriptorpb.FileDescriptorProto, error) {
	ctx, cancel := context.WithCancel(ctx) // ends the stream
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		return nil, err
	}
	queue := make([]question, 0, len(services))
	for _, s := range services {
		queue = append(queue, question{symbol: s})
	}
	var files []*descriptorpb.FileDescriptorProto
	seen := map[string]bool{}
	size := 0
	for ; len(queue) > 0; queue = queue[1:] {
		q := queue[0]
		if seen[q.file] {
			continue
		}
		answer, err := q.ask(stream)
		if err != nil {
			return nil, err
		}
		for _, raw := range answer {
			f := new(descriptorpb.FileDescriptorProto)
			if err := proto.Unmarshal(raw, f); err != nil {
				return nil, fmt.Errorf("not a file descriptor: %w", err)
			}
			if f.GetName() == "" || seen[f.GetName()] {
				continue
			}
			seen[f.GetName()] = true
			if size += len(raw); len(seen) > maxReflectedFiles || size > maxReflectedBytes {
				return nil, fmt.Errorf("more than %d files or %d bytes of descriptors", maxReflectedFiles, maxReflectedBytes)
			}
			files = append(files, f)
			for _, dep := range f.GetDependency() {
				if global(dep) == nil {
					queue = append(queue, question{file: dep})
				}
			}
		}
		if q.file != "" && !seen[q.file] {
			return nil, fmt.Errorf("asked for file %s, got others", q.file)
		}
	}
	return files, nil
}

// question identifies the requested file: by a symbol that it declares, or by its path.
type question struct{ symbol, file string }

// ask returns serialized files: the requested file and, depending on the server, its imports.
func (q question) ask(stream grpc.ClientStream) ([][]byte, error) {
	req := &reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: q.symbol}}
	if q.file != "" {
		req.MessageRequest = &reflectionv1.ServerReflectionRequest_FileByFilename{FileByFilename: q.file}
	}
	if err := stream.SendMsg(req); err != nil && !errors.Is(err, io.EOF) { // io.EOF: RecvMsg has the reason
		return nil, err
	}
	resp := new(reflectionv1.ServerReflectionResponse)
	if err := stream.RecvMsg(resp); err != nil {
		return nil, err
	}
	if e := resp.GetErrorResponse(); e != nil { // without a gRPC status: the server does support reflection
		return nil, fmt.Errorf("%s%s: %s", q.symbol, q.file, e.GetErrorMessage())
	}
	return resp.GetFileDescriptorResponse().GetFileDescriptorProto(), nil
}
