package admin

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/certs"
)

const (
	dialTimeout   = 500 * time.Millisecond
	statusTimeout = time.Second

	remoteDialTimeout = 10 * time.Second
)

// maxAnswerBytes is what a client takes of a supervisor, which it trusts: an event holds what an agent said, whole.
const maxAnswerBytes = math.MaxInt32

// Supervisor is a supervisor that was found by its socket.
type Supervisor struct {
	// Socket is the socket's absolute path.
	Socket string
	// PID is its process id, from its status, else from the socket's name; 0: not known.
	PID int
	// Status is what it says of itself; nil if Err is set.
	Status *supervisorv1.GetStatusResponse
	// Err is why it did not answer within a second, though somebody listens.
	Err error
}

// Running asks the supervisors whose sockets stand in dirs, and those at the further sockets, for their status: all at
// once, a second each. Sockets of dead supervisors are left out, and removed from dirs. Folders that are missing, not
// ours, or open to others are skipped, since anyone could have put a socket there. The order is that of the start, those
// that do not answer last.
func Running(ctx context.Context, dirs []string, further ...string) []Supervisor {
	var paths []string
	for _, dir := range dirs {
		if checkDir(dir) != nil {
			continue
		}
		clean(dir)
		paths = append(paths, sockets(dir)...)
	}
	for _, path := range further {
		if checkDir(filepath.Dir(path)) == nil && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	found := make([]Supervisor, len(paths))
	var asked sync.WaitGroup
	for i, path := range paths {
		asked.Go(func() { found[i] = ask(ctx, path) })
	}
	asked.Wait()
	found = slices.DeleteFunc(found, func(s Supervisor) bool { return s.Err != nil && abandonedOrGone(s.Socket) })
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

// ask reads the status of one supervisor.
func ask(ctx context.Context, path string) Supervisor {
	s := Supervisor{Socket: path}
	pid, _, _ := strings.Cut(filepath.Base(path), "-")
	s.PID, _ = strconv.Atoi(pid)
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	conn, err := Dial(path)
	if err != nil {
		s.Err = err
		return s
	}
	defer conn.Close()
	s.Status, s.Err = supervisorv1.NewSupervisorStateServiceClient(conn).GetStatus(ctx, &supervisorv1.GetStatusRequest{})
	if s.Err == nil && s.Status.GetPid() != 0 {
		s.PID = int(s.Status.GetPid())
	}
	return s
}

// DialTLS returns a connection to a supervisor at HOST:PORT, over TLS with a client's keys. It connects with the first
// call.
func DialTLS(address string, keys certs.Files) (*grpc.ClientConn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("the supervisor's address: expected HOST:PORT, got %q", address)
	}
	config, err := keys.Client(host)
	if err != nil {
		return nil, fmt.Errorf("the keys for %s: %w: name a client's folder, such as the viewer folder that \"acphost certs init\" makes", address, err)
	}
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswerBytes)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: remoteDialTimeout}).DialContext(ctx, "tcp", address)
		}))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return conn, nil
}

// Dial returns a connection to the admin socket at path. It connects with the first call.
func Dial(path string) (*grpc.ClientConn, error) {
	// A dialler instead of the address "unix:PATH", so that no character of the path means anything, and no proxy of
	// the environment is asked.
	conn, err := grpc.NewClient("passthrough:///acphost",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswerBytes)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		return nil, fmt.Errorf("admin socket %s: %w", path, err)
	}
	return conn, nil
}
