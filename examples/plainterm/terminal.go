package main

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/sdk/plaintext"
)

const (
	watchAfter   = 30 * time.Second // how long a terminal can be watched after its release
	keptRaw      = 1 << 20          // bytes of raw output, for watchers
	mostOfAScope = 256
)

// killGrace is the time between TERM and KILL, and the limit for the end after KILL. It is a variable for tests.
var killGrace = 2 * time.Second

// terminals are all terminals, by id. The zero value is ready for use.
type terminals struct {
	mu   sync.Mutex
	byID map[string]*terminal
}

// terminal is a command, from its start until after its release.
type terminal struct {
	done chan struct{} // closed when the command has ended and its output is complete
	pid  int

	over atomic.Bool // the process group is empty: its number may have been reused

	mu     sync.Mutex
	info   *terminalv1.Terminal
	limit  int
	raw    tail
	text   tail              // what the screen cannot change any more
	screen *plaintext.Screen // the lines that it can; nil: it was released so long ago that it is only known by its id
	news   chan struct{}     // closed at the next output, or at the end
}

// start runs a command in its own process group.
func (s *terminals) start(scope string, c command, limit int) (*terminal, error) {
	if err := c.startable(); err != nil {
		return nil, err
	}
	if alive := slices.DeleteFunc(s.list(scope), (*terminalv1.Terminal).GetReleased); len(alive) >= mostOfAScope {
		return nil, status.Errorf(codes.ResourceExhausted, "the session has %d terminals already: release some", len(alive))
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	t := &terminal{
		done: make(chan struct{}), news: make(chan struct{}), limit: limit, raw: tail{most: keptRaw}, text: tail{most: limit},
		info: &terminalv1.Terminal{
			TerminalId: "acphost-" + hex.EncodeToString(id[:]), Scope: scope, Argv: c.argv, Cwd: c.dir, StartTimeMs: time.Now().UnixMilli(),
		},
	}
	t.screen = plaintext.New(&t.text)
	process := &exec.Cmd{
		Path: c.program, Args: c.argv, Dir: c.dir, Env: c.env, Stdout: t, Stderr: t,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
		WaitDelay:   time.Second, // for output, where somebody who was left behind holds the pipe
	}
	if err := process.Start(); err != nil {
		return nil, status.Errorf(codes.FailedPrecondition, "%s cannot be started: %v", c.argv[0], err)
	}
	t.pid, t.info.Pid = process.Process.Pid, int64(process.Process.Pid)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[string]*terminal{}
	}
	s.byID[t.info.GetTerminalId()] = t
	go func() {
		_ = process.Wait() // the state has the details
		t.end(process.ProcessState.Sys().(syscall.WaitStatus))
	}()
	return t, nil
}

// find finds a terminal of a scope. With released it also finds a released terminal, to release it again or to watch
// it.
func (s *terminals) find(scope, id string, released bool) (*terminal, error) {
	s.mu.Lock()
	t := s.byID[id]
	s.mu.Unlock()
	if t == nil || t.info.GetScope() != scope || !released && t.isReleased() {
		return nil, status.Errorf(codes.NotFound, "Resource not found: %s", id)
	}
	return t, nil
}

// list lists the terminals of a scope, or of all, the oldest first.
func (s *terminals) list(scope string) (all []*terminalv1.Terminal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.byID {
		if info := t.listed(); info != nil && (scope == "" || info.GetScope() == scope) {
			all = append(all, info)
		}
	}
	slices.SortFunc(all, func(a, b *terminalv1.Terminal) int {
		return cmp.Or(cmp.Compare(a.GetStartTimeMs(), b.GetStartTimeMs()), cmp.Compare(a.GetPid(), b.GetPid()))
	})
	return all
}

// releaseScope ends what a scope owns, or everything, and forgets it.
func (s *terminals) releaseScope(scope string) {
	var ends sync.WaitGroup
	s.mu.Lock()
	for id, t := range s.byID {
		if scope == "" || t.info.GetScope() == scope {
			delete(s.byID, id)
			ends.Go(func() { t.kill(0) })
		}
	}
	s.mu.Unlock()
	ends.Wait()
}

// Write receives the output of the command.
func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.raw.Write(p)
	t.screen.Write(p)
	t.notify()
	return len(p), nil
}

