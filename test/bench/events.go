package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// eventsOf is the number of updates that the agent writes in a turn whose events are counted.
const eventsOf = 100_000

// events counts the events per second that reach the caller of Prompt and concurrent watchers, over the admin socket.
// The caller slows the agent down to its own pace, so it misses nothing. A watcher that falls behind is disconnected: a
// watcher of the session calls again and receives the missed events from the record, a watcher of all sessions does not
// call again.
func (b *bench) events() error {
	fmt.Printf("\n| events of 300-byte updates, over the admin socket | events/s | told of %d | cut off, turns |\n|---|---|---|---|\n", eventsOf)
	for _, journal := range []bool{false, true} {
		with := ", no journal"
		config := b.unrecorded
		if journal {
			with = ", journal"
			config = filepath.Join(b.dir, "recorded.yaml")
			text := fmt.Sprintf("journal: {max_session_bytes: 1099511627776, dir: %s}\n", filepath.Join(b.dir, "events-journal"))
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				return err
			}
		}
		s, err := b.serve(config)
		if err != nil {
			return err
		}
		alone, err := s.measure(b.rounds, nil)
		if err == nil {
			alone[0].print("the caller of Prompt alone" + with)
			var beside []count
			if beside, err = s.measure(b.rounds, []watch{s.watchSession, s.watchEvents}); err == nil {
				beside[0].print("the caller of Prompt, two watch" + with)
				beside[1].print("who watches the session" + with)
				beside[2].print("who watches all" + with)
			}
		}
		if err := errors.Join(err, s.stop()); err != nil {
			return err
		}
	}
	return nil
}

// served is a supervisor without an editor.
type served struct {
	cmd    *exec.Cmd
	socket string
	conn   *client.Client
	agent  string // the one whose session "s" is played with
}

// serve starts a supervisor without an editor, with one agent and its session.
func (b *bench) serve(config string) (*served, error) {
	s, err := b.host(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if s.agent, err = s.open(ctx, b); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// host starts a supervisor without an editor and without agents.
func (b *bench) host(config string) (*served, error) {
	s := &served{socket: filepath.Join(b.dir, "serve.sock")}
	s.cmd = exec.Command(b.acphost, "serve", "--config", config, "--socket", s.socket)
	s.cmd.Stderr = os.Stderr
	s.cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(b.dir, "state"))
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	var err error
	if s.conn, err = s.dial(); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *served) dial() (*client.Client, error) { return client.DialSocket(s.socket) }

// open starts an agent with a session, and returns the agent's id.
func (s *served) open(ctx context.Context, b *bench) (agent string, err error) {
	started, err := s.conn.Agents.StartAgent(ctx,
		&supervisorv1.StartAgentRequest{Command: b.bare("agent"), Separate: true}, grpc.WaitForReady(true))
	if err != nil {
		return "", err
	}
	_, err = s.session(ctx, b, started.GetAgent().GetId())
	return started.GetAgent().GetId(), err
}

// session opens a session, and returns its id.
func (s *served) session(ctx context.Context, b *bench, agent string) (id string, err error) {
	opened, err := s.conn.Sessions.NewSession(ctx, &supervisorv1.NewSessionRequest{AgentId: agent, Cwd: b.dir})
	return opened.GetSession().GetSessionId(), err
}

func (s *served) stop() error {
	var err error
	if s.conn != nil {
		err = s.conn.Close()
	}
	_ = s.cmd.Process.Signal(os.Interrupt)
	hangs := time.AfterFunc(time.Minute, func() { _ = s.cmd.Process.Kill() })
	defer hangs.Stop()
	return errors.Join(err, s.cmd.Wait())
}

// count is the number of events that reached a watcher in a turn.
type count struct {
	rates   []float64
	told    []float64
	cutOffs int
}

func (c *count) print(watcher string) {
	fmt.Printf("| %s | %.0f | %.0f | %d of %d |\n", watcher, medianFloat(c.rates), medianFloat(c.told), c.cutOffs, len(c.rates))
}

// watch counts events, from what happens next on.
type watch func(ctx context.Context, t *tally) error

// measure plays turns, and counts what reaches the caller, and the watchers.
func (s *served) measure(rounds int, watchers []watch) ([]count, error) {
	counts := make([]count, 1+len(watchers))
	for i := range rounds + 1 {
		tallies, err := s.turn(watchers)
		if err != nil {
			return nil, err
		}
		if i == 0 { // to warm up
			continue
		}
		for c, t := range tallies {
			counts[c].rates = append(counts[c].rates, t.rate())
			counts[c].told = append(counts[c].told, float64(t.n))
			if t.cutOff {
				counts[c].cutOffs++
			}
		}
	}
	return counts, nil
}

// turn plays one.
func (s *served) turn(watchers []watch) ([]*tally, error) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	caller := newTally()
	tallies := []*tally{caller}
	for _, call := range watchers {
		t := newTally()
		tallies = append(tallies, t)
		wg.Go(func() {
			_ = call(ctx, t)
			t.end()
		})
	}
	// Short turns first, until all watch.
	for _, t := range tallies {
		for !t.watches.Load() {
			select {
			case <-t.over:
				return nil, errors.New("a watcher received nothing")
			default:
			}
			if err := s.prompt(ctx, s.agent, "s", "flood 1", caller.add); err != nil {
				return nil, err
			}
		}
	}
	if err := s.prompt(ctx, s.agent, "s", fmt.Sprintf("flood %d", eventsOf), caller.add); err != nil {
		return nil, err
	}
	for _, t := range tallies {
		<-t.over
	}
	return tallies, nil
}

