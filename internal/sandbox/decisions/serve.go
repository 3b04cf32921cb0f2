package decisions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/sandbox"
	sandboxv1 "github.com/acphost/acphost/proto/acphost/sandbox/v1"
)

const (
	// mostAsked is how many questions are worked on at once. The sandbox has fewer threads that ask.
	mostAsked = 64
	// writeTimeout is how long a sandbox may take to read an answer.
	writeTimeout = 5 * time.Second
)

// Asked is a question as the supervisor gets it.
type Asked struct {
	sandbox.Event
	// Cut: arguments and environment are not complete.
	Cut bool
}

// Judge answers a sandbox. Its methods are called from several goroutines at once.
type Judge interface {
	// Judge decides, and says in words why it refuses. The process waits for it: it must be bounded in time. ctx ends when
	// the sandbox is gone.
	Judge(ctx context.Context, asked Asked) (allowed bool, why string)
	// Started is told that the program of a question that was allowed is in place, before anything that it does is asked about.
	Started(pid int, call uint64)
	// Refused is told of a call that the sandbox has refused by itself.
	Refused(pid int, what string)
}

// Began says how the start of a command in a sandbox went.
type Began struct {
	// PID is the command's process; 0: there is none, and Failed says why.
	PID    int
	Failed string
	// Unsupported: nothing can be confined on this system.
	Unsupported bool
	Walls       proc.Walls
}

// Serve answers the sandbox at the other end of a connection until the connection ends, and closes it. began is told how the
// start went: once, unless the sandbox ends before it can say so. Serve returns when every Judge has returned. The error is nil
// if the sandbox has ended in order.
func Serve(conn net.Conn, j Judge, began func(Began)) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := server{conn: conn, judge: j, ctx: ctx}
	err := s.serve(began)
	cancel()
	_ = conn.Close()
	s.work.Wait()
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

type server struct {
	conn  net.Conn
	judge Judge
	ctx   context.Context // of the connection
	work  sync.WaitGroup
	mu    sync.Mutex // held while an answer is written
}

func (s *server) serve(began func(Began)) error {
	room := make(chan struct{}, mostAsked)
	said := false
	for {
		var told sandboxv1.Told
		if err := read(s.conn, &told); err != nil {
			return err
		}
		switch what := told.GetWhat().(type) {
		case *sandboxv1.Told_Began:
			if said {
				return errors.New("the sandbox has begun twice")
			}
			said = true
			b := what.Began
			began(Began{PID: int(b.GetPid()), Failed: b.GetFailed(), Unsupported: b.GetUnsupported(), Walls: proc.Walls{
				Landlock: b.GetLandlock(), Seccomp: b.GetSeccomp(), Capabilities: true, Notes: b.GetNotes(),
			}})
		case *sandboxv1.Told_Refusal:
			s.judge.Refused(int(what.Refusal.GetPid()), what.Refusal.GetWhat())
		case *sandboxv1.Told_Started:
			s.judge.Started(int(what.Started.GetPid()), what.Started.GetCall())
		case *sandboxv1.Told_Question:
			room <- struct{}{}
			s.work.Go(func() {
				defer func() { <-room }()
				s.answer(what.Question)
			})
		default:
			return fmt.Errorf("the sandbox said what is not known: %T", what)
		}
	}
}

func (s *server) answer(q *sandboxv1.Question) {
	asked := Asked{Cut: q.GetCut(), Event: sandbox.Event{
		Call: q.GetCall(), Operation: sandbox.Operation(q.GetOperation()), PID: int(q.GetPid()), Path: string(q.GetPath()), Dir: string(q.GetDir()),
		Args: texts(q.GetArgs()), Env: texts(q.GetEnv()),
		Address: sandbox.Address{Network: q.GetNetwork(), Host: string(q.GetHost()), Port: uint16(q.GetPort())},
	}}
	a := &sandboxv1.Answer{Id: q.GetId()}
	a.Allowed, a.Why = s.judge.Judge(s.ctx, asked)
	if len(a.Why) > maxWords {
		a.Why = a.Why[:maxWords]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err := write(s.conn, a); err != nil {
		_ = s.conn.Close() // half an answer may have been written
	}
}

func texts(list [][]byte) []string {
	var out []string
	for _, b := range list {
		out = append(out, string(b))
	}
	return out
}

func raw(list []string, room *int) (out [][]byte, cut bool) {
	for _, s := range list {
		if *room -= len(s) + 8; *room < 0 {
			return out, true
		}
		out = append(out, []byte(s))
	}
	return out, false
}
