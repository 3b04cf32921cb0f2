package peer

import (
	"errors"
	"fmt"
	"net"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
)

// Of returns the process at the other end of a connected unix stream socket: the process that connected or, on the
// connecting side, the process that listens. With an error, it returns what is known. The caller calls Close.
func Of(conn net.Conn) (Peer, error) {
	var cred *unix.Ucred
	held := -1
	err := onSocket(conn, func(fd int) (err error) {
		if cred, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err != nil {
			return err
		}
		// SO_PEERPIDFD (Linux 6.5) returns a handle of the very process that connected. Its id may have been reused:
		// the caller can leave the connection to a child and exit.
		if held, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD); err != nil {
			held = -1
		}
		if errors.Is(err, unix.ENOPROTOOPT) {
			err = errNoHold
		}
		return err
	})
	p := Peer{}
	if cred == nil {
		return p, err
	}
	p = Peer{Known: true, UID: int(cred.Uid), PID: int(cred.Pid)}
	switch {
	case p.PID <= 0:
		closeFile(held)
	case err == nil:
		p.Process = &pidfd{fd: held}
	case errors.Is(err, errNoHold):
		p.Process = holdByTime(p.PID)
	default: // it has ended
		p.Process = gone{}
	}
	return p, nil
}

// pidfd is a handle of a process.
type pidfd struct {
	mu sync.Mutex
	fd int // guarded by mu; -1: closed
}

func (p *pidfd) Alive() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fd < 0 {
		return errors.New("the connection is closed")
	}
	fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("ask for the process that connected: %w", err)
		case n > 0: // readable after the process has ended
			return ErrEnded
		}
		return nil
	}
}

func (p *pidfd) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	closeFile(p.fd)
	p.fd = -1
}

func closeFile(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}

// errNoHold means that this kernel has no SO_PEERPIDFD.
var errNoHold = errors.New("no handle of the peer")

// byTime distinguishes a process from a later one with the same id by its start time, which was read right after it
// connected. Older kernels provide nothing better.
type byTime struct{ tree proc.Tree }

func holdByTime(pid int) Process {
	tree, err := proc.TreeOf(pid)
	if err != nil {
		return gone{}
	}
	return byTime{tree}
}

func (b byTime) Alive() error {
	now, err := proc.TreeOf(b.tree.Root)
	if err != nil || now.Started != b.tree.Started {
		return ErrEnded
	}
	return nil
}

func (byTime) Close() {}

// gone is a process that ended before its handle could be opened.
type gone struct{}

func (gone) Alive() error { return ErrEnded }
func (gone) Close()       {}
