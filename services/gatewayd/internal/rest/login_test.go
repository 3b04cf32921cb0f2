package rest

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestLogin_ReturnsPageAndCompletesLater(t *testing.T) {
	r := newRig(t)
	next, _ := r.follow("?session=s", "")
	<-r.from
	status, text := r.do("POST", "/agents/{agent_id}/login", "/agents/a1/login", `{"methodId": "browser"}`)
	if status != 200 || !strings.Contains(text, `"url":"https://example.com/login"`) || !strings.Contains(text, `"done":false`) {
		t.Fatalf("%d %s", status, text)
	}
	want := &supervisorv1.AnswerApprovalRequest{Id: "q1", Answer: &supervisorv1.AnswerApprovalRequest_Accept{Accept: "{}"}}
	if got, _ := r.last(); !proto.Equal(got, want) {
		t.Errorf("the page was answered with %v, want %v", got, want)
	}
	close(r.finish)
	got := next()
	if got.name != "auth.complete" || got.data != `{"agentId":"a1","methodId":"browser"}` || got.id != "" {
		t.Errorf("got %+v", got)
	}
	r.conforms("auth.complete", "/components/schemas/LoginCompleted", []byte(got.data))
}

func TestLogin_PageWithoutQuestionIsNotAnswered(t *testing.T) {
	r := newRig(t)
	next, _ := r.follow("?session=s", "")
	<-r.from
	status, text := r.do("POST", "/agents/{agent_id}/login", "/agents/a1/login", `{"methodId": "older"}`)
	if status != 200 || !strings.Contains(text, `"url":"https://example.com/login"`) || !strings.Contains(text, `"done":false`) {
		t.Fatalf("%d %s", status, text)
	}
	if got, _ := r.last(); got.ProtoReflect().Descriptor().Name() != "AuthenticateRequest" {
		t.Errorf("the supervisor was called with %v after the login began", got)
	}
	close(r.finish)
	if got := next(); got.name != "auth.complete" {
		t.Errorf("got %+v", got)
	}
}

func TestLogin_RejectsInvalidPage(t *testing.T) {
	r := newRig(t)
	for _, page := range []string{"javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "https://", "/relative", "", "HTTPS://\x00"} {
		r.supervisor.url = page
		status, text := r.do("POST", "/agents/{agent_id}/login", "/agents/a1/login", "")
		if status != http.StatusConflict || strings.Contains(text, `"url"`) {
			t.Errorf("%q: %d %s", page, status, text)
		}
		want := &supervisorv1.AnswerApprovalRequest{Id: "q1", Answer: &supervisorv1.AnswerApprovalRequest_Cancel{Cancel: true}}
		if got, _ := r.last(); !proto.Equal(got, want) {
			t.Errorf("%q was answered with %v, want %v", page, got, want)
		}
	}
}

func TestLogin_EndsWithToken(t *testing.T) {
	r := newRig(t)
	next, _ := r.follow("", "")
	<-r.from
	if status, text := r.do("POST", "/agents/{agent_id}/login", "/agents/a1/login", ""); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	r.revoked.Store(true)
	r.calls.Sweep()
	for got := next(); got.name != ""; got = next() {
		if got.name == "auth.complete" && !strings.Contains(got.data, "error") {
			t.Errorf("got %+v", got)
		}
	}
}
