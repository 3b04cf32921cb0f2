package chat

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// openings notes how sessions are opened, and with what.
type openings struct {
	supervisorv1.SessionServiceClient
	got []string
}

func (o *openings) NewSession(_ context.Context, r *supervisorv1.NewSessionRequest, _ ...grpc.CallOption) (*supervisorv1.NewSessionResponse, error) {
	o.got = append(o.got, "new "+r.GetMeta())
	return &supervisorv1.NewSessionResponse{Session: testSession()}, nil
}

func (o *openings) LoadSession(_ context.Context, r *supervisorv1.LoadSessionRequest, _ ...grpc.CallOption) (*supervisorv1.LoadSessionResponse, error) {
	o.got = append(o.got, "load "+r.GetMeta())
	return &supervisorv1.LoadSessionResponse{Session: testSession()}, nil
}

func (o *openings) ResumeSession(_ context.Context, r *supervisorv1.ResumeSessionRequest, _ ...grpc.CallOption) (*supervisorv1.ResumeSessionResponse, error) {
	o.got = append(o.got, "resume "+r.GetMeta())
	return &supervisorv1.ResumeSessionResponse{Session: testSession()}, nil
}

func TestSupervisor_OpensSessionsWithMeta(t *testing.T) {
	sup := newSupervisor(context.Background(), nil)
	defer sup.close()
	o := &openings{}
	sup.Sessions = o
	m := newModel(Options{Cwd: "/work/app", Meta: `{"a":1}`}, sup)
	m.agent = testAgent()
	open := func(id string) {
		t.Helper()
		if msg, ok := m.openSession(id, "/work/app")().(openedMsg); !ok || msg.err != nil {
			t.Errorf("open %q: %v", id, msg)
		}
	}
	open("")
	open("old")
	m.agent.Info.Capabilities = &supervisorv1.AgentCapabilities{ResumeSession: true}
	open("old")
	if want := []string{`new {"a":1}`, `load {"a":1}`, `resume {"a":1}`}; !slices.Equal(o.got, want) {
		t.Errorf("got %q, want %q", o.got, want)
	}
}
