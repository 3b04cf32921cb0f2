package admin_test

import (
	"context"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/certs"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
)

// asker has one pending question, and returns it from every method that reports questions.
type asker struct {
	patient
	approval *supervisorv1.Approval
}

func (a asker) ListApprovals(string) []*supervisorv1.Approval {
	return []*supervisorv1.Approval{a.approval}
}

func (a asker) WatchApprovals(_ context.Context, _ *supervisorv1.WatchApprovalsRequest, send func(*supervisorv1.WatchApprovalsResponse) error) error {
	return send(&supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_Asked{Asked: a.approval}})
}

func (a asker) asked() *supervisorv1.Event {
	return &supervisorv1.Event{Event: &supervisorv1.Event_QuestionAsked{
		QuestionAsked: &supervisorv1.Approval{Id: event.Handle(a.approval.GetId())},
	}}
}

func (a asker) WatchEvents(_ context.Context, _ string, _ int, send func([]event.Encoded) error) error {
	var encoder event.Encoder
	return send([]event.Encoded{encoder.Encode(a.asked()), encoder.Encode(&supervisorv1.Event{Cursor: "here-1"}), {Event: a.asked()}})
}

func (a asker) WatchSession(_ context.Context, _ *supervisorv1.WatchSessionRequest, send func(*supervisorv1.Event) error) error {
	return send(a.asked())
}

func (a asker) ID(handle string) string {
	if handle == event.Handle(a.approval.GetId()) {
		return a.approval.GetId()
	}
	return ""
}

// questionIDs returns the ids of the question that a caller receives, by method.
func questionIDs(t *testing.T, conn grpc.ClientConnInterface, mayAttend bool) map[string]string {
	t.Helper()
	names := map[string]string{}
	note := func(where, name string, err error) {
		if err != nil {
			t.Errorf("%s: %v", where, err)
		}
		names[where] = name
	}
	approvals, state := supervisorv1.NewApprovalServiceClient(conn), supervisorv1.NewSupervisorStateServiceClient(conn)
	list, err := approvals.ListApprovals(t.Context(), &supervisorv1.ListApprovalsRequest{})
	note("ListApprovals", list.GetApprovals()[0].GetId(), err)
	look, err := approvals.WatchApprovals(t.Context(), &supervisorv1.WatchApprovalsRequest{OnlyLook: true})
	if err != nil {
		t.Fatal(err)
	}
	change, err := look.Recv()
	note("only_look", change.GetAsked().GetId(), err)
	if mayAttend {
		attend, err := approvals.WatchApprovals(t.Context(), &supervisorv1.WatchApprovalsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		change, err := attend.Recv()
		note("WatchApprovals", change.GetAsked().GetId(), err)
	}
	events, err := state.WatchEvents(t.Context(), &supervisorv1.WatchEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := events.Recv()
	note("WatchEvents", e.GetEvent().GetQuestionAsked().GetId(), err)
	batches, err := state.WatchEvents(t.Context(), &supervisorv1.WatchEventsRequest{MaxBatch: 10})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := batches.Recv()
	if len(batch.GetEvents()) != 3 || batch.GetEvents()[1].GetCursor() != "here-1" || batch.GetEvent() != nil {
		t.Fatalf("the batch is %v, %v; want three events", batch, err)
	}
	note("a batch", batch.GetEvents()[0].GetQuestionAsked().GetId(), err)
	note("an event of a batch that is not encoded", batch.GetEvents()[2].GetQuestionAsked().GetId(), err)
	session, err := supervisorv1.NewSessionServiceClient(conn).WatchSession(t.Context(), &supervisorv1.WatchSessionRequest{SessionId: "s"})
	if err != nil {
		t.Fatal(err)
	}
	one, err := session.Recv()
	note("WatchSession", one.GetEvent().GetQuestionAsked().GetId(), err)
	return names
}

func TestApprovals_HideAnswerIDsFromViewers(t *testing.T) {
	keys, a := keysOf(t), asker{newPatient(), &supervisorv1.Approval{Id: event.AnswerID("demo-1/7")}}
	s := start(t, admin.Options{
		State: fake{}, Control: obedient{}, Agents: a, Sessions: a, Events: a, Approvals: a,
		NoSocket: true, Listen: "127.0.0.1:0", TLS: certs.ServerFiles(filepath.Join(keys, "server")),
	})
	inside, err := s.Local()
	if err != nil {
		t.Fatal(err)
	}
	id, handle := a.approval.GetId(), "demo-1/7"
	for name, c := range map[string]struct {
		conn    grpc.ClientConnInterface
		answers bool
	}{
		"a viewer":     {as(t, s, filepath.Join(keys, "viewer")), false},
		"an approver":  {as(t, s, filepath.Join(keys, "approver")), true},
		"an operator":  {as(t, s, filepath.Join(keys, "operator")), true},
		"this process": {inside, true},
	} {
		for where, got := range questionIDs(t, c.conn, c.answers) {
			want := handle
			if c.answers && where != "only_look" {
				want = id
			}
			if got != want {
				t.Errorf("%s is notified of %q by %s, want %q", name, got, where, want)
			}
		}
	}
	if a.approval.GetId() != id {
		t.Errorf("the question itself was changed: %s", a.approval.GetId())
	}
}
