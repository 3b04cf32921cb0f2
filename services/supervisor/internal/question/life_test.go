package question

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
)

// told is one notification of a question.
type told struct {
	what  string
	reply Reply
	end   End
}

// world implements the collaborators of a question, and records its notifications.
type world struct {
	t            *testing.T
	set          *Set
	q            *Question
	unrecordable bool
	unattended   permissionv1.Verdict
	there        atomic.Bool
	decided      bool // the policy has decided; one goroutine sets this
	passed       atomic.Int32
	script       []byte // the rest of it
	raced        bool
	expires      bool // observers know of a time; guarded by Question.telling
	running      sync.WaitGroup
	waiting      atomic.Int32

	mu  sync.Mutex
	log []told
}

func (w *world) note(e told) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, e)
}

func (w *world) Asked(q *Question) {
	w.note(told{what: "asked"})
	w.expires = !q.Expires.IsZero()
}

// Expires implements Observer. A waiting question gets an expiry first, and then loses it, alternately.
func (w *world) Expires(q *Question, at time.Time) {
	w.note(told{what: "expires"})
	if at.IsZero() != w.expires {
		w.t.Errorf("it was told to end at %v once more", at)
	}
	w.expires = !at.IsZero()
}

func (w *world) Ended(_ *Question, e End) { w.note(told{what: "ended", end: e}) }
func (w *world) Reply(r Reply)            { w.note(told{what: "reply", reply: r}) }

func (w *world) Record(_ *gate.Decision, o gate.Outcome, _ bool) error {
	w.note(told{what: "recorded", reply: Reply{Outcome: o}})
	if w.unrecordable && o.Allowed {
		return errors.New("the disk is full")
	}
	return nil
}

func (w *world) Withdraw(_ Reply, write func([]byte)) {
	w.note(told{what: "withdrawn"})
	write([]byte("cancel"))
}

const (
	unattended = time.Minute
	grace      = 5 * time.Second
)

// The kinds of question in a test, from the first byte of its script.
const (
	ownQuestion   = 1 << iota // otherwise the agent's
	isElicitation             // if it is the agent's
	program
	unrecordable
	unattendedYes // the policy's verdict if nobody answers
	nobodyThere
)

func newWorld(t *testing.T, kind byte) *world {
	w := &world{t: t, unrecordable: kind&unrecordable != 0, unattended: gate.Deny}
	if kind&unattendedYes != 0 {
		w.unattended = gate.Allow
	}
	w.there.Store(kind&nobodyThere == 0)
	w.set = NewSet(Options{
		Observer: w, Waiting: func(n int) { w.waiting.Add(int32(n)) }, Post: func(line []byte) { w.note(told{what: "posted " + string(line)}) },
		Attended: w.there.Load, Unattended: unattended, Program: kind&program != 0, Grace: grace,
	})
	q := &Question{ID: []byte("7"), Own: kind&ownQuestion != 0, Method: acp.MethodRequestPermission, Params: []byte(`{}`)}
	if kind&isElicitation != 0 && !q.Own {
		q.Method = acp.MethodElicitationCreate
	} else {
		q.Options = []acp.PermissionOption{{ID: "yes", Kind: acp.AllowOnce}, {ID: "no", Kind: acp.RejectOnce}}
	}
	w.q = w.set.Add(q, w)
	return w
}

// step is an event in the life of a question.
type step struct {
	name string
	do   func(w *world) bool // reports whether it ended the question
	// The step ends questions in these states, "d"eciding, "s"howing, "o"pen; "-": this depends on the kind of question, or on time.
	in string
	// permission, form and own are the outcomes for each kind of question.
	permission, form, own Outcome
}

