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

// statusTimeout is how long each supervisor of a list has to say how it is, and patience how long one has that is called.
const (
	statusTimeout = 3 * time.Second
	patience      = 10 * time.Second
)

// Supervisor is a supervisor that was found by its socket.
type Supervisor struct {
	// Socket is the socket's absolute path.
	Socket string
	// Folder is the one of the folders to Find in which it was found; empty: its socket is one of the further ones.
	Folder string
	// PID is its process id, from its status, else from the socket's name; 0: not known.
	PID int
	// Status is what it says of itself; nil if Err is set.
	Status *supervisorv1.GetStatusResponse
	// Err is why it did not answer within 3 s, though somebody listens; or a *DoubtError, why it was not asked.
	Err error

	named bool
}

// Named returns the supervisor as one that the user has named, so that it is asked whatever serves its socket.
func (s Supervisor) Named(ctx context.Context) Supervisor {
	pid, folder := s.PID, s.Folder
	s = ask(ctx, s.Socket, true, patience)
	s.PID, s.Folder, s.named = pid, folder, true
	return s
}

// Dial returns a connection to it: to its control socket where it has one that lets us in, and else to the admin socket,
// where calls that change something are refused. It connects with the first call, and not if an agent may serve the socket
// (*DoubtError), unless Named returned s.
func (s Supervisor) Dial() (*Client, error) { return dial(s.Socket, s.named) }

// Connect returns the connection on which Dial's calls go, for a caller that speaks gRPC on it by other means. The supervisor
// takes it for the connection of this process: what another process sends on it changes nothing.
func (s Supervisor) Connect(ctx context.Context) (net.Conn, error) {
	return connectBest(ctx, s.Socket, s.named)
}

// Dirs returns every folder in which a supervisor of this user may have its socket. env looks up environment variables:
// os.Getenv.
func Dirs(env func(string) string) []string { return rundir.Dirs(env) }

// Find asks the supervisors whose sockets stand in dirs, and those at the further sockets, for their status: all at
// once, 3 s each. Sockets of dead supervisors are left out, and removed from dirs. Folders that are missing, not
// ours, or open to others are skipped, since anyone could have put a socket there. The order is that of the start, those
// that do not answer last; those that may be agents' are not asked, and count among them.
func Find(ctx context.Context, dirs []string, further ...string) []Supervisor {
	var paths, folders []string // folders has one for each path
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

// ask reads the status of one supervisor within a time. named: a person has named it, whatever it is.
func ask(ctx context.Context, path string, named bool, within time.Duration) Supervisor {
	s := Supervisor{Socket: path}
	pid, _, _ := strings.Cut(filepath.Base(path), "-")
	s.PID, _ = strconv.Atoi(pid)
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var doubt *DoubtError
	if !named && errors.As(doubts(ctx, path), &doubt) {
		s.PID, s.Err = doubt.PID, doubt
		return s
	}
	conn, err := dialShown(path, named)
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
