package decisions

import (
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/regular"
	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/secretfile"
	sandboxv1 "github.com/acphost/acphost/proto/acphost/sandbox/v1"
)

// Timeouts of a question. A policy has half of that.
const (
	answerTimeout = 10 * time.Second
	// observeTimeout applies with Observe: the call is made regardless of the answer.
	observeTimeout = time.Second
)

// lender is a socket that may receive descriptors.
type lender interface {
	// lent returns the descriptors that were received.
	lent() []int
	// open reports whether the other side is connected.
	open() bool
}

// socket is the connection to the supervisor. Reads and writes fail with os.ErrDeadlineExceeded after their deadlines.
type socket interface {
	io.ReadWriteCloser
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// client asks a supervisor. It is a sandbox.Decider and a sandbox.Reporter.
//
// Of the goroutines that wait for answers, one reads, and passes the others their answers. With one question at a time,
// which is the usual case, no thread wakes another.
type client struct {
	conn    socket
	timeout time.Duration
	last    atomic.Uint64
	root    atomic.Int64 // the command's process
	environ []string     // the command's, if the supervisor does not know it
	words   words
	leases  atomic.Pointer[leases] // nil: the supervisor has granted none
	reads   atomic.Pointer[reads]  // nil: as leases

	writing sync.Mutex

	reading chan struct{} // contains a token if no goroutine reads
	in      []byte        // the start of the next answers; owned by the goroutine that reads

	mu    sync.Mutex // guards the fields below
	open  map[uint64]chan *sandboxv1.Answer
	ended bool
	start map[uint64]bool // calls of which the supervisor wants a notification when the program starts
}

func newClient(conn socket, timeout time.Duration) *client {
	c := &client{conn: conn, timeout: timeout, reading: make(chan struct{}, 1), open: map[uint64]chan *sandboxv1.Answer{}}
	c.reading <- struct{}{}
	return c
}

// Allows implements sandbox.Decider.
func (c *client) Allows(e sandbox.Event) bool {
	allowed, _ := c.allows(e, question{})
	return allowed
}

// AllowsAtOnce implements sandbox.Quick.
func (c *client) AllowsAtOnce(e sandbox.Event) bool {
	switch {
	case e.Start: // the process that starts the sandbox has chosen it
		return true
	case sandbox.OpensDevice(e): // as the supervisor would answer: most programs open /dev/null
		return true
	case e.Operation == sandbox.Read:
		return c.reads.Load().allow(e, time.Now()) && c.connected()
	}
	about, name, ok := leasable(e)
	if !ok {
		return false
	}
	l := c.lending()
	return l != nil && l.allow(about, name, e)
}

// AllowsStaged implements sandbox.Stager.
func (c *client) AllowsStaged(e sandbox.Event) (allowed, staged bool) {
	return c.allows(e, question{stageable: true})
}

// question is what a question has besides the event.
type question struct{ mountPoint, stageable bool }

func (c *client) allows(e sandbox.Event, more question) (allowed, staged bool) {
	if c.AllowsAtOnce(e) {
		return true, false
	}
	a, err := c.ask(e, more)
	switch {
	case err != nil:
		c.refused(e, err.Error())
		return false, false
	case more.stageable && a.GetStaged():
		return false, true
	case !a.GetAllowed():
		c.refused(e, a.GetWhy())
		return false, false
	}
	if about, _, ok := leasable(e); ok {
		c.leases.Load().keep(about, a.GetLease(), time.Now())
	}
	if e.Operation == sandbox.Read && a.GetReads() != nil {
		c.reads.Store(newReads(a.GetReads(), time.Now()))
	}
	if a.GetTellStart() {
		c.expect(e.Call)
	}
	return true, false
}

// AllowsMountPoint implements sandbox.Mounter.
func (c *client) AllowsMountPoint(e sandbox.Event) bool {
	a, err := c.ask(e, question{mountPoint: true})
	return err == nil && a.GetAllowed()
}

// connected reports whether the supervisor is connected.
func (c *client) connected() bool {
	if s, ok := c.conn.(lender); ok {
		return s.open()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.ended
}

// Places implements sandbox.Placer: the supervisor decides on the content of some of git's files.
func (c *client) Places(path string) bool {
	return git.MayBeOwn(path) && git.WriteOf(git.Change{Path: path}).ByContent()
}

// Inspects implements sandbox.Inspector: the content of some files decides whether they are secrets.
func (c *client) Inspects(path string) int {
	if secretfile.Needs(path) == secretfile.MaxContent {
		return secretfile.MaxContent + 1
	}
	return 0
}

// Content implements sandbox.Placer: commands in the todo list of a rebase run only in a sandbox.
func (c *client) Content(path string, written []byte) []byte {
	if git.WriteOf(git.Change{Path: path}) != git.Steps {
		return written
	}
	before, _ := regular.Read(path, sandbox.MaxContent) // the supervisor reads it again
	return git.GuardSteps(path, written, before)
}

// Rechecks implements sandbox.Rechecker.
func (c *client) Rechecks(path string) bool { return git.MeansMoreWithOthers(path) }

// lending returns the leases while the supervisor is connected; nil: there are none.
func (c *client) lending() *leases {
	l := c.leases.Load()
	if s, ok := c.conn.(lender); l == nil || !ok || !s.open() {
		return nil
	}
	return l
}

// maxStarts limits the programs whose start the supervisor wants to be notified of. The kernel may reject a start
// without a notification.
const maxStarts = 1024

func (c *client) expect(call uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.start == nil || len(c.start) >= maxStarts {
		c.start = map[uint64]bool{}
	}
	c.start[call] = true
}

func (c *client) expects(call uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	expected := c.start[call]
	delete(c.start, call)
	return expected
}

// contentFor returns the content of an event for the supervisor, and whether the supervisor may rely on it. An index that
// is harmless is sent as an empty one, which is harmless, too: indexes of large repositories exceed MaxContent.
func contentFor(e sandbox.Event) (placed bool, content []byte) {
	switch {
	case e.Placed && git.WriteOf(git.Change{Path: e.Path}) == git.Index && git.HarmlessIndex(e.Content) == "":
		return true, nil
	case len(e.Content) > sandbox.MaxContent:
		return false, nil
	}
	return e.Placed, e.Content
}

var (
	errGone = errors.New("the supervisor that decides is gone")
	errLate = errors.New("the supervisor did not decide in time")
)

func (c *client) ask(e sandbox.Event, more question) (*sandboxv1.Answer, error) {
	e.Placed, e.Content = contentFor(e)
	q := &sandboxv1.Question{
		Id: c.last.Add(1), Operation: string(e.Operation), Pid: int64(e.PID), Path: []byte(e.Path), Dir: []byte(e.Dir),
		Network: e.Address.Network, Host: []byte(e.Address.Host), Port: uint32(e.Address.Port),
		Call: e.Call, Program: programOf(e.PID), Apart: e.Apart, MountPoint: more.mountPoint, Stageable: more.stageable,
		Leaves: string(e.Leaves), Placed: e.Placed, Made: e.Made,
	}
	if e.Inspected {
		verdict := secretfile.Judge(e.Path, e.Content, len(e.Content) <= secretfile.MaxContent)
		q.Public = proto.Bool(verdict == secretfile.Public)
	} else {
		q.Content = e.Content
	}
	room := maxStrings
	var cut bool
	q.Args, q.Cut = raw(e.Args, &room)
	q.Others, cut = raw(e.Others, &room)
	q.Cut = q.Cut || cut
	q.Env, cut = raw(e.Env, &room)
	q.Cut = q.Cut || cut
	deadline := time.Now().Add(c.timeout)
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
	select {
	case <-c.reading:
		return c.readFor(q.GetId(), waits, deadline)
	default: // the reading goroutine needs no timer
	}
	late := time.NewTimer(time.Until(deadline))
	defer late.Stop()
	select {
	case a, ok := <-waits:
		if !ok {
			return nil, errGone
		}
		return a, nil
	case <-c.reading:
		return c.readFor(q.GetId(), waits, deadline)
	case <-late.C:
		c.forget(q.GetId())
		return nil, errLate
	}
}

// readFor reads until the answer to a question arrives, and passes other answers to their goroutines. Then another
// goroutine reads.
func (c *client) readFor(id uint64, waits <-chan *sandboxv1.Answer, deadline time.Time) (*sandboxv1.Answer, error) {
	defer func() { c.reading <- struct{}{} }()
	select {
	case a, ok := <-waits: // the previous reader has found the answer, or the end
		if !ok {
			return nil, errGone
		}
		return a, nil
	default:
	}
	for {
		a, err := c.next(deadline)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			c.forget(id)
			return nil, errLate
		case err != nil:
			c.end()
			return nil, errGone
		}
		c.mu.Lock()
		other := c.open[a.GetId()]
		delete(c.open, a.GetId())
		c.mu.Unlock()
		if a.GetId() == id {
			return a, nil
		}
		if other != nil {
			other <- a // which has room for one
		}
	}
}

// next reads an answer. It keeps the part of an answer that arrived before the deadline.
func (c *client) next(deadline time.Time) (*sandboxv1.Answer, error) {
	_ = c.conn.SetReadDeadline(deadline)
	for {
		frame, n, err := firstFrame(c.in)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			var a sandboxv1.Answer
			err := proto.Unmarshal(frame, &a)
			c.in = c.in[:copy(c.in, c.in[n:])]
			if s, ok := c.conn.(lender); err == nil && a.GetId() == 0 {
				if ok {
					c.leases.Store(borrow(s.lent()))
				}
				continue
			}
			return &a, err
		}
		c.in = slices.Grow(c.in, 4096)
		got, err := c.conn.Read(c.in[len(c.in):cap(c.in)])
		c.in = c.in[:len(c.in)+got]
		if err != nil && got == 0 {
			return nil, err
		}
	}
}

