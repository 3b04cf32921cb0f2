package link

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/question"
)

func TestUnattended_TimesOut(t *testing.T) {
	reject := strings.Replace(answerYes, `"a"`, `"r"`, 1)
	for name, tt := range map[string]struct {
		line, answer string
		program      bool
		decide       permissionv1.Verdict
		end          question.End
	}{
		"no":               {askedEdit, reject, false, gate.Deny, question.End{Outcome: question.Expired, Option: "r", By: "nobody"}},
		"yes, by a policy": {askedEdit, answerYes, true, gate.Allow, question.End{Outcome: question.Allowed, Option: "a", By: "nobody"}},
		"a form":           {askedForm, `{"jsonrpc":"2.0","id":"\u0071","result":{"action":"cancel"}}`, true, gate.Deny, question.End{Outcome: question.Expired, By: "nobody"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &witness{}
			var there atomic.Bool
			there.Store(true)
			r, d := watchedRig(t, func(o *Options) {
				o.Observer, o.Program = w, tt.program
				o.Attended, o.Unattended = there.Load, 50*time.Millisecond
			})
			r.handler.decide = func(context.Context, *permissionv1.Action) (*permissionv1.DecideResponse, error) {
				return &permissionv1.DecideResponse{Verdict: gate.Ask, Unattended: tt.decide}, nil
			}
			r.open(`{}`)
			r.agent.send(tt.line)
			q := d.question()
			if !q.Expires.IsZero() {
				t.Errorf("it ends at %v, though somebody is there", q.Expires)
			}
			r.client.want(tt.line)
			there.Store(false)
			if at := <-d.expires; time.Until(at) > 50*time.Millisecond {
				t.Errorf("it ends in %v", time.Until(at))
			}
			d.want(tt.end)
			r.agent.want(tt.answer)
			if m := parse(t, r.client.next()); m.Method != "$/cancel_request" {
				t.Errorf("the client was told %+v", m)
			}
			if got := w.by(frame.OursToAgent, "nobody"); len(got) != 1 || got[0] != tt.answer {
				t.Errorf("frames: %q", got)
			}
		})
	}
	t.Run("one of ours", func(t *testing.T) {
		w := &witness{}
		r, d := watchedRig(t, func(o *Options) {
			o.Observer = w
			o.Attended, o.Unattended = func() bool { return false }, 20*time.Millisecond
		})
		r.open(`{}`)
		r.agent.send(fmt.Sprintf(writeCall, 7, 1))
		q := d.question()
		if q.Expires.Sub(q.Asked) != 20*time.Millisecond {
			t.Errorf("it ends after %v", q.Expires.Sub(q.Asked))
		}
		d.want(question.End{Outcome: question.Expired, Option: acp.RejectOnce, By: "nobody"})
		r.agent.wantError("7", -32603, "no user answered within 20ms")
		if got := w.by(frame.ClientToOurs, "nobody"); len(got) != 1 || got[0] != choose(q.ID, acp.RejectOnce) {
			t.Errorf("frames: %q", got)
		}
	})
}

func TestUnattended_WaitsForLateAttendance(t *testing.T) {
	for name, line := range map[string]string{"a permission question": askedEdit, "one of ours": fmt.Sprintf(writeCall, 7, 1)} {
		t.Run(name, func(t *testing.T) {
			var there atomic.Bool
			r, d := watchedRig(t, func(o *Options) { o.Attended, o.Unattended = there.Load, 20*time.Millisecond })
			r.open(`{}`)
			r.agent.send(line)
			q := d.question()
			there.Store(true)
			if q.Expires.IsZero() {
				t.Error("it waits without an end, though nobody is there")
			}
			if at := <-d.expires; !at.IsZero() {
				t.Errorf("it ends at %v", at)
			}
			if _, err := r.Answer(q.ID, question.Answer{Cancel: true}, "cli"); err != nil {
				t.Error(err)
			}
			d.want(question.End{Outcome: question.Cancelled, By: "cli"})
		})
	}
}

func TestUnattended_ProgramCancelsElicitation(t *testing.T) {
	w := &witness{}
	r, _ := watchedRig(t, func(o *Options) {
		o.Observer, o.Program, o.Attended = w, true, func() bool { return false }
	})
	r.open(`{}`)
	r.agent.send(askedForm, `{"method":"_marker"}`)
	want := `{"jsonrpc":"2.0","id":"\u0071","result":{"action":"cancel"}}`
	r.agent.want(want)
	r.client.want(`{"method":"_marker"}`)
	if got := w.by(frame.OursToAgent, "nobody"); len(got) != 1 || got[0] != want {
		t.Errorf("frames: %q", got)
	}
	if got := w.by(frame.AgentToHandler, GateName); len(got) != 1 || got[0] != askedForm {
		t.Errorf("frames: %q", got)
	}
}

func TestUnattended_SupportedElicitationWaits(t *testing.T) {
	r, d := watchedRig(t, func(o *Options) {
		o.Program, o.Attended, o.Unattended = true, func() bool { return false }, time.Millisecond
	})
	r.open(`{"elicitation":{"form":{}}}`)
	r.agent.send(askedForm, askedEdit)
	q := d.question()
	d.question()
	d.want(question.End{Outcome: question.Expired, Option: "r", By: "nobody"}) // a permission request times out
	if _, err := r.Answer(q.ID, question.Answer{Decline: true}, "cli"); err != nil {
		t.Fatal(err)
	}
	d.want(question.End{Outcome: question.Declined, By: "cli"})
}
