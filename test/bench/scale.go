package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// scaling has the numbers of objects for the measurements of scale.
type scaling struct {
	agents                            string
	sessions, watchers, rate, seconds int
	soak                              time.Duration
	journal                           bool
}

func (s *scaling) flags(f *flag.FlagSet) {
	f.StringVar(&s.agents, "agents", "10,50,200", "scale: numbers of agents, each in a supervisor of its own; empty: none")
	f.IntVar(&s.sessions, "sessions", 1000, "scale: sessions of one agent; 0: none")
	f.IntVar(&s.watchers, "watchers", 50, "scale: watchers of everything; 0: none")
	f.IntVar(&s.rate, "rate", 1000, "scale: events a second for the watchers, of ten agents together")
	f.IntVar(&s.seconds, "seconds", 10, "scale: how long the watchers receive events")
	f.DurationVar(&s.soak, "soak", 20*time.Second, "scale: how long sessions are opened, used and closed; 0: not at all")
	f.BoolVar(&s.journal, "journal", true, "scale: record the sessions")
}

const (
	// atOnce is how many calls scale makes at once, and how many agents have turns where there are not more.
	atOnce = 10
	// usedFor is how many updates a turn has that sessions and agents are used with.
	usedFor = 100
)

// scale measures what agents, sessions and watchers cost a supervisor as they become many, and what grows with time.
func (b *bench) scale() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // ends, and leaves nothing behind
	defer stop()
	for number := range strings.SplitSeq(b.size.agents, ",") {
		if number = strings.TrimSpace(number); number == "" {
			continue
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 {
			return fmt.Errorf("-agents: %q is no number of agents", number)
		}
		if err := b.scaled(ctx, fmt.Sprintf("%d agents", n), "agent", n, (*scaled).manyAgents); err != nil {
			return err
		}
	}
	if n := b.size.sessions; n > 0 {
		if err := b.scaled(ctx, fmt.Sprintf("%d sessions of an agent", n), "session", n, (*scaled).manySessions); err != nil {
			return err
		}
	}
	if n := b.size.watchers; n > 0 {
		title := fmt.Sprintf("%d watchers of everything, %d events/s", n, b.size.rate)
		if err := b.scaled(ctx, title, "watcher", n, (*scaled).manyWatchers); err != nil {
			return err
		}
	}
	if b.size.soak > 0 {
		return b.scaled(ctx, fmt.Sprintf("a soak of %v", b.size.soak), "session", 1, (*scaled).soak)
	}
	return nil
}

// scaled is a supervisor that is given much to do, and what it and its processes held from time to time.
type scaled struct {
	*served
	b      *bench
	n      int // how many there are of what is many
	phases []phase
	notes  []string
}

type phase struct {
	name string
	held map[string]usage
}

