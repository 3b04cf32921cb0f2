package activity

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is a hub, and a journal if it has a folder.
type place struct {
	*Hub
	journal *journal.Journal
	once    sync.Once
}

func open(t *testing.T, dir, instance string, o Options) *place {
	t.Helper()
	p := &place{}
	o.Instance = instance
	if dir != "" {
		j, err := journal.Open(journal.Options{Dir: dir, Instance: instance, Content: true, MaxQueued: 256 << 20})
		if err != nil {
			t.Fatal(err)
		}
		p.journal, o.Journal = j, j
	}
	p.Hub = New(o)
	t.Cleanup(func() { p.shut(t) })
	return p
}

func (p *place) shut(t *testing.T) {
	t.Helper()
	p.once.Do(func() {
		p.Close()
		if p.journal == nil {
			return
		}
		if err := p.journal.Close(); err != nil {
			t.Error(err)
		}
	})
}

func recordDir(t *testing.T) string { return filepath.Join(t.TempDir(), "journal") }

// link is an agent's link.
type link struct {
	frame.Observer
	id int
}

func (p *place) link(id string) *link {
	return &link{Observer: p.Observer(&frame.Agent{ID: id, Name: strings.TrimRight(id, "-0123456789")})}
}

func (l *link) say(d frame.Direction, line string) {
	l.Frame(frame.Frame{Direction: d, Line: []byte(line + "\n")})
}

// open opens a session.
func (l *link) open(session string) {
	l.id++
	l.say(frame.ClientToAgent, fmt.Sprintf(`{"id":%d,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`, l.id))
	l.say(frame.AgentToClient, fmt.Sprintf(`{"id":%d,"result":{"sessionId":%q}}`, l.id, session))
}

// chunk sends the most frequent kind of frame: a scanned piece of a message.
func (l *link) chunk(session, text string) { l.Frame(chunk(session, text)) }

func chunk(session, text string) frame.Frame {
	return frame.Frame{
		Direction: frame.AgentToClient, Scanned: true, Method: []byte("session/update"), SessionID: []byte(session),
		Line: fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%q}}}}`+"\n", session, text),
	}
}

// turn plays a turn with a call, a question and a chunk.
func (l *link) turn(session, text string) {
	l.id++
	prompt := l.id
	l.say(frame.ClientToAgent, fmt.Sprintf(`{"id":%d,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":%q}]}}`, prompt, session, text))
	l.chunk(session, "I will "+text)
	l.say(frame.AgentToClient, fmt.Sprintf(`{"method":"session/update","params":{"sessionId":%q,"update":{"sessionUpdate":"tool_call","toolCallId":"t%d","kind":"edit","status":"pending","title":%q}}}`, session, prompt, text))
	l.say(frame.AgentToHandler, fmt.Sprintf(`{"id":%d,"method":"fs/read_text_file","params":{"sessionId":%q,"path":"/w/a"}}`, prompt, session))
	l.say(frame.HandlerToAgent, fmt.Sprintf(`{"id":%d,"result":{"content":"x"}}`, prompt))
	l.say(frame.AgentToClient, fmt.Sprintf(`{"id":"q%d","method":"session/request_permission","params":{"sessionId":%q,"toolCall":{"toolCallId":"t%d"},"options":[{"optionId":"y","kind":"allow_once","name":"Yes"}]}}`, prompt, session, prompt))
	l.say(frame.ClientToAgent, fmt.Sprintf(`{"id":"q%d","result":{"outcome":{"outcome":"selected","optionId":"y"}}}`, prompt))
	l.say(frame.AgentToClient, fmt.Sprintf(`{"id":%d,"result":{"stopReason":"end_turn"}}`, prompt))
}

// allOf returns the recorded events of a session.
func (p *place) allOf(t *testing.T, session, cursor string) []*supervisorv1.Event {
	t.Helper()
	events, err := p.collect(session, cursor)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func (p *place) collect(session, cursor string) (events []*supervisorv1.Event, err error) {
	err = p.WatchSession(context.Background(), &supervisorv1.WatchSessionRequest{SessionId: session, Cursor: cursor, NoFollow: true},
		func(ev *supervisorv1.Event) error {
			events = append(events, ev)
			return nil
		})
	return events, err
}

func text(ev *supervisorv1.Event) string {
	return ev.GetAgentMessage().GetContent().GetText().GetText()
}

var errEnough = errors.New("enough")

func wantClass(t *testing.T, err error, class fault.Class) {
	t.Helper()
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Class != class {
		t.Errorf("got %v, want an error of class %d", err, class)
	}
}

// watching starts a call of WatchEvents, and returns once the call is subscribed.
func (p *place) watching(ctx context.Context, wg *sync.WaitGroup, result *error, send func(*supervisorv1.Event) error) {
	before := p.watchedBy()
	wg.Go(func() { *result = p.watch(ctx, "", send) })
	p.joined(before + 1)
}

// watch is WatchEvents, an event at a time.
func (p *place) watch(ctx context.Context, cursor string, send func(*supervisorv1.Event) error) error {
	return p.WatchEvents(ctx, cursor, 0, func(events []event.Encoded) error {
		for _, e := range events {
			if err := send(e.Event); err != nil {
				return err
			}
		}
		return nil
	})
}

// watchedBy is how many watch.
func (p *place) watchedBy() int {
	defer p.lock()()
	return len(p.watchers) + p.all
}

// joined waits until the given number of watchers is subscribed.
func (p *place) joined(n int) {
	for p.watchedBy() < n {
		runtime.Gosched()
	}
}
