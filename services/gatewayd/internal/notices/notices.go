// Package notices tells people who look elsewhere that a question waits: by a webhook, by ntfy, on the desktop. A
// notice leads to the question; it carries nothing by which the question could be answered.
//
// A person is told once of each question that has waited for a while, and of no other. Questions that come at once
// are one notice. Whoever is slow to take notices gets fewer of them, and holds up nobody.
//
// The package knows questions and who is told of them. It must not know how a question is answered.
package notices

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/acphost/acphost/internal/delegation"
	"github.com/acphost/acphost/internal/panics"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
)

const (
	// apart is the least time between two notices to one place: agents choose when they ask.
	apart = 10 * time.Second
	// backoff is how long after a failure it is tried once more.
	backoff = 3 * time.Second
	// firstWait and lastWait are how soon the supervisor is called again that was lost, at first and at last.
	firstWait, lastWait = time.Second, 30 * time.Second
	// maxListed is how many questions a notice lists; of the others it has the number.
	maxListed = 20
	// maxDetails and maxName bound what a notice shows of a question, in characters, and maxSession the id of a session
	// in a link.
	maxDetails, maxName, maxSession = 200, 64, 200
)

// Question is one that a notice tells of.
type Question struct {
	// AgentID is the agent that asks.
	AgentID string `json:"agentId"`
	// SessionID is that of the session; "": there is none, or an agent chose a very long one.
	SessionID string `json:"sessionId,omitempty"`
	// Link shows the question in the console.
	Link string `json:"link"`
	// Asked is when it was asked, and Expires when it ends by itself; nil: it does not.
	Asked   time.Time  `json:"askTime"`
	Expires *time.Time `json:"expireTime,omitempty"`
	// Details are the agent's own words, on one line; "" unless Options.Details.
	Details string `json:"details,omitempty"`
}

// Notice is what a person is told.
type Notice struct {
	// Title is one line of ASCII.
	Title string
	// Text names the agent. It is one line.
	Text string
	// Details are those of the only question; "": there are more, or they are not told.
	Details string
	// Link is where the notice leads to. It is ASCII.
	Link string
	// Count is how many questions it is about, and Questions are the oldest of them.
	Count     int
	Questions []Question
}

// Channel is a way by which people are told.
type Channel interface {
	// String names the channel in the log, without what is secret in its address.
	String() string
	// Send sends a notice. It ends soon after ctx, and is not called again before it has. An error is logged; errFinal
	// says that it is no use to try again.
	Send(ctx context.Context, n Notice) error
}

// errFinal is in the errors of Send that would come again.
var errFinal = errors.New("it is not tried again")

// Watch is client.Client's WatchApprovals.
type Watch func(context.Context, *supervisorv1.WatchApprovalsRequest) (iter.Seq2[*supervisorv1.WatchApprovalsResponse, error], error)

// Options are what a Watcher is made of.
type Options struct {
	Watch    Watch
	Channels []Channel
	// Base is the origin of the console, "https://acp.example.org".
	Base string
	// Grace is how long a question waits before anybody is told of it.
	Grace time.Duration
	// Details: notices show what the agent wants, in its words.
	Details bool
	Logger  *slog.Logger
}

// Watcher sends notices. Run runs it.
type Watcher struct {
	Options

	mu      sync.Mutex        // guards what follows
	open    map[string]*entry // by handle
	current bool              // open is what waits now, as far as the supervisor has said
	changed chan struct{}     // closed when one of these changes
}

// entry is a question that waits.
type entry struct {
	Question
	handle string
	due    time.Time
	told   map[Channel]bool
}

// New returns a Watcher.
func New(o Options) *Watcher {
	return &Watcher{Options: o, open: map[string]*entry{}, changed: make(chan struct{})}
}

// Run sends notices until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, c := range w.Channels {
		all.Go(panics.Guard(w.Logger, "sending notices by "+c.String(), func() { w.tell(ctx, c) }))
	}
	w.watch(ctx)
	all.Wait()
}