// scaled measures one kind of object in a new supervisor, prints the result, and checks that the supervisor leaves
// nothing behind.
func (b *bench) scaled(ctx context.Context, title, each string, n int, measure func(*scaled, context.Context) error) error {
	dir, err := os.MkdirTemp(b.dir, "scale-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	config := filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf("journal: {disabled: %t, dir: %s}\nserve: {max_agents: 1000, max_sessions: 100000}\n", !b.size.journal, filepath.Join(dir, "journal"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	host, err := b.host(config)
	if err != nil {
		return err
	}
	s := &scaled{served: host, b: b, n: n}
	_, err = s.conn.State.GetStatus(ctx, &supervisorv1.GetStatusRequest{}, grpc.WaitForReady(true))
	if err == nil {
		err = measure(s, ctx)
	}
	all := descendants(s.cmd.Process.Pid)
	began := time.Now()
	err = errors.Join(err, s.stop())
	s.note("the supervisor ended in %v", time.Since(began).Round(time.Millisecond))
	for _, pid := range all {
		if name := b.program(pid); name != "" && name != "." {
			err = errors.Join(err, fmt.Errorf("%s (process %d) is still there", name, pid))
		}
	}
	s.print(title, each)
	return err
}

func (s *scaled) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// settleFor is how long memory must not have grown or shrunk by more than a hundredth until it is read, settleMost how
// long that is waited for: what the collector has not got to yet is no cost of what is measured.
const (
	settleFor  = 2 * time.Second
	settleMost = 15 * time.Second
)

// phase reads what is held now.
func (s *scaled) phase(ctx context.Context, name string) error {
	pid := s.cmd.Process.Pid
	tick := time.NewTicker(settleFor / 4)
	defer tick.Stop()
	began := time.Now()
	last, since := 0, began
	for time.Since(began) < settleMost && time.Since(since) < settleFor {
		if now := fields(fmt.Sprintf("/proc/%d/smaps_rollup", pid))["Private_Dirty"]; max(now-last, last-now) > last/100 {
			last, since = now, time.Now()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	held, err := s.held(ctx)
	s.phases = append(s.phases, phase{name, held})
	return err
}

// supervisor is the name of the process that is measured.
const supervisor = "acphost serve"

// held returns the resources that the supervisor and its processes use now.
func (s *scaled) held(ctx context.Context) (map[string]usage, error) {
	held := s.b.usages(s.cmd.Process.Pid)
	status, err := s.conn.State.GetStatus(ctx, &supervisorv1.GetStatusRequest{})
	own := held[supervisor]
	own.goroutines, own.heap = int(status.GetGoroutines()), int(status.GetHeapBytes()>>10)
	held[supervisor] = own
	return held, err
}

// costOfOne notes how much more private memory all processes but the agents hold now than at first, for each of what is
// many.
func (s *scaled) costOfOne(each string) {
	first, now := ours(s.phases[0].held), s.phases[len(s.phases)-1]
	s.note("%s more, %s: %.0f kB of private memory beside itself", each, now.name, float64(ours(now.held).private-first.private)/float64(s.n))
}

// print prints the resources in use, and the growth per object since the first measurement.
func (s *scaled) print(title, each string) {
	fmt.Printf("\n| scale: %s | program | processes | PSS, kB | private, kB | private a %s, kB | descriptors | threads | goroutines | heap, kB |\n|---|---|---|---|---|---|---|---|---|---|\n", title, each)
	for _, p := range s.phases {
		for _, name := range slices.Sorted(maps.Keys(p.held)) {
			u, first := p.held[name], s.phases[0].held[name]
			fmt.Printf("| %s | %s | %d | %d | %d | %.1f | %d | %d | %s | %s |\n", p.name, name, u.processes, u.pss, u.private,
				float64(u.private-first.private)/float64(s.n), u.descriptors, u.threads, known(u.goroutines), known(u.heap))
		}
	}
	fmt.Println()
	for _, n := range s.notes {
		fmt.Println("- " + n)
	}
}

// known is a number; 0: it is not known.
func known(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// concurrently does n things, a few at once, until one fails.
func concurrently(ctx context.Context, n int, do func(i int) error) error {
	var wg sync.WaitGroup
	var next atomic.Int64
	failed := make(chan error, atOnce)
	for range min(n, atOnce) {
		wg.Go(func() {
			for len(failed) == 0 && ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(i); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(failed)
	return errors.Join(<-failed, ctx.Err())
}

// openAgents starts agents with a session each, and returns their ids.
func (s *scaled) openAgents(ctx context.Context, n int) ([]string, error) {
	ids := make([]string, n)
	return ids, concurrently(ctx, n, func(i int) (err error) {
		ids[i], err = s.open(ctx, s.b)
		return err
	})
}

// timed does n things at once, or nearly so, and notes how many of them were done in a second.
func (s *scaled) timed(ctx context.Context, what string, n int, do func(i int) error) error {
	began := time.Now()
	err := concurrently(ctx, n, do)
	s.note("%s: %.0f/s", what, float64(n)/time.Since(began).Seconds())
	return err
}

// uses plays a turn in a session, and counts its events.
func (s *scaled) uses(ctx context.Context, agent, session, text string, events *atomic.Int64) error {
	ended := false
	err := s.prompt(ctx, agent, session, text, func(ev *supervisorv1.Event) {
		events.Add(1)
		ended = ev.GetTurnEnded() != nil
	})
	if err == nil && !ended {
		err = fmt.Errorf("a turn of agent %s in session %s has no end", agent, session)
	}
	return err
}

func (s *scaled) manyAgents(ctx context.Context) error {
	if err := s.phase(ctx, "at rest"); err != nil {
		return err
	}
	began := time.Now()
	agents, err := s.openAgents(ctx, s.n)
	if err != nil {
		return err
	}
	s.note("agents started, with a session each: %.0f/s", float64(s.n)/time.Since(began).Seconds())
	if err := s.phase(ctx, "started"); err != nil {
		return err
	}
	s.costOfOne("an agent")
	var events atomic.Int64
	if err := s.timed(ctx, fmt.Sprintf("turns of %d updates", usedFor), s.n, func(i int) error {
		return s.uses(ctx, agents[i], "s", fmt.Sprintf("flood %d", usedFor), &events)
	}); err != nil {
		return err
	}
	if err := s.phase(ctx, "after a turn each"); err != nil {
		return err
	}
	s.costOfOne("an agent")
	if err := s.timed(ctx, "agents stopped", s.n, func(i int) error {
		_, err := s.conn.Agents.StopAgent(ctx, &supervisorv1.StopAgentRequest{AgentId: agents[i]})
		return err
	}); err != nil {
		return err
	}
	return s.phase(ctx, "stopped")
}

func (s *scaled) manySessions(ctx context.Context) error {
	agent, err := s.open(ctx, s.b)
	if err != nil {
		return err
	}
	if err := s.phase(ctx, "at rest"); err != nil {
		return err
	}
	ids := make([]string, s.n)
	if err := s.timed(ctx, "sessions opened", s.n, func(i int) (err error) {
		ids[i], err = s.session(ctx, s.b, agent)
		return err
	}); err != nil {
		return err
	}
	if err := s.phase(ctx, "opened"); err != nil {
		return err
	}
	var events atomic.Int64
	if err := s.timed(ctx, fmt.Sprintf("turns of %d updates", usedFor), s.n, func(i int) error {
		return s.uses(ctx, agent, ids[i], fmt.Sprintf("flood %d", usedFor), &events)
	}); err != nil {
		return err
	}
	if err := s.phase(ctx, "after a turn each"); err != nil {
		return err
	}
	if err := s.timed(ctx, "sessions closed", s.n, func(i int) error { return s.closeSession(ctx, agent, ids[i]) }); err != nil {
		return err
	}
	return s.phase(ctx, "closed")
}

func (s *scaled) closeSession(ctx context.Context, agent, id string) error {
	_, err := s.conn.Sessions.CloseSession(ctx, &supervisorv1.CloseSessionRequest{AgentId: agent, SessionId: id})
	return err
}

// manyWatchers has watchers with a connection each watch everything, while agents write at a steady rate.
func (s *scaled) manyWatchers(ctx context.Context) error {
	agents, err := s.openAgents(ctx, atOnce)
	if err != nil {
		return err
	}
	if err := s.phase(ctx, "at rest"); err != nil {
		return err
	}
	watching, leave := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer leave()
	var waiting, received, cutOff, events atomic.Int64
	for range s.n {
		conn, err := s.dial()
		if err != nil {
			return err
		}
		waiting.Add(1)
		wg.Go(func() {
			defer func() { _ = conn.Close() }()
			here := sync.OnceFunc(func() { waiting.Add(-1) })
			defer here() // or it never will be
			err := countEvents(watching, conn, func(events int) {
				here()
				received.Add(int64(events))
			})
			if status.Code(err) == codes.ResourceExhausted {
				cutOff.Add(1)
			}
		})
	}
	for waiting.Load() > 0 { // short turns first, until all watch
		if err := s.uses(ctx, agents[0], "s", "flood 1", &events); err != nil {
			return err
		}
	}
	if err := s.phase(ctx, "watched"); err != nil {
		return err
	}
	received.Store(0)
	began, cost := time.Now(), processorTime(s.cmd.Process.Pid)
	text := fmt.Sprintf("pace %d %g", s.b.size.rate*s.b.size.seconds/atOnce, float64(s.b.size.rate)/atOnce)
	if err := concurrently(ctx, atOnce, func(i int) error { return s.uses(ctx, agents[i], "s", text, &events) }); err != nil {
		return err
	}
	took, n := time.Since(began), received.Load()
	cost = processorTime(s.cmd.Process.Pid) - cost
	s.note("told %.0f events/s together, %d watchers cut off", float64(n)/took.Seconds(), cutOff.Load())
	s.note("processor time of the supervisor: %.0f %% of a processor, %.1f µs for each event that a watcher is told",
		100*cost.Seconds()/took.Seconds(), float64(cost.Microseconds())/float64(max(n, 1)))
	if err := s.phase(ctx, "told"); err != nil {
		return err
	}
	leave()
	wg.Wait()
	return s.phase(ctx, "unwatched")
}

// soak has agents open sessions, have two turns in each, of which one reads a file, and close them again, for the given
// time. It prints the resources in use ten times meanwhile, to show growth.
func (s *scaled) soak(ctx context.Context) error {
	agents, err := s.openAgents(ctx, atOnce)
	if err != nil {
		return err
	}
	path := filepath.Join(s.b.dir, "soaked")
	if err := os.WriteFile(path, []byte(strings.Repeat("0123456789abcde\n", 256)), 0o600); err != nil {
		return err
	}
	var over atomic.Bool
	defer over.Store(true)
	var sessions, events atomic.Int64
	worked := make(chan error, 1)
	go func() {
		worked <- concurrently(ctx, atOnce, func(i int) error {
			for !over.Load() { // a session that is begun is also closed
				id, err := s.session(ctx, s.b, agents[i])
				for _, text := range []string{fmt.Sprintf("flood %d", usedFor), "read 1 " + path} {
					if err == nil {
						err = s.uses(ctx, agents[i], id, text, &events)
					}
				}
				if err == nil {
					err = s.closeSession(ctx, agents[i], id)
				}
				if err != nil {
					return err
				}
				sessions.Add(1)
			}
			return nil
		})
	}()
	fmt.Printf("\n| soak, after | sessions | sessions/s | turns/s | events/s | processor | supervisor: private, kB | descriptors | threads | goroutines | heap, kB | handlers: private, kB | descriptors |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	const rows = 10
	type reading struct {
		at               time.Time
		sessions, events int64
		cost             time.Duration
	}
	read := func() reading {
		return reading{time.Now(), sessions.Load(), events.Load(), processorTime(s.cmd.Process.Pid)}
	}
	first := read()
	last := first
	for row := 1; row <= rows; row++ {
		select {
		case err := <-worked:
			return err
		case <-time.After(time.Until(first.at.Add(s.b.size.soak * time.Duration(row) / rows))):
		}
		now := read()
		took := now.at.Sub(last.at).Seconds()
		perSecond := float64(now.sessions-last.sessions) / took
		held, err := s.held(ctx)
		if err != nil {
			return err
		}
		own := held[supervisor]
		var handlers usage
		for _, name := range []string{"fsd", "termd", "permd"} {
			handlers.private += held[name].private
			handlers.descriptors += held[name].descriptors
		}
		fmt.Printf("| %v | %d | %.0f | %.0f | %.0f | %.0f %% | %d | %d | %d | %d | %d | %d | %d |\n", now.at.Sub(first.at).Round(time.Second/10), now.sessions,
			perSecond, 2*perSecond, float64(now.events-last.events)/took, 100*(now.cost-last.cost).Seconds()/took,
			own.private, own.descriptors, own.threads, own.goroutines, own.heap, handlers.private, handlers.descriptors)
		last = now
	}
	over.Store(true)
	if err := <-worked; err != nil {
		return err
	}
	return s.phase(ctx, "after the soak, with ten idle agents")
}