// tally counts the pieces of messages in a long turn.
type tally struct {
	watches     atomic.Bool // an event was received
	n           int
	first, last time.Time
	once        sync.Once
	cutOff      bool
	over        chan struct{} // the long turn was received, or will not be
}

func newTally() *tally { return &tally{over: make(chan struct{})} }

func (t *tally) add(ev *supervisorv1.Event) {
	t.watches.Store(true)
	switch {
	case ev.GetTurnStarted() != nil:
		t.n, t.first = 0, time.Now()
	case ev.GetAgentMessage() != nil:
		t.n++
		t.last = time.Now()
	case ev.GetTurnEnded() != nil && t.n > 1:
		t.end()
	}
}

func (t *tally) end() { t.once.Do(func() { close(t.over) }) }

func (t *tally) rate() float64 {
	if t.n == 0 {
		return 0
	}
	return float64(t.n) / t.last.Sub(t.first).Seconds()
}

func (s *served) prompt(ctx context.Context, agent, session, text string, each func(*supervisorv1.Event)) error {
	stream, err := s.conn.Sessions.Prompt(ctx, &supervisorv1.PromptRequest{
		AgentId: agent, SessionId: session,
		Prompt: []*supervisorv1.ContentBlock{{Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: text}}}},
	})
	return received(stream, err, each)
}

func (s *served) watchSession(ctx context.Context, t *tally) error {
	cursor := "now"
	for {
		stream, err := s.conn.Sessions.WatchSession(ctx, &supervisorv1.WatchSessionRequest{AgentId: s.agent, SessionId: "s", Cursor: cursor})
		err = received(stream, err, func(ev *supervisorv1.Event) {
			cursor = ev.GetCursor()
			t.add(ev)
		})
		if t.cutOff = t.cutOff || status.Code(err) == codes.ResourceExhausted; status.Code(err) != codes.ResourceExhausted {
			return err
		}
	}
}

func (s *served) watchEvents(ctx context.Context, t *tally) error {
	err := watchEvents(ctx, s.conn, t.add)
	t.cutOff = status.Code(err) == codes.ResourceExhausted
	return err
}

func watchEvents(ctx context.Context, conn *client.Client, each func(*supervisorv1.Event)) error {
	events, err := conn.WatchEvents(ctx, "")
	if err != nil {
		return err
	}
	for ev, err := range events {
		if err != nil {
			return err
		}
		each(ev)
	}
	return nil
}

func received[M interface{ GetEvent() *supervisorv1.Event }](stream interface{ Recv() (M, error) }, err error, each func(*supervisorv1.Event)) error {
	for err == nil {
		var m M
		if m, err = stream.Recv(); err == nil {
			each(m.GetEvent())
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