// watch keeps up with the supervisor, and calls it again when it is lost.
func (w *Watcher) watch(ctx context.Context) {
	lost := false
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		err := w.follow(ctx, func() {
			if lost {
				w.Logger.Info("notices: the supervisor tells what waits again")
			}
			lost, wait = false, firstWait
		})
		w.change(func() { w.current = false })
		if ctx.Err() == nil && !lost {
			lost = true
			w.Logger.Warn("notices: the supervisor does not tell which questions wait; it is asked again until it does. "+
				"If it does not let this gateway ask: make its certificate by \"acphost certs gateway --acts-as ROLE\"", "error", err)
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

// follow takes in what one call of the supervisor tells, and calls caughtUp when it has told what waits.
func (w *Watcher) follow(ctx context.Context, caughtUp func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, delegation.Caller{Name: "notices", Role: delegation.Viewer}.Metadata()...)
	changes, err := w.Watch(ctx, &supervisorv1.WatchApprovalsRequest{OnlyLook: true})
	if err != nil {
		return err
	}
	before := map[string]bool{} // those that wait as the call begins
	for c, err := range changes {
		if err != nil {
			return err
		}
		w.change(func() {
			switch {
			case c.GetAsked() != nil:
				e := w.entry(c.GetAsked())
				if before != nil {
					before[e.handle] = true
				}
				if known := w.open[e.handle]; known == nil || !known.Asked.Equal(e.Asked) {
					w.open[e.handle] = e
				}
			case c.GetAnswered() != nil:
				delete(w.open, client.Handle(c.GetAnswered().GetId()))
			case c.GetCaughtUp() != nil && before != nil:
				for handle := range w.open {
					if !before[handle] { // it was answered meanwhile
						delete(w.open, handle)
					}
				}
				before, w.current = nil, true
			}
		})
		if c.GetCaughtUp() != nil {
			caughtUp()
		}
	}
	return errors.New("the supervisor ends, or has ended the call")
}

// change changes what is known, and wakes who waits for that.
func (w *Watcher) change(how func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	how()
	close(w.changed)
	w.changed = make(chan struct{})
}

// entry is a question that was asked now. How long it has waited is told by this machine's clock.
func (w *Watcher) entry(a *supervisorv1.Approval) *entry {
	e := &entry{handle: client.Handle(a.GetId()), due: time.Now().Add(w.Grace), told: map[Channel]bool{}}
	e.AgentID, e.Asked = line(a.GetAgentId(), maxName), a.GetTime().AsTime()
	if a.GetExpireTime() != nil {
		at := a.GetExpireTime().AsTime()
		e.Expires = &at
	}
	e.Link = w.inbox()
	if s := a.GetSessionId(); s != "" && len(s) <= maxSession {
		e.SessionID, e.Link = s, w.Base+"/console/#/session/"+segment(a.GetAgentId())+"/"+segment(s)
	}
	if w.Details {
		e.Details = line(cmp.Or(a.GetPermission().GetTitle(), a.GetElicitation().GetMessage()), maxDetails)
	}
	return e
}

// line is text of an agent on one line, of characters that can be seen.
func line(text string, most int) string {
	return delegation.Presentable(text[:min(len(text), 8*most)], most) // no more is read of what may be long
}

// segment is a part of a path: letters, digits, and escapes for the rest, so that it means nothing anywhere.
func segment(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

func (w *Watcher) inbox() string { return w.Base + "/console/#/inbox" }

// tell tells one channel what is due, a notice at a time.
func (w *Watcher) tell(ctx context.Context, c Channel) {
	for {
		due, next, changed := w.take(c)
		if len(due) == 0 {
			select {
			case <-changed:
			case <-next:
			case <-ctx.Done():
				return
			}
			continue
		}
		w.send(ctx, c, due)
		if !sleep(ctx, apart) {
			return
		}
	}
}

// take takes the questions that a channel is to tell of now, the oldest first, and says when there may be others.
func (w *Watcher) take(c Channel) (due []*entry, next <-chan time.Time, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.current { // who knows what was answered
		return nil, nil, w.changed
	}
	wait := time.Duration(-1)
	for _, e := range w.open {
		switch left := time.Until(e.due); {
		case e.told[c]:
		case left <= 0:
			due, e.told[c] = append(due, e), true
		case wait < 0 || left < wait:
			wait = left
		}
	}
	if wait >= 0 {
		next = time.After(wait)
	}
	slices.SortFunc(due, func(a, b *entry) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.handle, b.handle)) })
	return due, next, w.changed
}

// send sends the notice of some questions, and tries once more if that fails and they still wait.
func (w *Watcher) send(ctx context.Context, c Channel, about []*entry) {
	err := c.Send(ctx, w.notice(about))
	if err == nil || ctx.Err() != nil {
		return
	}
	if !errors.Is(err, errFinal) {
		w.Logger.Info("notices: a notice failed, and is tried once more", "by", c.String(), "error", err)
		if !sleep(ctx, backoff) {
			return
		}
		if about = w.waiting(about); len(about) == 0 {
			return
		}
		if err = c.Send(ctx, w.notice(about)); err == nil || ctx.Err() != nil {
			return
		}
	}
	w.Logger.Error("notices: nobody was told that questions wait", "by", c.String(), "questions", len(about), "error", err)
}

// waiting are those of some questions that nobody has answered yet.
func (w *Watcher) waiting(some []*entry) []*entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(some, func(e *entry) bool { return w.open[e.handle] != e })
}

// notice is the notice of some questions.
func (w *Watcher) notice(about []*entry) Notice {
	n := Notice{Title: "acphost: a question waits", Count: len(about)}
	for _, e := range about[:min(len(about), maxListed)] {
		n.Questions = append(n.Questions, e.Question)
	}
	first := n.Questions[0]
	if len(about) == 1 {
		n.Text, n.Details, n.Link = "The agent "+first.AgentID+" asks.", first.Details, first.Link
		return n
	}
	n.Title, n.Text, n.Link = fmt.Sprintf("acphost: %d questions wait", len(about)), "The agent "+first.AgentID+" asked first.", w.inbox()
	return n
}

// sleep waits; false: ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
