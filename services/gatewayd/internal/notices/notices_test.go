package notices

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/delegation"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// broker is a supervisor and a notified person: both run in a bubble of synctest, whose time a test advances.
type broker struct {
	t *testing.T

	mu    sync.Mutex
	calls []chan *supervisorv1.WatchApprovalsResponse // the last one is open
	asked []context.Context
	sent  []Notice
	fails []error // of the next notices
	holds time.Duration
}

func (d *broker) watch(ctx context.Context, req *supervisorv1.WatchApprovalsRequest) (iter.Seq2[*supervisorv1.WatchApprovalsResponse, error], error) {
	if !req.GetOnlyLook() {
		d.t.Error("it does not state that it only looks: questions would wait for it")
	}
	changes := make(chan *supervisorv1.WatchApprovalsResponse, 10_000)
	d.mu.Lock()
	d.calls, d.asked = append(d.calls, changes), append(d.asked, ctx)
	d.mu.Unlock()
	return func(yield func(*supervisorv1.WatchApprovalsResponse, error) bool) {
		for {
			select {
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			case c, more := <-changes:
				if !more {
					yield(nil, errors.New("lost"))
					return
				}
				if !yield(c, nil) {
					return
				}
			}
		}
	}, nil
}

func (d *broker) String() string { return "a test" }

func (d *broker) Send(ctx context.Context, n Notice) error {
	d.mu.Lock()
	d.sent = append(d.sent, n)
	var err error
	if len(d.fails) > 0 {
		err, d.fails = d.fails[0], d.fails[1:]
	}
	holds := d.holds
	d.mu.Unlock()
	sleep(ctx, holds)
	return err
}

// say has the supervisor send responses.
func (d *broker) say(all ...*supervisorv1.WatchApprovalsResponse) {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range all {
		d.calls[len(d.calls)-1] <- c
	}
}

// lose breaks the call.
func (d *broker) lose() {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.calls[len(d.calls)-1])
}

// notified are the notices so far.
func (d *broker) notified() []Notice {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sent
}

// expect checks how many questions each notice was about so far.
func (d *broker) expect(when string, counts ...int) {
	d.t.Helper()
	var got []int
	for _, n := range d.notified() {
		got = append(got, n.Count)
	}
	if fmt.Sprint(got) != fmt.Sprint(counts) {
		d.t.Errorf("%s: the notices are about %v questions, want %v", when, got, counts)
	}
}

func asked(handle string) *supervisorv1.WatchApprovalsResponse {
	return askedAt(handle, time.Unix(1, 0))
}

func askedAt(handle string, at time.Time) *supervisorv1.WatchApprovalsResponse {
	agent, _, _ := strings.Cut(handle, "/")
	return &supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_Asked{Asked: &supervisorv1.Approval{
		Id: handle, AgentId: agent, SessionId: "s-1", Time: timestamppb.New(at),
		Permission: &supervisorv1.PermissionQuestion{Title: "rm -rf /home/alice\n\x1b[2J\u202etxt"},
	}}}
}

func answered(handle string) *supervisorv1.WatchApprovalsResponse {
	return &supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_Answered{Answered: &supervisorv1.ApprovalAnswer{Id: handle}}}
}

func caughtUp() *supervisorv1.WatchApprovalsResponse {
	return &supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_CaughtUp{CaughtUp: &supervisorv1.CaughtUp{}}}
}

const testGrace = 5 * time.Second

// play runs a Watcher in a bubble.
func play(t *testing.T, change func(*Options), update func(d *broker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &broker{t: t}
		o := Options{Watch: d.watch, Channels: []Channel{d}, Base: "https://acp.example", Grace: testGrace, Logger: slog.New(slog.DiscardHandler)}
		if change != nil {
			change(&o)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { New(o).Run(ctx); close(done) }()
		update(d)
		cancel()
		<-done
	})
}

func TestNotices_OnceForWaitingQuestion(t *testing.T) {
	t.Parallel()
	play(t, nil, func(d *broker) {
		d.say(caughtUp(), asked("claude-1/1"), asked("claude-1/2"))
		time.Sleep(testGrace - time.Millisecond)
		d.say(answered("claude-1/1"))
		d.expect("within the grace time")
		time.Sleep(time.Millisecond)
		d.expect("after it", 1)
		time.Sleep(time.Hour)
		d.expect("an hour later", 1)
		n := d.notified()[0]
		if n.Title != "acphost: a question waits" || n.Link != "https://acp.example/console/#/session/claude-1/s-1" || n.Text != "The agent claude-1 asks." || n.Details != "" {
			t.Errorf("the notice is %+v", n)
		}
		if all := fmt.Sprintf("%+v", n); strings.Contains(all, "rm -rf") || strings.Contains(all, "alice") {
			t.Errorf("the notice shows what the agent wants: %s", all)
		}
		got, named, err := delegation.Read(outgoing(d.asked[0]))
		if err != nil || !named || got != (delegation.Caller{Name: "notices", Role: delegation.Viewer}) {
			t.Errorf("it calls as %+v, %v, %v", got, named, err)
		}
	})
}

func outgoing(ctx context.Context) map[string][]string {
	md, _ := metadata.FromOutgoingContext(ctx)
	return md
}

