// Package notices notifies people who are not watching that a question waits: by a webhook, by ntfy, on the desktop. A
// notice links to the question; it contains nothing that allows answering.
//
// A person gets one notice of each question that has waited for a while. Questions that are due at the same time share
// a notice. A slow channel gets fewer notices, and does not delay others.
//
// The package knows questions and channels. It must not know how a question is answered.
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
	// minInterval is the minimum time between two notices of one channel: agents choose when they ask.
	minInterval = 10 * time.Second
	// backoff is the pause before the one retry after a failure.
	backoff = 3 * time.Second
	// minRetryDelay and lastWait are the first and the longest pause before the supervisor is called again after a lost
	// connection.
	minRetryDelay, maxRetryDelay = time.Second, 30 * time.Second
	// maxListed is how many questions a notice lists; further ones are only counted.
	maxListed = 20
	// maxDetails and maxName bound a question's texts in a notice, in characters; maxSession bounds a session's id in a
	// link.
	maxDetails, maxName, maxSession = 200, 64, 200
)

// Question is a question in a notice.
type Question struct {
	// AgentID is the id of the agent that asks.
	AgentID string `json:"agentId"`
	// SessionID is the id of the session; "" if none exists, or the agent chose one that is too long.
	SessionID string `json:"sessionId,omitempty"`
	// Link shows the question in the console.
	Link string `json:"link"`
	// Asked is when it was asked, Expires when it times out; nil: never.
	Asked   time.Time  `json:"askTime"`
	Expires *time.Time `json:"expireTime,omitempty"`
	// Details are the agent's own text, on one line; "" unless Options.Details.
	Details string `json:"details,omitempty"`
}

// Notice is a message to a person.
type Notice struct {
	// Title is one line of ASCII.
	Title string
	// Text names the agent. It is one line.
	Text string
	// Details are those of the only question; "": there are several questions, or details are off.
	Details string
	// Link opens the question in the console. It is ASCII.
	Link string
	// Count is the number of questions, and Questions are the oldest of them.
	Count     int
	Questions []Question
}

// Channel sends notices to people.
type Channel interface {
	// String returns the channel's name for the log, without secret parts of its address.
	String() string
	// Send sends a notice. It returns soon after ctx ends, and is not called concurrently. An error is logged; errFinal
	// means that a retry is useless.
	Send(ctx context.Context, n Notice) error
}

// errFinal is wrapped in errors of Send that a retry would return again.
var errFinal = errors.New("it is not tried again")

// Watch watches approvals, as client.Client.WatchApprovals does.
type Watch func(context.Context, *supervisorv1.WatchApprovalsRequest) (iter.Seq2[*supervisorv1.WatchApprovalsResponse, error], error)

// Options configure a Watcher.
type Options struct {
	Watch    Watch
	Channels []Channel
	// Base is the origin of the console, "https://acp.example.org".
	Base string
	// Grace is how long a question waits before a notice is sent.
	Grace time.Duration
	// Details: notices contain the agent's text.
	Details bool
	Logger  *slog.Logger
}

// Watcher sends notices.
type Watcher struct {
	Options

	mu      sync.Mutex        // guards the fields below
	open    map[string]*entry // by handle
	current bool              // open holds all questions that the supervisor has reported as waiting
	changed chan struct{}     // closed when a field changes
}

// entry is a waiting question.
type entry struct {
	Question
	handle   string
	due      time.Time
	notified map[Channel]bool
}

// New returns a Watcher.
func New(o Options) *Watcher {
	return &Watcher{Options: o, open: map[string]*entry{}, changed: make(chan struct{})}
}

// Run sends notices until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, c := range w.Channels {
		all.Go(panics.Guard(w.Logger, "sending notices by "+c.String(), func() { w.serveChannel(ctx, c) }))
	}
	w.watch(ctx)
	all.Wait()
}

