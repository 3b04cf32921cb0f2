package peer

import (
	"errors"
	"fmt"
	"net"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
)

// Of asks the kernel who is at the other end of a connected unix stream socket: who connected, or, for who has connected
// itself, who listens there. An error comes with what is known in spite of it. The caller calls Close.
func Of(conn net.Conn) (Peer, error) {
	var cred *unix.Ucred
	held := -1
	err := onSocket(conn, func(fd int) (err error) {
		if cred, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err != nil {
			return err
		}
		// A handle of the very process that connected (Linux 6.5). The number may be another one's by now: the caller
		// can leave the connection to a child and end.
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
	default: // it has ended already
		p.Process = gone{}
	}
	return p, nil
}

// pidfd is a process that the kernel holds for us.
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
		case n > 0: // readable once it has ended
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

// errNoHold says that this kernel has no SO_PEERPIDFD.
var errNoHold = errors.New("no handle of the peer")

// byTime is a process told from a later one of its number by when it started. It was looked at right after it had
// connected; nothing better can be had of an older kernel.
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

// gone is a process that had ended before it could be held.
type gone struct{}

func (gone) Alive() error { return ErrEnded }
func (gone) Close()       {}