func TestNotices_ReconnectSendsNoDuplicates(t *testing.T) {
	t.Parallel()
	play(t, nil, func(d *broker) {
		d.say(caughtUp(), asked("a/1"))
		time.Sleep(testGrace)
		d.expect("at first", 1)
		time.Sleep(minInterval)
		d.say(asked("a/2"), asked("a/3"))
		d.lose() // while 2 and 3 have their grace time
		time.Sleep(testGrace)
		d.expect("while the answers are unknown", 1)
		d.say(asked("a/1"), asked("a/3")) // 2 was answered meanwhile
		time.Sleep(time.Minute)
		d.expect("while the supervisor has not sent all questions", 1)
		d.say(caughtUp())
		d.expect("after it is back", 1, 1)
		if q := d.notified()[1].Questions; len(q) != 1 || q[0].AgentID != "a" {
			t.Errorf("notified of %+v", q)
		}
		d.lose()
		time.Sleep(time.Minute)
		d.say(asked("a/1"), asked("a/3"), caughtUp())
		time.Sleep(time.Hour)
		d.expect("after it is back again", 1, 1)
		// A supervisor that was started again counts from the beginning: the same handle is another question.
		d.lose()
		time.Sleep(time.Minute)
		d.say(askedAt("a/1", time.Unix(2, 0)), caughtUp())
		time.Sleep(testGrace)
		d.expect("with another question", 1, 1, 1)
	})
}

func TestNotices_FloodIsBatched(t *testing.T) {
	t.Parallel()
	play(t, nil, func(d *broker) {
		d.say(caughtUp())
		for i := range 1000 { // 10 s
			d.say(asked(fmt.Sprintf("mad-1/%d", i)))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		got := d.notified()
		if len(got) != 2 || got[0].Count != 1 || got[1].Count != 999 {
			t.Fatalf("%d notices, want 2", len(got))
		}
		if n := got[1]; n.Title != "acphost: 999 questions wait" || len(n.Questions) != maxListed || n.Link != "https://acp.example/console/#/inbox" || n.Text != "The agent mad-1 asked first." {
			t.Errorf("the notice is %+v", n)
		}
	})
}

func TestNotices_SlowChannelDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	slow := &broker{t: t, holds: time.Hour}
	play(t, func(o *Options) { o.Channels = append(o.Channels, slow) }, func(d *broker) {
		d.say(caughtUp())
		for i := range 5 {
			d.say(asked(fmt.Sprintf("a/%d", i)))
			time.Sleep(minInterval)
		}
		d.say(answered("a/1"))
		time.Sleep(minInterval)
		d.expect("who is quick", 1, 1, 1, 1, 1)
		slow.expect("who is slow", 1)
		time.Sleep(2 * time.Hour)
		slow.expect("who is slow, later", 1, 3)
	})
}

func TestNotices_RetryOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fails []error
		then  func(d *broker)
		want  []int
	}{
		"once":                         {[]error{errors.New("x")}, nil, []int{1, 1}},
		"twice":                        {[]error{errors.New("x"), errors.New("x")}, nil, []int{1, 1}},
		"for good":                     {[]error{fmt.Errorf("x; %w", errFinal)}, nil, []int{1}},
		"and is answered meanwhile":    {[]error{errors.New("x")}, func(d *broker) { d.say(answered("a/1")) }, []int{1}},
		"and another is asked by then": {[]error{errors.New("x")}, func(d *broker) { d.say(asked("a/2")) }, []int{1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, nil, func(d *broker) {
				d.fails = c.fails
				d.say(caughtUp(), asked("a/1"))
				time.Sleep(testGrace)
				d.expect("at first", 1)
				if c.then != nil {
					c.then(d)
				}
				time.Sleep(time.Hour)
				d.expect("in the end", c.want...)
			})
		})
	}
}

func TestDetails_AreOneVisibleLine(t *testing.T) {
	t.Parallel()
	play(t, func(o *Options) { o.Details = true }, func(d *broker) {
		long := asked("a\n\x1b]0;x\x07/1")
		long.GetAsked().SessionId = "../x?y#z\r\nSet-Cookie: a=b <script>&'\""
		d.say(caughtUp(), long)
		time.Sleep(testGrace)
		n := d.notified()[0]
		if n.Details != "rm -rf /home/alice [2Jtxt" || n.Text != "The agent a ]0;x asks." {
			t.Errorf("the notice is %+v", n)
		}
		if want := "https://acp.example/console/#/session/a%0A%1B%5D0%3Bx%07/..%2Fx%3Fy%23z%0D%0ASet-Cookie%3A%20a%3Db%20%3Cscript%3E%26%27%22"; n.Link != want {
			t.Errorf("the link is %s, want %s", n.Link, want)
		}
		time.Sleep(minInterval)
		long = asked("a/2")
		long.GetAsked().SessionId = strings.Repeat("x", maxSession+1)
		long.GetAsked().Permission.Title = strings.Repeat("ü", 1<<20)
		d.say(long)
		time.Sleep(testGrace)
		if n := d.notified()[1]; n.Link != "https://acp.example/console/#/inbox" || n.Details != strings.Repeat("ü", maxDetails) || n.Questions[0].SessionID != "" {
			t.Errorf("the notice is %+v", n)
		}
	})
}