var steps = []step{
	{"the policy allows", func(w *world) bool {
		return w.decide(gate.Allow) && w.q.Finish(Ending{Cause: PolicyAllows, Option: "yes"})
	}, "-", Allowed, "", ""},
	{"the policy denies", func(w *world) bool { return w.decide(gate.Deny) && w.q.Finish(Ending{Cause: PolicyDenies}) }, "-", Denied, "", ""},
	{"nobody hears", func(w *world) bool {
		if w.q.Method == acp.MethodRequestPermission || w.decided {
			return false
		}
		w.decided = true
		return w.q.Finish(Ending{Cause: Unheard})
	}, "-", "", Cancelled, ""},
	{"the question is put", nil /* put, which plays steps */, "-", "", "", ""},
	{"the client says yes", func(w *world) bool {
		return w.client(`{"outcome":{"outcome":"selected","optionId":"yes"},"action":"accept"}`, "")
	}, "so", Allowed, Accepted, Allowed},
	{"the client says no", func(w *world) bool {
		return w.client(`{"outcome":{"outcome":"selected","optionId":"no"},"action":"decline"}`, "")
	}, "so", Denied, Declined, Denied},
	{"the client names nothing on offer", func(w *world) bool {
		return w.client(`{"outcome":{"outcome":"selected","optionId":"zz"}}`, "")
	}, "so", Denied, Cancelled, Denied},
	{"the client says nothing", func(w *world) bool {
		return w.client(`{"outcome":{"outcome":"cancelled"},"action":"cancel"}`, "")
	}, "so", Cancelled, Cancelled, Cancelled},
	{"the client fails", func(w *world) bool { return w.client("", `{"code":1,"message":"no"}`) }, "so", Cancelled, Cancelled, Cancelled},
	{"the client cannot be read", func(w *world) bool {
		return w.q.Finish(Ending{Cause: Unusable, Why: "garbage"})
	}, "so", Cancelled, Cancelled, Cancelled},
	{"somebody says yes", func(w *world) bool {
		return w.somebody(Answer{Option: "yes"}, Answer{Accept: []byte("{}")})
	}, "so", Allowed, Accepted, Allowed},
	{"somebody says no", func(w *world) bool {
		return w.somebody(Answer{Option: "no"}, Answer{Decline: true})
	}, "so", Denied, Declined, Denied},
	{"somebody says nothing", func(w *world) bool {
		return w.somebody(Answer{Cancel: true}, Answer{Cancel: true})
	}, "so", Cancelled, Cancelled, Cancelled},
	{"the agent cancels", func(w *world) bool { return w.q.Finish(Ending{Cause: AgentCancels}) }, "dso", Withdrawn, Withdrawn, Withdrawn},
	{"the agent changes the call", func(w *world) bool {
		return w.q.Method == acp.MethodRequestPermission && !w.q.Own && w.q.Finish(Ending{Cause: CallChanged})
	}, "-", Denied, "", ""},
	{"the turn is cancelled", func(w *world) bool { return w.q.CancelTurn() }, "-", Cancelled, Cancelled, Withdrawn},
	{"the link is over", func(w *world) bool { return w.q.Finish(Ending{Cause: LinkOver}) }, "dso", Withdrawn, Withdrawn, Withdrawn},
	{"everybody leaves", func(w *world) bool { w.there.Store(false); return false }, "", "", "", ""},
	{"somebody comes", func(w *world) bool { w.there.Store(true); return false }, "", "", "", ""},
	{"time passes", func(w *world) bool { time.Sleep(unattended); return false }, "-", "", "", ""},
	{"a moment passes", func(w *world) bool { time.Sleep(grace); return false }, "-", "", "", ""},
	{"somebody who is called front says yes", func(w *world) bool {
		return w.answer(Answer{Option: "yes"}, Answer{Accept: []byte("{}")}, gate.ByClient)
	}, "so", Allowed, Accepted, Allowed},
}

// The number of steps of the asker itself, which come one after the other.
const owned = 4

// A byte of a script has a step in its lower bits, and the step's time in the upper two.
const (
	alone        = 0 << 6 // before the next step begins
	together     = 1 << 6 // while the next steps happen
	whileShowing = 2 << 6 // while observers are notified of the question; otherwise like together
	whileWriting = 3 << 6 // while the question is written; otherwise like together
)

