package admin_test

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/acphost/acphost/internal/certs"
	"github.com/acphost/acphost/internal/delegation"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
)

// calling adds metadata to each call.
type calling struct {
	grpc.ClientConnInterface
	pairs []string
}

func (c calling) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.ClientConnInterface.Invoke(metadata.AppendToOutgoingContext(ctx, c.pairs...), method, args, reply, opts...)
}

func (c calling) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.ClientConnInterface.NewStream(metadata.AppendToOutgoingContext(ctx, c.pairs...), desc, method, opts...)
}

func callingFor(conn grpc.ClientConnInterface, name, role string) calling {
	return calling{conn, delegation.Caller{Name: name, Role: role}.Metadata()}
}

// lines gathers what is logged.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// gateways serves over TCP, with a gateway for each limit, called like it.
func gateways(t *testing.T, p patient, log *lines) (s *admin.Server, keys string) {
	t.Helper()
	keys = keysOf(t)
	for _, limit := range []certs.Role{certs.NoRole, certs.Viewer, certs.Approver, certs.Operator} {
		if err := certs.AddClient(keys, certs.Client{Name: "edge-" + limit.String(), Role: certs.Gateway, ActsAs: limit}, certs.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	return start(t, admin.Options{
		State: fake{}, Control: obedient{}, Agents: p, Sessions: p, Gateway: p, Events: willing{}, Files: p, Approvals: p, Decisions: p,
		NoSocket: true, Listen: "127.0.0.1:0", TLS: certs.ServerFiles(filepath.Join(keys, certs.ServerDir)),
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	}), keys
}

func TestDelegation_UsesLesserRole(t *testing.T) {
	var log lines
	p := newPatient()
	s, keys := gateways(t, p, &log)
	order := append([]string{"none"}, delegation.Roles()...)
	for _, limit := range order {
		conn := as(t, s, filepath.Join(keys, "edge-"+limit))
		for _, role := range delegation.Roles() {
			lesser := order[min(slices.Index(order, limit), slices.Index(order, role))]
			calls := 0
			callAll(callingFor(conn, "alice", role), func(m protoreflect.MethodDescriptor, verb bool, err error) {
				calls++
				want := map[string]bool{
					"none": false, "viewer": !verb, "approver": !verb || m.Parent().Name() == "ApprovalService", "operator": true,
				}[lesser]
				if got := status.Code(err) != codes.PermissionDenied; got != want {
					t.Errorf("a gateway for %s calls %s for a %s: %v, want %v (%v)", limit, m.FullName(), role, got, want, err)
				}
			})
			if calls < 37 {
				t.Errorf("%d calls were made", calls)
			}
		}
		// Without the metadata it is a gateway as ever.
		callAll(conn, func(m protoreflect.MethodDescriptor, _ bool, err error) {
			if got, want := status.Code(err) != codes.PermissionDenied, m.Parent().Name() == "GatewayService"; got != want {
				t.Errorf("a gateway for %s calls %s without a caller: %v, want %v (%v)", limit, m.FullName(), got, want, err)
			}
		})
	}
	for _, want := range []string{`"delegated call" method=/acphost.supervisor.v1.SupervisorControlService/ReloadPolicy caller.for="gateway edge-operator for alice" caller.role=operator`,
		`"refused a call" method=/acphost.supervisor.v1.SupervisorControlService/ReloadPolicy caller.for="gateway edge-viewer for alice" caller.role=viewer`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not have %s", want)
		}
	}
	if strings.Contains(log.String(), `"delegated call" method=/acphost.supervisor.v1.SupervisorStateService/`) {
		t.Error("looking is logged")
	}
}

func TestDelegation_NeedsGatewayRole(t *testing.T) {
	var log lines
	s, keys := gateways(t, newPatient(), &log)
	if err := certs.AddClient(keys, certs.Client{Name: "other", Role: certs.Operator}, certs.Options{}); err != nil {
		t.Fatal(err)
	}
	inside, err := s.Local()
	if err != nil {
		t.Fatal(err)
	}
	for name, conn := range map[string]grpc.ClientConnInterface{
		"a viewer": as(t, s, filepath.Join(keys, "viewer")), "an approver": as(t, s, filepath.Join(keys, "approver")),
		"an operator": as(t, s, filepath.Join(keys, "operator")), "this process": inside,
	} {
		for _, pairs := range [][]string{
			delegation.Caller{Name: "alice", Role: "operator"}.Metadata(), {delegation.CallerKey, "alice"}, {delegation.RoleKey, "viewer"}, {delegation.CallerKey + "-bin", "x"},
		} {
			callAll(calling{conn, pairs}, func(m protoreflect.MethodDescriptor, _ bool, err error) {
				if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "only a gateway") {
					t.Errorf("%s calls %s with %q: %v", name, m.FullName(), pairs, err)
				}
			})
			if err := check(t, calling{conn, pairs}); status.Code(err) != codes.PermissionDenied {
				t.Errorf("%s asks for the health with %q: %v", name, pairs, err)
			}
		}
	}
}

func TestDelegation_RejectsAmbiguousMetadata(t *testing.T) {
	var log lines
	s, keys := gateways(t, newPatient(), &log)
	conn := as(t, s, filepath.Join(keys, "edge-operator"))
	for name, pairs := range map[string][]string{
		"a name alone":          {delegation.CallerKey, "a"},
		"a role alone":          {delegation.RoleKey, "operator"},
		"two names":             {delegation.CallerKey, "a", delegation.CallerKey, "b", delegation.RoleKey, "operator"},
		"two roles":             {delegation.CallerKey, "a", delegation.RoleKey, "viewer", delegation.RoleKey, "operator"},
		"an unknown role":       {delegation.CallerKey, "a", delegation.RoleKey, "root"},
		"a gateway's role":      {delegation.CallerKey, "a", delegation.RoleKey, "gateway"},
		"a long name":           {delegation.CallerKey, strings.Repeat("a", 65), delegation.RoleKey, "operator"},
		"a line feed":           {delegation.CallerKey, "a%0Aerror=none", delegation.RoleKey, "operator"},
		"a terminal's escape":   {delegation.CallerKey, "a%1B%5B2J", delegation.RoleKey, "operator"},
		"a change of direction": {delegation.CallerKey, "a%E2%80%AEb", delegation.RoleKey, "operator"},
	} {
		callAll(calling{conn, pairs}, func(m protoreflect.MethodDescriptor, _ bool, err error) {
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "acphost-caller") {
				t.Errorf("%s: %s: %v, want INVALID_ARGUMENT", name, m.FullName(), err)
			}
		})
	}
	if strings.ContainsAny(log.String(), "\x1b\u202e") {
		t.Error("a hostile name reached the log")
	}
}

func TestDelegation_NamesAnswerer(t *testing.T) {
	var log lines
	p := newPatient()
	s, keys := gateways(t, p, &log)
	for caller, want := range map[string]string{
		"alice": "gateway edge-approver for alice", "policy": "gateway edge-approver for policy", "Łucja 山田": "gateway edge-approver for Łucja 山田",
	} {
		conn := callingFor(as(t, s, filepath.Join(keys, "edge-approver")), caller, "operator")
		_, err := supervisorv1.NewApprovalServiceClient(conn).AnswerApproval(t.Context(), &supervisorv1.AnswerApprovalRequest{
			Id: "x", Answer: &supervisorv1.AnswerApprovalRequest_Cancel{Cancel: true}, AnsweredBy: "somebody else",
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := <-p.answered; got != want {
			t.Errorf("answered by %q, want %q", got, want)
		}
	}
}
