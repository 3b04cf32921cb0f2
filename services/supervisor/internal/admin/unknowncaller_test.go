package admin

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/acphost/acphost/internal/certs"
	"github.com/acphost/acphost/internal/connlimit"
	"github.com/acphost/acphost/internal/peer"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// free are the methods that the descriptors of what is served declare free of side effects, and those of gRPC's own. It
// knows nothing of how methods are sorted.
func free(t *testing.T, method string) bool {
	t.Helper()
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	switch service {
	case "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection":
		return true
	}
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + name))
	if err != nil {
		return false
	}
	options, _ := found.Options().(*descriptorpb.MethodOptions)
	return options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

// A caller that is neither a person nor an operator cannot cause an effect in any registered service, including new
// services and those whose descriptor declares no class. Making an identity does not help it: callers have their own.
func TestAccess_RefusesEffectsToUnknownCallers(t *testing.T) {
	asked := make(chan any, 1000)
	s, err := Start(Options{
		State: noState{}, Control: failing{}, Agents: nothing{asked: asked}, Sessions: nothing{asked: asked}, Events: nothing{},
		Approvals: nothing{asked: asked}, Decisions: nothing{asked: asked}, NoSocket: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	ending, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, id := range map[string]identity{
		"nobody":                              {},
		"a unix socket without proof":         {process: peer.Peer{Known: true, UID: 0, PID: 1}},
		"a process that has ended":            {process: peer.Peer{Known: true, PID: 1, Process: hasEnded{}}},
		"a viewer's certificate":              {certificate: true, name: "v", role: certs.Viewer},
		"a certificate that is fit for none":  {certificate: true, name: "x", unfit: io.ErrUnexpectedEOF},
		"a certificate of a role that is not": {certificate: true, name: "y", role: -1},
	} {
		for _, server := range []*grpc.Server{s.server(ending, maxRequestBytes, maxStreams), s.server(ending, maxUntrustedRequestBytes, maxUntrustedStreams)} {
			refusesEffects(t, name, id, server)
		}
	}
	select {
	case req := <-asked:
		t.Errorf("something was asked to do %v", req)
	default:
	}
}

// hasEnded is a process that has ended.
type hasEnded struct{}

func (hasEnded) Alive() error { return io.EOF }
func (hasEnded) Close()       {}

// refusesEffects calls every method of a server, and methods without a class, with the identity id.
func refusesEffects(t *testing.T, name string, id identity, server *grpc.Server) {
	t.Helper()
	methods := []string{"/acphost.supervisor.v1.NewService/DoSomething", "/acme.v1.Plugin/Run"}
	for service, info := range server.GetServiceInfo() {
		for _, m := range info.Methods {
			methods = append(methods, "/"+service+"/"+m.Name)
		}
	}
	l, memListener := bufconn.Listen(1<<16), newMemListener()
	d := &acceptor{
		endpoint: endpoint{listener: l, origin: noOrigin, identify: func(_ context.Context, conn net.Conn) (net.Conn, identity, error) { return conn, id, nil }},
		bounds:   usualBounds(connlimit.Room()), trusted: memListener, untrusted: memListener, logger: slog.New(slog.DiscardHandler),
	}
	d.open()
	defer d.close()
	served := make(chan error, 1)
	go func() { served <- server.Serve(memListener) }()
	defer func() { server.Stop(); <-served }()
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	verbs := 0
	for _, method := range methods {
		if free(t, method) {
			continue
		}
		verbs++
		// A stream works for both kinds of method.
		stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, method)
		if err == nil {
			_ = stream.SendMsg(&emptypb.Empty{})
			_ = stream.CloseSend()
			err = stream.RecvMsg(&emptypb.Empty{})
		}
		code := status.Code(err)
		if unknown := strings.Contains(method, "NewService") || strings.Contains(method, "acme"); code != codes.PermissionDenied && (!unknown || code != codes.Unimplemented) {
			t.Errorf("%s called %s: %v, want PERMISSION_DENIED", name, method, err)
		}
	}
	if verbs < 20 {
		t.Errorf("only %d methods have effects: what is called here?", verbs)
	}
}

// A method without a class requires an operator: this includes services that are registered later, whatever their
// descriptors omit.
func TestClasses_NewServiceNeedsOperator(t *testing.T) {
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "acphost.supervisor.v1.TokenService", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "MakeToken"}}, Streams: []grpc.StreamDesc{{StreamName: "WatchTokens", ServerStreams: true}},
	}, nil)
	supervisorv1.RegisterApprovalServiceServer(server, supervisorv1.UnimplementedApprovalServiceServer{})
	for method, c := range classesOf(server) {
		if strings.Contains(method, "Token") && (c.need != certs.Operator || c.asks) {
			t.Errorf("%s takes %+v", method, c)
		}
	}
}

// Connections reach the gRPC servers only through acceptors, so that every peer is identified.
func TestIdentifiedCreds_RejectUnidentifiedConnections(t *testing.T) {
	plain, other := net.Pipe()
	defer plain.Close()
	defer other.Close()
	if _, _, err := (identifiedCreds{}).ServerHandshake(plain); err == nil {
		t.Error("it was taken")
	}
}