// decide stores the policy's decision, once; false: the decision has no effect.
func (w *world) decide(v permissionv1.Verdict) bool {
	if w.decided || w.q.Method != acp.MethodRequestPermission {
		return false
	}
	if v != gate.Ask && w.q.Own {
		return false
	}
	w.decided = true
	return w.q.Decided(&gate.Decision{Verdict: v, Reason: "because", Unattended: w.unattended})
}

func (w *world) client(result, jerr string) bool {
	m := &jsonrpc.Message{}
	if result != "" {
		m.Result = []byte(result)
	} else {
		m.Error = []byte(jerr)
	}
	if !w.q.ClientAnswered(m) {
		return false
	}
	w.passed.Add(1)
	return true
}

func (w *world) somebody(permission, form Answer) bool { return w.answer(permission, form, "somebody") }

func (w *world) answer(permission, form Answer, by string) bool {
	if w.q.Method != acp.MethodRequestPermission {
		permission = form
	}
	end, err := w.q.Answer(permission, by)
	if err != nil && !errors.Is(err, ErrNotOpen) {
		w.t.Errorf("answer: %v", err)
	}
	return err == nil && end == w.q.End()
}

// put sends the question to the client, and performs the steps that are due meanwhile.
func (w *world) put() {
	if w.decided {
		return
	}
	if w.q.Own {
		w.q.Decided(&gate.Decision{Verdict: gate.Ask, Unattended: w.unattended})
	} else if w.q.Method == acp.MethodRequestPermission && !w.decide(gate.Ask) {
		return
	}
	w.decided = true
	if err := w.q.Ask(func(show func(func()) bool) error {
		if !show(func() { w.note(told{what: "seen"}); w.during(whileShowing) }) {
			return ErrEnded
		}
		w.during(whileWriting)
		w.note(told{what: "written"})
		return nil
	}); err != nil {
		w.t.Errorf("ask: %v", err)
	}
}

// during performs the next steps of the script that are due at a time, as far as possible while that lasts.
func (w *world) during(when byte) {
	for len(w.script) > 0 && w.script[0]&(3<<6) == when && w.next() >= owned {
		w.step()
		synctest.Wait()
	}
}

func (w *world) next() int { return int(w.script[0]&^(3<<6)) % len(steps) }

// step performs the next step of the script, and checks that it ends the question if and only if the table says so.
func (w *world) step() {
	s, when := &steps[w.next()], w.script[0]&(3<<6)
	own := w.next() < owned
	w.script = w.script[1:]
	switch {
	case s.do == nil:
		w.put()
		return
	case own:
		s.do(w)
		return
	}
	before := w.q.State()
	w.running.Go(func() { s.do(w) })
	if when != alone {
		w.raced = true // the order of further events is not determined
		return
	}
	synctest.Wait()
	if w.raced || s.in == "-" || before == Ended {
		return
	}
	after := w.q.State()
	if want := strings.Contains(s.in, string("dso"[before])); want != (after == Ended) {
		w.t.Errorf("%q in state %d leads to state %d", s.name, before, after)
	}
	if after == Ended && before != Showing {
		w.endedBy(s)
	}
}

// endedBy checks the results of a question that a step ended.
func (w *world) endedBy(s *step) {
	want := s.permission
	switch {
	case w.q.Own:
		want = s.own
	case w.q.Method != acp.MethodRequestPermission:
		want = s.form
	}
	if want == Allowed && w.unrecordable {
		want = Denied
	}
	if got := w.q.End(); got.Outcome != want {
		w.t.Errorf("%q: it ended as %+v, want %s", s.name, got, want)
	}
}

// play performs a script, and checks the invariants.
func play(t *testing.T, script []byte) {
	w := newWorld(t, script[0])
	w.script = script[1:]
	for len(w.script) > 0 {
		w.step()
	}
	w.running.Wait()
	time.Sleep(10 * unattended) // timers expire
	over := w.q.Finish(Ending{Cause: LinkOver})
	<-w.q.Done()
	w.running.Wait()
	synctest.Wait()
	w.check(over)
}

