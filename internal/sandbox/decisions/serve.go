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
	// maxQuestions limits the concurrent questions. The sandbox has fewer threads that ask.
	maxQuestions = 64
	// writeTimeout limits how long a sandbox takes to read an answer.
	writeTimeout = 5 * time.Second
)

// Asked is a question as the supervisor receives it.
type Asked struct {
	sandbox.Event
	// Cut: arguments and environment are incomplete.
	Cut bool
	// MountPoint: the question is whether an empty file or folder may be made as a mount point although it could not be
	// written otherwise (sandbox.Mounter). If the answer is no, the sandbox asks again about the write.
	MountPoint bool
	// Stageable: the process makes a file, or replaces its whole content, and can be given an unnamed file to write.
	// The question is asked again when it is written, with the content (Placed).
	Stageable bool
	// Public, if Inspected: the file holds no secret although its name is on a list (secretfile.Public).
	Public bool
	// Program is the file that the process runs. Empty: it is not readable.
	Program string
	// Counts are the counts for leases; nil: no lease can be granted.
	Counts *Counts
}

// Answer is a Judge's answer to a question. The zero value rejects.
type Answer struct {
	Allowed bool
	// Staged: the content is decided on when it is written. Only if Asked.Stageable; Allowed does not count then.
	Staged bool
	// Why is the reason of a rejection in words.
	Why string
	// TellStart: the sandbox notifies Judge.Started when the program begins.
	TellStart bool
	// Lease extends the answer to other questions; nil: to none. Only for an allowed change of a file.
	Lease *Lease
	// Reads are other reads that the answer allows; nil: none. Only for an allowed read.
	Reads *ReadLease
}

// Judge decides on the questions of a sandbox. Its methods are called from several goroutines at once.
type Judge interface {
	// Judge decides. The process waits for it, so it must be bounded in time. ctx ends when the sandbox is gone.
	Judge(ctx context.Context, asked Asked) Answer
	// Started reports that a program is in place, if the answer to its question has TellStart, before the sandbox asks
	// about any operation of the program.
	Started(pid int, call uint64)
	// Refused reports a call that the sandbox has rejected itself, or would have rejected without Observe. program is
	// as in Asked.
	Refused(pid int, program, what string)
}

// Began reports how the start of a command in a sandbox went.
type Began struct {
	// PID is the command's process; 0: it was not started, and Failed is the reason.
	PID    int
	Failed string
	// Unsupported: this system cannot confine programs.
	Unsupported bool
	Walls       proc.Restrictions
	// Env is the environment that the command starts with, each "NAME=VALUE"; nil: the supervisor knows it.
	Env []string
}

// Serve answers the sandbox at the other end of a connection until the connection ends, and closes it. It calls began
// once when the command has started or failed, unless the sandbox ends before. It returns when all calls of the Judge
// have returned. The error is nil if the sandbox has ended properly. Serve grants leases if generation is not nil and
// the connection is a socket of Pair.
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
	case errors.Is(err, syscall.ECONNRESET): // it has ended, and has not read all answers
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
	room := make(chan struct{}, maxQuestions)
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
			began(Began{PID: int(b.GetPid()), Failed: b.GetFailed(), Unsupported: b.GetUnsupported(), Env: texts(b.GetEnv()), Walls: proc.Restrictions{
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
	asked := Asked{Cut: q.GetCut(), MountPoint: q.GetMountPoint(), Stageable: q.GetStageable(), Program: string(q.GetProgram()), Counts: s.counts, Event: sandbox.Event{
		Call: q.GetCall(), Operation: sandbox.Operation(q.GetOperation()), PID: int(q.GetPid()), Path: string(q.GetPath()), Dir: string(q.GetDir()),
		Args: texts(q.GetArgs()), Others: texts(q.GetOthers()), Apart: q.GetApart(), Env: texts(q.GetEnv()),
		Leaves: sandbox.Leaves(q.GetLeaves()), Placed: q.GetPlaced(), Content: q.GetContent(), Made: q.GetMade(),
		Inspected: q.Public != nil,
		Address:   sandbox.Address{Network: q.GetNetwork(), Host: string(q.GetHost()), Port: uint16(q.GetPort())},
	}}
	asked.Public = q.GetPublic()
	generation, _ := s.generation.current() // before the Judge reads any state
	said := s.judge.Judge(s.ctx, asked)
	a := &sandboxv1.Answer{Id: q.GetId(), Allowed: said.Allowed, Staged: said.Staged && asked.Stageable, Why: said.Why, TellStart: said.TellStart}
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
	if l := said.Reads; l != nil && said.Allowed && asked.Operation == sandbox.Read && len(l.Keys) <= maxKeys && len(l.Asked) <= maxAsked {
		a.Reads = &sandboxv1.ReadLease{Asked: l.Asked}
		for _, key := range l.Keys {
			a.Reads.Keys = append(a.Reads.Keys, key.Device, key.Inode)
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