// notify wakes the watchers. t.mu is held.
func (t *terminal) notify() {
	close(t.news)
	t.news = make(chan struct{})
}

func (t *terminal) end(how syscall.WaitStatus) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.screen.Finish()
	exit := &terminalv1.ExitStatus{ExitCode: proto.Uint32(uint32(how.ExitStatus()))}
	if how.Signaled() {
		exit = &terminalv1.ExitStatus{Signal: proto.String(unix.SignalName(how.Signal()))}
	}
	t.info.ExitStatus, t.info.EndTimeMs = exit, time.Now().UnixMilli()
	t.over.Store(syscall.Kill(-t.pid, 0) != nil)
	t.notify()
	close(t.done)
}

func (t *terminal) isReleased() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.info.GetReleased()
}

// listed returns the state of the terminal for List; nil if the terminal is no longer listed.
func (t *terminal) listed() *terminalv1.Terminal {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.screen == nil {
		return nil
	}
	info := proto.CloneOf(t.info)
	info.OutputBytes = t.raw.total
	return info
}

// exit is how the command has ended; nil: it runs.
func (t *terminal) exit() *terminalv1.ExitStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.info.GetExitStatus()
}

// output is the newest text, cut at the start of a character.
func (t *terminal) output() *terminalv1.OutputResponse {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.screen == nil {
		return &terminalv1.OutputResponse{ExitStatus: t.info.GetExitStatus()}
	}
	text := t.screen.AppendTo(slices.Clone(t.text.kept))
	cut := t.text.total > uint64(len(t.text.kept)) || len(text) > t.limit
	text = text[max(0, len(text)-t.limit):]
	for cut && len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return &terminalv1.OutputResponse{Output: string(text), Truncated: cut, ExitStatus: t.info.GetExitStatus()}
}

// from returns the raw output from a byte on, up to the limit of a message, and the number of bytes before it that are
// no longer kept. If there is no output, it returns either news, a channel that is closed when it is worth calling
// again, or exit, the result of the command.
func (t *terminal) from(at uint64) (piece []byte, dropped uint64, news <-chan struct{}, exit *terminalv1.ExitStatus) {
	t.mu.Lock()
	defer t.mu.Unlock()
	oldest := t.raw.total - uint64(len(t.raw.kept))
	if at < oldest {
		return nil, oldest - at, nil, nil
	}
	kept := t.raw.kept[at-oldest:]
	return slices.Clone(kept[:min(len(kept), 64<<10)]), 0, t.news, t.info.GetExitStatus()
}

// release ends the command and frees the id. It can still be watched for a while.
func (t *terminal) release() {
	t.mu.Lock()
	before := t.info.GetReleased()
	t.info.Released = true
	t.mu.Unlock()
	if before {
		return
	}
	t.kill(0)
	time.AfterFunc(watchAfter, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.raw, t.text, t.screen = tail{}, tail{}, nil
	})
}

// kill ends the process group, by TERM and, where that is not enough after the grace, by KILL, and returns when it is
// dead.
func (t *terminal) kill(grace time.Duration) {
	if t.over.Load() {
		return
	}
	if grace > 0 {
		_ = syscall.Kill(-t.pid, syscall.SIGTERM)
		t.gone(grace)
	}
	_ = syscall.Kill(-t.pid, syscall.SIGKILL)
	t.gone(killGrace)
	<-t.done
	t.over.Store(true)
}

// gone waits until the process group is empty, which has no notification. A process that has died and was not reaped by
// its parent counts as a member, so the wait has a limit.
func (t *terminal) gone(most time.Duration) {
	for end := time.Now().Add(most); time.Now().Before(end) && syscall.Kill(-t.pid, 0) == nil; {
		time.Sleep(5 * time.Millisecond)
	}
}

// tail keeps the newest bytes of what is written to it.
type tail struct {
	most  int
	kept  []byte
	total uint64
}

// Write implements plaintext.Scrollback.
func (k *tail) Write(p []byte) {
	k.total += uint64(len(p))
	k.kept = append(k.kept, p...)
	if len(k.kept) > 2*k.most { // seldom, so that it costs little
		k.kept = slices.Clone(k.kept[len(k.kept)-k.most:])
	}
}