func (w *world) check(over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := func(what string) int {
		return slices.IndexFunc(w.log, func(e told) bool { return e.what == what })
	}
	for i, e := range w.log {
		if e.what != "expires" && at(e.what) != i {
			w.t.Errorf("%s twice: %v", e.what, w.log)
		}
	}
	asked, ended, reply, recorded, withdrawn := at("asked"), at("ended"), at("reply"), at("recorded"), at("withdrawn")
	if reply < 0 || (asked < 0) != (ended < 0) || ended >= 0 && (ended < asked || reply < ended) ||
		recorded > reply || ended >= 0 && recorded > ended || withdrawn > reply || withdrawn >= 0 && withdrawn < ended {
		w.t.Errorf("out of order: %v", w.log)
	}
	for i, e := range w.log {
		if i > reply && e.what != "written" && e.what != "posted cancel" || e.what == "expires" && (i < asked || i > ended) {
			w.t.Errorf("%s comes after the end, or before the beginning: %v", e.what, w.log)
		}
	}
	if posted := at("posted cancel"); (posted >= 0) != (withdrawn >= 0) || posted >= 0 && posted < at("written") {
		w.t.Errorf("the client is told to forget what it was not asked: %v", w.log)
	}
	r, end := w.log[reply].reply, w.q.End()
	if ended >= 0 && w.log[ended].end != end || r.End != end {
		w.t.Errorf("it ended as %+v, and this was told: %v", end, w.log)
	}
	// One answer, to the agent or to the asker of acphost's own question.
	answers := int(w.passed.Load())
	if r.Result != nil {
		answers++
	}
	if r.Error != nil {
		answers++
	}
	if want := 1; answers != want && !w.q.Own && !over && r.Ending.Cause != LinkOver || answers > want || w.q.Own && (r.Result != nil || r.Error != nil) {
		w.t.Errorf("%d answers: %+v", answers, r)
	}
	// An action without a record is not allowed.
	allowed := recorded >= 0 && w.log[recorded].reply.Outcome.Allowed && !w.unrecordable
	if w.q.Method == acp.MethodRequestPermission && (strings.Contains(string(r.Result), "yes") && !allowed || end.Outcome == Allowed && !allowed ||
		end.Outcome == Allowed && end.Option != "yes") {
		w.t.Errorf("it ended as %+v, and was recorded as %v", end, w.log)
	}
	if s := w.set; s.open != 0 || s.bytes != 0 || w.waiting.Load() != 0 {
		w.t.Errorf("%d questions of %d bytes are left, and %d are counted", s.open, s.bytes, w.waiting.Load())
	}
	// If the client has not given its final answer, an answer may still arrive.
	spent := asked >= 0 && !w.q.Own && !r.Ending.byClient() && r.Ending.Cause != LinkOver
	if w.set.Spent(w.q.ID) != spent {
		w.t.Errorf("its id is spent: %v, after %+v", !spent, r.Ending)
	}
}

func FuzzQuestion_EndsOnce(f *testing.F) {
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) == 0 || len(script) > 32 {
			return
		}
		synctest.Test(t, func(t *testing.T) { play(t, script) })
	})
}

// TestFinish_EveryCauseAndKind performs each step alone, in each state, for each kind of question, and each pair of steps at the same time.
func TestFinish_EveryCauseAndKind(t *testing.T) {
	const put = 3
	for kind := range byte(1 << 6) {
		for a := byte(owned); int(a) < len(steps); a++ {
			for _, script := range [][]byte{{a}, {put, a}, {put, whileShowing | a}, {put, whileWriting | a}, {a, put}} {
				t.Run(fmt.Sprintf("%d/%s", kind, steps[a].name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { play(t, append([]byte{kind}, script...)) })
				})
			}
			for b := byte(owned); int(b) < len(steps) && kind&(nobodyThere|unattendedYes) == 0; b++ {
				synctest.Test(t, func(t *testing.T) { play(t, []byte{kind, put, together | a, together | b}) })
			}
		}
		for own := range byte(put) {
			synctest.Test(t, func(t *testing.T) { play(t, []byte{kind, own}) })
		}
	}
}
