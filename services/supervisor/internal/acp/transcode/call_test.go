package transcode

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
)

// shelf is a file system handler with one file.
type shelf struct {
	fsv1.UnimplementedFileSystemServiceServer
	content string
	written string
}

func (s *shelf) ReadTextFile(_ context.Context, r *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
	if r.GetPath() != "/a" || r.GetContext().GetScope() == "" {
		return nil, status.Errorf(codes.NotFound, "Resource not found: %s", r.GetPath())
	}
	return &fsv1.ReadTextFileResponse{Content: s.content, Result: &acpv1.CallResult{Digest: "sha256:1"}}, nil
}

func (s *shelf) WriteTextFile(_ context.Context, r *fsv1.WriteTextFileRequest) (*fsv1.WriteTextFileResponse, error) {
	s.written = r.GetContent()
	return &fsv1.WriteTextFileResponse{}, nil
}

// serve starts a server that knows nothing of this package, and returns a connection to it.
func serve(t testing.TB, s *shelf) *grpc.ClientConn {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(MaxMessageBytes))
	fsv1.RegisterFileSystemServiceServer(server, s)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	conn, err := grpc.NewClient("unix:"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(4<<20), grpc.WithInitialConnWindowSize(4<<20))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return conn
}

// call performs a routed request as a link does.
func call(conn *grpc.ClientConn, m *Method, params []byte, write func([][]byte)) error {
	f, jerr := m.EncodeRequest(params, callContext())
	if jerr != nil {
		return jerr
	}
	var reply Frame
	defer reply.Free()
	if err := conn.Invoke(context.Background(), m.RPC, f, &reply, CallOptions()...); err != nil {
		return ErrorFrom(err, "fs")
	}
	pieces, _, err := m.DecodeReply([]byte("1"), &reply)
	if err != nil {
		return err
	}
	write(pieces)
	return nil
}

func TestCall_PlainGRPCServer(t *testing.T) {
	s := &shelf{}
	conn := serve(t, s)
	read, write := compile(t, fsService, "ReadTextFile"), compile(t, fsService, "WriteTextFile")
	for _, size := range []int{0, 1, 4000, 20_000, 300_000, 3 << 20} {
		content := strings.Repeat("tür \"x\"\n", size/9+1)[:size]
		content = strings.ToValidUTF8(content, "?")
		s.content = content
		var line []byte
		if err := call(conn, read, []byte(`{"path":"/a","sessionId":"s"}`), func(p [][]byte) { line = bytes.Join(p, nil) }); err != nil {
			t.Fatal(err)
		}
		var answer struct{ Result struct{ Content string } }
		if err := json.Unmarshal(line, &answer); err != nil || answer.Result.Content != content {
			t.Errorf("a read of %d bytes returned %d (%v)", size, len(answer.Result.Content), err)
		}
		quoted, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		if err := call(conn, write, fmt.Appendf(nil, `{"path":"/a","sessionId":"s","content":%s}`, quoted), func([][]byte) {}); err != nil {
			t.Fatal(err)
		}
		if s.written != content {
			t.Errorf("a write of %d bytes wrote %d", len(content), len(s.written))
		}
	}
	err := call(conn, read, []byte(`{"path":"/b"}`), nil)
	if err == nil || err.Error() != "jsonrpc error -32002: Resource not found: /b" {
		t.Errorf("a missing file: %v", err)
	}
	s.content = strings.Repeat("x", MaxMessageBytes)
	if err := call(conn, read, []byte(`{"path":"/a"}`), nil); err == nil {
		t.Error("a response over the limit was taken")
	}
}

func TestFrameCodec_RejectsMessages(t *testing.T) {
	var c frameCodec
	if _, err := c.Marshal(&fsv1.ReadTextFileRequest{}); err == nil {
		t.Error("a message was sent")
	}
	if err := c.Unmarshal(nil, &fsv1.ReadTextFileRequest{}); err == nil {
		t.Error("a message was received")
	}
}

// goCode is text with as many escapes as source code has.
func goCode(size int) string {
	return strings.Repeat("\tif err := run(ctx, \"x\"); err != nil {\n\t\treturn err\n\t}\n", size/40+1)[:size]
}

var benchSizes = []struct {
	name string
	size int
}{{"4KiB", 4 << 10}, {"64KiB", 64 << 10}, {"1MiB", 1 << 20}}

// BenchmarkRead is the round trip of a read through gRPC over a unix socket, without TLS.
func BenchmarkRead(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(size.name, func(b *testing.B) {
			conn := serve(b, &shelf{content: goCode(size.size)})
			read := compile(b, fsService, "ReadTextFile")
			params := []byte(`{"sessionId":"sess_0123456789","path":"/a"}`)
			b.SetBytes(int64(size.size))
			b.ReportAllocs()
			for b.Loop() {
				if err := call(conn, read, params, func([][]byte) {}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecodeReply(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(size.name, func(b *testing.B) {
			m := compile(b, fsService, "ReadTextFile")
			f := received(marshal(b, &fsv1.ReadTextFileResponse{Content: goCode(size.size)}), 16384)
			b.SetBytes(int64(size.size))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := m.DecodeReply([]byte("1"), f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncodeRequest(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(size.name, func(b *testing.B) {
			m := compile(b, fsService, "WriteTextFile")
			quoted, err := json.Marshal(goCode(size.size))
			if err != nil {
				b.Fatal(err)
			}
			params := fmt.Appendf(nil, `{"path":"/a","sessionId":"s","content":%s}`, quoted)
			c := callContext()
			b.SetBytes(int64(size.size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.EncodeRequest(params, c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
