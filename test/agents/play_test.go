package agents

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
)

// play plays an act as a separate turn, and returns what the turn showed of it. The act is over when the model has
// received the result of the call and the turn has ended. If the turn ends before that, as it does for some agents when
// the user rejects, play prompts again. recorded adds acphost's records of the act later, because records may be
// written after the turn's end.
func (r *rig) play(s *supervisorv1.Session, m *Model, a act, answer string) seen {
	r.t.Helper()
	input := a.call.Free
	if input == "" {
		text, _ := json.Marshal(a.call.Args)
		input = string(text)
	}
	is := seen{Does: a.does, Call: r.anonymous(a.call.Name + " " + input)}
	ordered := len(m.Requests()) // the request that is answered with the call
	m.Play(Step{Calls: []Call{a.call}})
	var ends []string
	for len(m.Requests()) < ordered+2 {
		if is.prompts++; is.prompts > 3 {
			r.t.Fatalf("%s: the agent was prompted %d times, and sent the model %d requests in place of two or more; the turns ended with %q",
				a.does, is.prompts-1, len(m.Requests())-ordered, ends)
		}
		r.prompt(s, "Go on.").until("the turn's end", func(e *supervisorv1.Event) bool {
			if q := e.GetQuestionAsked(); q != nil {
				is.Questions = append(is.Questions, r.why(q))
				r.reply(q, answer)
			}
			if end := e.GetTurnEnded(); end != nil {
				ends = append(ends, fmt.Sprint(end.GetStopReason(), end.GetError()))
			}
			return e.GetTurnEnded() != nil
		})
	}
	if a.changed != nil {
		is.Worked = a.changed()
	} else {
		before := m.Requests()[ordered]
		is.Worked = bytes.Count(m.Newest(), []byte(a.answer)) > bytes.Count(before, []byte(a.answer)) // an agent may have repeated a request
	}
	return is
}

// reply answers a question as the user of a session does: with the option of a kind, once if it is not offered for
// always, or, to a form, not at all.
func (r *rig) reply(q *supervisorv1.Approval, answer string) {
	offered := func(o *supervisorv1.PermissionOption) bool { return o.GetKind() == answer }
	if !slices.ContainsFunc(q.GetPermission().GetOptions(), offered) {
		answer = strings.Replace(answer, "_always", "_once", 1)
	}
	reply := client.Choose(answer)
	if q.GetElicitation() != nil {
		reply = client.Decline()
	}
	if _, err := r.Answer(r.ctx, q.GetId(), "tester", reply); err != nil {
		r.t.Logf("answer %s to %v: %v", answer, q, explain(err))
		_, _ = r.Answer(r.ctx, q.GetId(), "tester", client.Undecided())
	}
}

// why is a question's kind and reason.
func (r *rig) why(q *supervisorv1.Approval) string {
	if e := q.GetElicitation(); e != nil {
		return "form: " + r.anonymous(e.GetMessage())
	}
	p := q.GetPermission()
	subject := "the agent asks"
	if p.GetFromAcphost() {
		subject = "acphost asks"
	}
	return r.anonymous(fmt.Sprintf("%s, %s, %q: %s", subject, p.GetKind(), p.GetTitle(), p.GetReason()))
}

// anonymous is text without the paths of this run.
func (r *rig) anonymous(text string) string {
	text = portOf.ReplaceAllString(strings.NewReplacer(r.work, "/ws", r.home, "/home/u").Replace(text), "127.0.0.1:80")
	return cutOf.ReplaceAllString(text, "/ws")
}

// begunCall is the last state of a tool call that its agent reported, and the turn of its first report.
type begunCall struct {
	toolReport
	turn int
}

// recorded adds acphost's records of the acts of a session. The supervisor must have ended, so that all records are
// written.
//
// A record belongs to the act in whose turn the tool call began. A record without a tool call is about a call that the
// agent waited for: its time lies between those of two prompts, by the clock of the supervisor.
func (r *rig) recorded(s *supervisorv1.Session, acts []seen) {
	r.t.Helper()
	var of []*seen // by prompts
	for i := range acts {
		of = append(of, slices.Repeat([]*seen{&acts[i]}, acts[i].prompts)...)
	}
	var prompts []time.Time
	calls := map[string]*begunCall{}
	for _, f := range r.frames(s.GetSessionId(), "") {
		if f.Method == "session/prompt" && f.Dir == "front-to-agent" {
			prompts = append(prompts, f.Time)
		}
		for _, c := range f.calls() {
			is := calls[c.ToolCallID]
			if is == nil {
				is = &begunCall{turn: len(prompts) - 1}
				calls[c.ToolCallID] = is
			}
			is.toolReport = toolReport{c.ToolCallID, cmp.Or(c.Kind, is.Kind), cmp.Or(c.Status, is.Status)}
		}
	}
	if len(prompts) != len(of) {
		r.t.Fatalf("the recording of %s has %d prompts, want %d", s.GetSessionId(), len(prompts), len(of))
	}
	for _, d := range r.judged(s) {
		after, _ := slices.BinarySearchFunc(prompts, d.GetTime().AsTime(), time.Time.Compare)
		turn := after - 1
		if c := calls[d.GetAction().GetToolCallId()]; c != nil {
			turn = c.turn
		}
		if turn < 0 {
			r.t.Fatalf("the audit has a decision about %s before the first prompt: %v", s.GetSessionId(), d)
		}
		of[turn].Reached = append(of[turn].Reached, r.line(d))
	}
	for _, c := range calls {
		if is := of[max(c.turn, 0)]; c.Status == "completed" && len(is.Reached)+len(is.Questions) == 0 {
			is.Reports = append(is.Reports, c.Kind)
		}
	}
	for i := range acts {
		slices.Sort(acts[i].Reports)
	}
}

// line is a decision in a line.
func (r *rig) line(d *supervisorv1.AuditRecord) string {
	line := fmt.Sprintf("%s %s: %s", d.GetDoor(), d.GetAction().GetKind(), d.GetOutcome())
	if d.GetRule() != "" {
		line += " (" + d.GetRule() + ")"
	}
	if d.GetAnsweredBy() != "policy" {
		line += " by " + d.GetAnsweredBy()
	}
	if un := d.GetAction().GetUnparsed(); un != "" {
		line += "; unclear: " + r.anonymous(un)
	}
	return line
}

// judged are a session's decisions; none without a policy.
func (r *rig) judged(s *supervisorv1.Session) []*supervisorv1.AuditRecord {
	r.t.Helper()
	if !exists(filepath.Join(r.home, ".local", "state", "acphost", "audit.jsonl")) {
		return nil
	}
	return slices.DeleteFunc(r.decisions(), func(d *supervisorv1.AuditRecord) bool { return d.GetSessionId() != s.GetSessionId() })
}

// noteDelegates notes the methods that a session's agent had handlers do.
func (r *rig) noteDelegates(s *supervisorv1.Session, into map[string]bool) {
	for _, f := range r.frames(s.GetSessionId(), "") {
		if f.Dir == "agent-to-handler" && f.Handler != "gate" && f.Method != "" {
			into[f.Method] = true
		}
	}
}
