package client

import (
	"cmp"
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/rundir"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// The timeouts of the status of each supervisor in a list, and of one supervisor that is called.
const (
	statusTimeout = 3 * time.Second
	callTimeout   = 10 * time.Second
)

// Supervisor is a supervisor that was found by its socket.
type Supervisor struct {
	// Socket is the socket's absolute path.
	Socket string
	// Folder is the folder, of those passed to Find, that contains the socket. Empty: the socket is one of the further
	// sockets.
	Folder string
	// PID is the process id from the status, or else from the socket's name. 0: unknown.
	PID int
	// Status is the status that the supervisor reports. It is nil if Err is set.
	Status *supervisorv1.GetStatusResponse
	// Err is the reason why a process that listens did not answer within 3 s, or a *DoubtError if the process was not
	// called.
	Err error

	named bool
}

// Named returns s as a supervisor that the user has named: it is called without a check of the process that serves the
// socket.
func (s Supervisor) Named(ctx context.Context) Supervisor {
	pid, folder := s.PID, s.Folder
	s = ask(ctx, s.Socket, true, callTimeout)
	s.PID, s.Folder, s.named = pid, folder, true
	return s
}

// Dial returns a connection to the control socket, if it exists and accepts this process, or else to the admin socket,
// which rejects calls that change something. The first call connects. It fails with a *DoubtError if an agent may serve
// the socket, unless Named returned s.
func (s Supervisor) Dial() (*Client, error) { return dial(s.Socket, s.named) }

// Connect returns the network connection that Dial would use, for a caller that speaks gRPC by other means. The
// supervisor treats it as a connection of this process: it rejects calls of other processes on it that change
// something.
func (s Supervisor) Connect(ctx context.Context) (net.Conn, error) {
	return connectPreferred(ctx, s.Socket, s.named)
}

// Dirs returns every folder that may contain the socket of a supervisor of this user. env looks up environment
// variables, as os.Getenv does.
func Dirs(env func(string) string) []string { return rundir.Dirs(env) }

// Find asks the supervisors with sockets in dirs, and those at the further sockets, for their status, concurrently,
// with a timeout of 3 s each. It omits sockets of dead supervisors, and removes them from dirs. It skips folders that
// are missing, belong to another user, or are open to others, because any user could have put a socket there. The
// result is in the order of the start times, followed by supervisors that did not answer; those that may be agents are
// not called, and are among these.
func Find(ctx context.Context, dirs []string, further ...string) []Supervisor {
	var paths, folders []string // one entry for each path
	for _, dir := range dirs {
		if rundir.Check(dir) != nil {
			continue
		}
		rundir.Clean(dir)
		for _, path := range rundir.Sockets(dir) {
			if !slices.Contains(paths, path) {
				paths, folders = append(paths, path), append(folders, dir)
			}
		}
	}
	for _, path := range further {
		if rundir.Check(filepath.Dir(path)) == nil && !slices.Contains(paths, path) {
			paths, folders = append(paths, path), append(folders, "")
		}
	}
	found := make([]Supervisor, len(paths))
	var asked sync.WaitGroup
	for i, path := range paths {
		asked.Go(func() {
			found[i] = ask(ctx, path, false, statusTimeout)
			found[i].Folder = folders[i]
		})
	}
	asked.Wait()
	found = slices.DeleteFunc(found, func(s Supervisor) bool { return s.Err != nil && rundir.AbandonedOrGone(s.Socket) })
	slices.SortStableFunc(found, func(a, b Supervisor) int {
		if (a.Err == nil) != (b.Err == nil) {
			if a.Err == nil {
				return -1
			}
			return 1
		}
		return cmp.Or(a.Status.GetStartTime().AsTime().Compare(b.Status.GetStartTime().AsTime()), cmp.Compare(a.Socket, b.Socket))
	})
	return found
}

// ask reads the status of one supervisor with a timeout. named: the user has named the socket, so the process is not
// checked.
func ask(ctx context.Context, path string, named bool, within time.Duration) Supervisor {
	s := Supervisor{Socket: path}
	pid, _, _ := strings.Cut(filepath.Base(path), "-")
	s.PID, _ = strconv.Atoi(pid)
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var doubt *DoubtError
	if !named && errors.As(checkSocket(ctx, path), &doubt) {
		s.PID, s.Err = doubt.PID, doubt
		return s
	}
	conn, err := dialAdmin(path, named)
	if err != nil {
		s.Err = err
		return s
	}
	defer conn.Close()
	s.Status, s.Err = conn.State.GetStatus(ctx, &supervisorv1.GetStatusRequest{})
	if s.Err == nil && s.Status.GetPid() != 0 {
		s.PID = int(s.Status.GetPid())
	}
	return s
}
