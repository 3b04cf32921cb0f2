package decisions

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/sandbox"
	sandboxv1 "github.com/acphost/acphost/proto/acphost/sandbox/v1"
)

// How long a question waits for its answer. A policy has half of that.
const (
	answerTimeout = 10 * time.Second
	// observeTimeout is for who observes: the call is made whatever the answer is.
	observeTimeout = time.Second
)

// client asks a supervisor. It is a sandbox.Decider and a sandbox.Reporter.
type client struct {
	conn    net.Conn
	timeout time.Duration
	last    atomic.Uint64
	root    atomic.Int64 // the command's process
	words   words

	writing sync.Mutex

	mu    sync.Mutex // guards what follows
	open  map[uint64]chan *sandboxv1.Answer
	ended bool
}

// Dial makes the Decider of a sandbox that asks at a descriptor, which it takes over.
func Dial(fd int, o sandbox.Options) (sandbox.Decider, error) {
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("take the socket for decisions: %w", err)
	}
	file := os.NewFile(uintptr(fd), "decisions")
	conn, err := net.FileConn(file)
	_ = file.Close()
	if err != nil {
		return nil, fmt.Errorf("take the socket for decisions: %w", err)
	}
	timeout := answerTimeout
	if o.Observe {
		timeout = observeTimeout
	}
	c := newClient(conn, timeout)
	go c.receive()
	return c, nil
}

func newClient(conn net.Conn, timeout time.Duration) *client {
	return &client{conn: conn, timeout: timeout, open: map[uint64]chan *sandboxv1.Answer{}}
}

// receive hands answers out until the supervisor is gone. Then everything is refused.
func (c *client) receive() {
	for {
		var a sandboxv1.Answer
		if err := read(c.conn, &a); err != nil {
			break
		}
		c.mu.Lock()
		waits := c.open[a.GetId()]
		delete(c.open, a.GetId())
		c.mu.Unlock()
		if waits != nil {
			waits <- &a // which has room for one
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, waits := range c.open {
		close(waits)
	}
	clear(c.open)
}

// Allows implements sandbox.Decider.
func (c *client) Allows(e sandbox.Event) bool {
	if e.Start {
		return true // who starts the sandbox has chosen it
	}
	a, err := c.ask(e)
	if err != nil {
		c.refused(e, err.Error())
		return false
	}
	if !a.GetAllowed() {
		c.refused(e, a.GetWhy())
	}
	return a.GetAllowed()
}

var (
	errGone = errors.New("the supervisor that decides is gone")
	errLate = errors.New("the supervisor did not decide in time")
)

func (c *client) ask(e sandbox.Event) (*sandboxv1.Answer, error) {
	q := &sandboxv1.Question{
		Id: c.last.Add(1), Operation: string(e.Operation), Pid: int64(e.PID), Path: []byte(e.Path), Dir: []byte(e.Dir),
		Network: e.Address.Network, Host: []byte(e.Address.Host), Port: uint32(e.Address.Port),
		Call: e.Call,
	}
	room := maxStrings
	var cut bool
	q.Args, q.Cut = raw(e.Args, &room)
	q.Env, cut = raw(e.Env, &room)
	q.Cut = q.Cut || cut
	waits := make(chan *sandboxv1.Answer, 1)
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return nil, errGone
	}
	c.open[q.GetId()] = waits
	c.mu.Unlock()
	if err := c.tell(&sandboxv1.Told{What: &sandboxv1.Told_Question{Question: q}}); err != nil {
		c.forget(q.GetId())
		return nil, errGone
	}
	late := time.NewTimer(c.timeout)
	defer late.Stop()
	select {
	case a, ok := <-waits:
		if !ok {
			return nil, errGone
		}
		return a, nil
	case <-late.C:
		c.forget(q.GetId())
		return nil, errLate
	}
}

func (c *client) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, id)
}

// tell writes a message. A supervisor that does not read holds it up for the timeout at most, and loses the connection.
func (c *client) tell(m proto.Message) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = c.conn.SetWriteDeadline(time.Now().Add(c.timeout))
	err := write(c.conn, m)
	if err != nil && !errors.Is(err, errFrame) {
		_ = c.conn.Close() // half a message may have been written
	}
	return err
}

// Refused implements sandbox.Decider.
func (c *client) Refused(pid int, what string) {
	_ = c.tell(&sandboxv1.Told{What: &sandboxv1.Told_Refusal{Refusal: &sandboxv1.Refusal{Pid: int64(pid), What: what}}})
}

// Started implements sandbox.Watcher.
func (c *client) Started(e sandbox.Event) {
	if !e.Start {
		_ = c.tell(&sandboxv1.Told{What: &sandboxv1.Told_Started{Started: &sandboxv1.Started{Pid: int64(e.PID), Call: e.Call}}})
	}
}

// Began implements sandbox.Reporter.
func (c *client) Began(pid int, walls proc.Walls, err error) {
	c.root.Store(int64(pid))
	b := &sandboxv1.Began{Pid: int64(pid), Landlock: walls.Landlock, Seccomp: walls.Seccomp, Notes: walls.Notes}
	if err != nil {
		b.Failed, b.Unsupported = err.Error(), errors.Is(err, sandbox.ErrUnsupported)
	}
	_ = c.tell(&sandboxv1.Told{What: &sandboxv1.Told_Began{Began: b}})
}

// refused tells the process why it was refused, on its standard error. The command's own process has the agent's.
func (c *client) refused(e sandbox.Event, why string) {
	if why != "" && c.timeout == answerTimeout && int64(e.PID) != c.root.Load() {
		c.words.say(e.PID, why)
	}
}