// end makes all questions fail from now on: the supervisor is gone.
func (c *client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, waits := range c.open {
		close(waits)
	}
	clear(c.open)
}

// programOf returns the file that a process runs, if it is readable.
func programOf(pid int) []byte {
	file, _ := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	return []byte(file)
}

func (c *client) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, id)
}

// tell writes a message. If the supervisor does not read within the timeout, tell closes the connection.
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
	_ = c.tell(&sandboxv1.Told{What: &sandboxv1.Told_Refusal{Refusal: &sandboxv1.Refusal{Pid: int64(pid), Program: programOf(pid), What: what}}})
}

// TunnelRefused writes the proxy's reason to the process's standard error. The supervisor knows the refusal from the
// proxy.
func (c *client) TunnelRefused(pid int, why string) {
	c.refused(sandbox.Event{PID: pid}, strings.TrimPrefix(why, "acphost: "))
}

// Started implements sandbox.Watcher.
func (c *client) Started(e sandbox.Event) {
	if !e.Start && c.expects(e.Call) {
		_ = c.tell(&sandboxv1.Told{What: &sandboxv1.Told_Started{Started: &sandboxv1.Started{Pid: int64(e.PID), Call: e.Call}}})
	}
}

// Began implements sandbox.Reporter.
func (c *client) Began(pid int, walls proc.Restrictions, err error) {
	c.root.Store(int64(pid))
	b := &sandboxv1.Began{Pid: int64(pid), Landlock: walls.Landlock, Seccomp: walls.Seccomp, Notes: walls.Notes}
	room := maxStrings
	b.Env, _ = raw(c.environ, &room)
	if err != nil {
		b.Failed, b.Unsupported = err.Error(), errors.Is(err, sandbox.ErrUnsupported)
	}
	_ = c.tell(&sandboxv1.Told{What: &sandboxv1.Told_Began{Began: b}})
}

// refused writes the reason of a rejection to the process's standard error, except for the command's own process, whose
// standard error is the agent's.
func (c *client) refused(e sandbox.Event, why string) {
	if why != "" && c.timeout == answerTimeout && int64(e.PID) != c.root.Load() {
		c.words.say(e.PID, why)
	}
}
