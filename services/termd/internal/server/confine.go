package server

import (
	"fmt"
	"net"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/cgroup"
	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/services/termd/internal/command"
)

// Confine connects the sandbox of one command to the supervisor: it forwards questions and answers.
func (s *Server) Confine(stream grpc.BidiStreamingServer[terminalv1.ConfineRequest, terminalv1.ConfineResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if first.GetBegin().GetId() == "" {
		return status.Error(codes.InvalidArgument, "begin: it has to come first, with an id")
	}
	ready := &terminalv1.Confined{Unsupported: s.terminals.SandboxObstacle()}
	if err := sandbox.Supported(); err != nil {
		ready.Unsupported = err.Error()
	}
	c, err := s.confinements.add(first.GetBegin())
	if err != nil {
		return err
	}
	defer s.confinements.remove(c)
	if err := stream.Send(&terminalv1.ConfineResponse{What: &terminalv1.ConfineResponse_Ready{Ready: ready}}); err != nil {
		return err
	}
	select {
	case conn := <-c.socket:
		// The receiving goroutine ends with this call.
		go panics.Guard(s.log, "passing answers on to the sandbox of a command", func() {
			decisions.Down(conn, func() ([]byte, error) {
				m, err := stream.Recv()
				return m.GetAnswers(), err
			})
		}, func(error) { _ = conn.Close() })()
		_ = decisions.Up(conn, func(p []byte) error {
			return stream.Send(&terminalv1.ConfineResponse{What: &terminalv1.ConfineResponse_Questions{Questions: p}})
		})
		_ = conn.Close()
	case <-stream.Context().Done():
	}
	return nil
}

// confinements are the streams for sandboxes without a command yet. The zero value is ready.
type confinements struct {
	mu   sync.Mutex
	byID map[string]*confinement
}

// confinement is a stream for the sandbox of a command.
type confinement struct {
	*terminalv1.Confinement
	socket chan net.Conn // has room for one: this process's end of the sandbox's socket
}

func (s *confinements) add(config *terminalv1.Confinement) (*confinement, error) {
	for _, entry := range config.GetEnv() {
		if name, _, ok := strings.Cut(entry, "="); !ok || name == "" || strings.Contains(entry, "\x00") {
			return nil, status.Errorf(codes.InvalidArgument, "begin: env: %q is no variable with a value", entry)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[string]*confinement{}
	}
	if s.byID[config.GetId()] != nil {
		return nil, status.Error(codes.AlreadyExists, "begin: id: there is a stream with this id: take another one for each command")
	}
	c := &confinement{config, make(chan net.Conn, 1)}
	s.byID[config.GetId()] = c
	return c, nil
}

func (s *confinements) remove(c *confinement) {
	s.mu.Lock()
	if s.byID[c.GetId()] == c {
		delete(s.byID, c.GetId())
	}
	s.mu.Unlock()
	select { // it was taken too late for the stream to see it
	case conn := <-c.socket:
		_ = conn.Close()
	default:
	}
}

// assign assigns a stream to the sandbox of a command.
func (s *confinements) assign(id string) (*command.Sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.byID[id]
	if c == nil {
		return nil, status.Error(codes.FailedPrecondition, "context: confinement: the stream for the command's sandbox is not open: try again")
	}
	conn, theirs, err := decisions.Pair()
	if err != nil {
		return nil, status.Error(codes.Internal, fmt.Sprintf("open a socket for the command's sandbox: %v", err))
	}
	delete(s.byID, id)
	c.socket <- conn
	config := sandbox.Confinement{Observe: c.GetObserve(), Reads: c.GetReads(), Closed: c.GetClosed(), Proxy: c.GetProxy()}
	box := &command.Sandbox{Env: c.GetEnv(), Decisions: theirs}
	if cgroup.Enterable(c.GetGroup()) {
		box.Group = c.GetGroup()
	} else {
		config.MaxProcesses = int(c.GetMaxProcesses())
	}
	box.Flags = config.Flags()
	return box, nil
}
