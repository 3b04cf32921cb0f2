package decisions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/acphost/acphost/internal/panics"
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
	// MountPoint: it is an empty file or folder on which something may be mounted, and the question is whether that may
	// be made though it could not be written otherwise (sandbox.Mounter). Else it is asked about once more.
	MountPoint bool
	// Program is the file that the process runs. Empty: it cannot be seen.
	Program string
	// Counts are those for leases; nil: no lease can be given.
	Counts *Counts
}

// Answer is what a Judge says about a question. The zero value refuses.
type Answer struct {
	Allowed bool
	// Why says in words why it is refused.
	Why string
	// TellStart: Started is to be called when the program begins.
	TellStart bool
	// Lease is for which other questions the answer holds; nil: for none. Only for a change of a file that is allowed.
	Lease *Lease
}

// Judge answers a sandbox. Its methods are called from several goroutines at once.
type Judge interface {
	// Judge decides. The process waits for it: it must be bounded in time. ctx ends when the sandbox is gone.
	Judge(ctx context.Context, asked Asked) Answer
	// Started is told that the program of a question is in place whose answer has TellStart, before anything that it
	// does is asked about.
	Started(pid int, call uint64)
	// Refused is told of a call that the sandbox has refused by itself, or would have if it did more than observe.
	// program is as in Asked.
	Refused(pid int, program, what string)
}

// Began says how the start of a command in a sandbox went.
type Began struct {
	// PID is the command's process; 0: there is none, and Failed says why.
	PID    int
	Failed string
	// Unsupported: nothing can be confined on this system.
	Unsupported bool
	Walls       proc.Walls
	// Env is the environment that the command starts with, each "NAME=VALUE"; nil: the supervisor knows it.
	Env []string
}

// Serve answers the sandbox at the other end of a connection until the connection ends, and closes it. began is told
// how the start went: once, unless the sandbox ends before it can say so. Serve returns when every Judge has returned.
// The error is nil if the sandbox has ended in order. Leases are given for a generation, if it is not nil and the
// connection is a socket of Pair.
func Serve(conn net.Conn, j Judge, began func(Began), generation *Generation) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := server{conn: conn, judge: j, ctx: ctx, generation: generation, counts: generation.lend(conn)}
	err := s.serve(began)
	cancel()
	_ = conn.Close()
	s.work.Wait()
	s.counts.end()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrUnexpectedEOF):
		return nil
	case errors.Is(err, syscall.ECONNRESET): // it has ended, and has not read all that it was told
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

	generation *Generation
	counts     *Counts // nil: no leases are given
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
			began(Began{PID: int(b.GetPid()), Failed: b.GetFailed(), Unsupported: b.GetUnsupported(), Env: texts(b.GetEnv()), Walls: proc.Walls{
				Landlock: b.GetLandlock(), Seccomp: b.GetSeccomp(), Capabilities: true, Notes: b.GetNotes(),
			}})
		case *sandboxv1.Told_Refusal:
			s.judge.Refused(int(what.Refusal.GetPid()), string(what.Refusal.GetProgram()), what.Refusal.GetWhat())
		case *sandboxv1.Told_Started:
			s.judge.Started(int(what.Started.GetPid()), what.Started.GetCall())
		case *sandboxv1.Told_Question:
			room <- struct{}{}
			s.work.Go(func() {
				defer func() { <-room }()
				defer panics.Recover(nil, "deciding what a process in the sandbox may do", func(err error) {
					s.reply(&sandboxv1.Answer{Id: what.Question.GetId(), Why: err.Error()})
				})
				s.answer(what.Question)
			})
		default:
			return fmt.Errorf("the sandbox said what is not known: %T", what)
		}
	}
}

func (s *server) answer(q *sandboxv1.Question) {
	asked := Asked{Cut: q.GetCut(), MountPoint: q.GetMountPoint(), Program: string(q.GetProgram()), Counts: s.counts, Event: sandbox.Event{
		Call: q.GetCall(), Operation: sandbox.Operation(q.GetOperation()), PID: int(q.GetPid()), Path: string(q.GetPath()), Dir: string(q.GetDir()),
		Args: texts(q.GetArgs()), Others: texts(q.GetOthers()), Apart: q.GetApart(), Env: texts(q.GetEnv()),
		Address: sandbox.Address{Network: q.GetNetwork(), Host: string(q.GetHost()), Port: uint16(q.GetPort())},
	}}
	generation, _ := s.generation.current() // before anything is looked at
	said := s.judge.Judge(s.ctx, asked)
	a := &sandboxv1.Answer{Id: q.GetId(), Allowed: said.Allowed, Why: said.Why, TellStart: said.TellStart}
	if len(a.Why) > maxWords {
		a.Why = a.Why[:maxWords]
	}
	if l := said.Lease; l != nil && said.Allowed && asked.Operation == sandbox.Write && len(l.Keys) <= maxKeys {
		a.Lease = &sandboxv1.Lease{
			Generation: generation, Count: l.Count.n, View: l.Reuse.GetView(), Except: l.Reuse.GetExcept(), Files: l.Reuse.GetFiles(),
		}
		for _, key := range l.Keys {
			a.Lease.Keys = append(a.Lease.Keys, key.Device, key.Inode)
		}
	}
	s.reply(a)
}

// reply writes an answer.
func (s *server) reply(a *sandboxv1.Answer) {
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