// watch watches the supervisor's questions, and calls it again after a lost connection.
func (w *Watcher) watch(ctx context.Context) {
	lost := false
	for wait := minRetryDelay; ; wait = min(2*wait, maxRetryDelay) {
		err := w.follow(ctx, func() {
			if lost {
				w.Logger.Info("notices: the supervisor reports pending questions again")
			}
			lost, wait = false, minRetryDelay
		})
		w.change(func() { w.current = false })
		if ctx.Err() == nil && !lost {
			lost = true
			w.Logger.Warn("notices: the supervisor does not report pending questions; the call is repeated until it does. "+
				"If it does not let this gateway ask: make its certificate by \"acphost certs gateway --acts-as ROLE\"", "error", err)
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

// follow applies the messages of one call, and calls caughtUp after the questions that waited at its start.
func (w *Watcher) follow(ctx context.Context, caughtUp func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, delegation.Caller{Name: "notices", Role: delegation.Viewer}.Metadata()...)
	changes, err := w.Watch(ctx, &supervisorv1.WatchApprovalsRequest{OnlyLook: true})
	if err != nil {
		return err
	}
	before := map[string]bool{} // those that waited when the call began
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
					if !before[handle] { // answered in the meantime
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

// change applies how, and wakes waiters.
func (w *Watcher) change(update func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	update()
	close(w.changed)
	w.changed = make(chan struct{})
}

// entry returns the entry of a new question. This machine's clock measures how long it waits.
func (w *Watcher) entry(a *supervisorv1.Approval) *entry {
	e := &entry{handle: client.Handle(a.GetId()), due: time.Now().Add(w.Grace), notified: map[Channel]bool{}}
	e.AgentID, e.Asked = singleLine(a.GetAgentId(), maxName), a.GetTime().AsTime()
	if a.GetExpireTime() != nil {
		at := a.GetExpireTime().AsTime()
		e.Expires = &at
	}
	e.Link = w.inbox()
	if s := a.GetSessionId(); s != "" && len(s) <= maxSession {
		e.SessionID, e.Link = s, w.Base+"/console/#/session/"+escapeSegment(a.GetAgentId())+"/"+escapeSegment(s)
	}
	if w.Details {
		e.Details = singleLine(cmp.Or(a.GetPermission().GetTitle(), a.GetElicitation().GetMessage()), maxDetails)
	}
	return e
}

// singleLine returns an agent's text on one line, with visible characters only.
func singleLine(text string, maxChars int) string {
	return delegation.Presentable(text[:min(len(text), 8*maxChars)], maxChars) // do not process all of a long text
}

// escapeSegment escapes a path segment: only letters and digits stay, so that it has no special meaning anywhere.
func escapeSegment(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

func (w *Watcher) inbox() string { return w.Base + "/console/#/inbox" }

// serveChannel sends the due notices of one channel, one at a time.
func (w *Watcher) serveChannel(ctx context.Context, c Channel) {
	for {
		due, next, changed := w.takeDue(c)
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
		if !sleep(ctx, minInterval) {
			return
		}
	}
}

// takeDue takes the questions that are due for a channel, oldest first, and returns when others may be due.
func (w *Watcher) takeDue(c Channel) (due []*entry, next <-chan time.Time, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.current { // it is unknown which questions were answered
		return nil, nil, w.changed
	}
	wait := time.Duration(-1)
	for _, e := range w.open {
		switch left := time.Until(e.due); {
		case e.notified[c]:
		case left <= 0:
			due, e.notified[c] = append(due, e), true
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

// send sends the notice of some questions, and retries once if that fails and they still wait.
func (w *Watcher) send(ctx context.Context, c Channel, questions []*entry) {
	err := c.Send(ctx, w.notice(questions))
	if err == nil || ctx.Err() != nil {
		return
	}
	if !errors.Is(err, errFinal) {
		w.Logger.Info("notices: a notice failed, and is tried once more", "by", c.String(), "error", err)
		if !sleep(ctx, backoff) {
			return
		}
		if questions = w.waiting(questions); len(questions) == 0 {
			return
		}
		if err = c.Send(ctx, w.notice(questions)); err == nil || ctx.Err() != nil {
			return
		}
	}
	w.Logger.Error("a notice of waiting questions could not be sent", "by", c.String(), "questions", len(questions), "error", err)
}

// waiting returns the questions that still wait.
func (w *Watcher) waiting(entries []*entry) []*entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(entries, func(e *entry) bool { return w.open[e.handle] != e })
}

// notice returns the notice of some questions.
func (w *Watcher) notice(questions []*entry) Notice {
	n := Notice{Title: "acphost: a question waits", Count: len(questions)}
	for _, e := range questions[:min(len(questions), maxListed)] {
		n.Questions = append(n.Questions, e.Question)
	}
	first := n.Questions[0]
	if len(questions) == 1 {
		n.Text, n.Details, n.Link = "The agent "+first.AgentID+" asks.", first.Details, first.Link
		return n
	}
	n.Title, n.Text, n.Link = fmt.Sprintf("acphost: %d questions wait", len(questions)), "The agent "+first.AgentID+" asked first.", w.inbox()
	return n
}

// sleep waits for d; false: ctx has ended.
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
