package admin

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// lookEvery is how often it is looked whether the socket is there still.
const lookEvery = 3 * time.Second

// lasting listens on a socket with a path, and on another one at the same path once that is gone: whoever may write in its
// folder can remove it, an agent of the same user too, and with it the way by which a person finds the supervisor.
type lasting struct {
	path string
	// own: the name is this supervisor's alone, and whatever else has it is replaced.
	own bool

	made fs.FileInfo // of the file, for look alone; nil: not known

	mu     sync.Mutex
	inner  *net.UnixListener // guarded by mu
	closed bool              // guarded by mu
}

func newLasting(l *net.UnixListener, path string, own bool) *lasting {
	made, _ := os.Lstat(path)
	return &lasting{path: path, own: own, inner: l, made: made}
}

// keep looks after the socket until ctx is done. said is called with each new reason for which it cannot be made again.
func (l *lasting) keep(ctx context.Context, said func(error)) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for last := ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := l.look()
		if err == nil {
			last = ""
		} else if err.Error() != last {
			last = err.Error()
			said(err)
		}
	}
}

// look makes the socket again if it is gone.
func (l *lasting) look() error {
	now, err := os.Lstat(l.path)
	if err == nil && l.made != nil && os.SameFile(now, l.made) {
		return nil
	}
	dir := filepath.Dir(l.path)
	if err := privateDir(dir); err != nil {
		return err
	}
	if !l.own {
		if err := vacate(l.path); err != nil {
			return err
		}
	}
	listener, err := listenAt(l.path, unreadyIn(dir))
	if err != nil {
		return fmt.Errorf("make the admin socket again: %w", err)
	}
	l.made, _ = os.Lstat(l.path)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return listener.Close()
	}
	old := l.inner
	l.inner = listener
	_ = old.Close() // nobody finds it any more
	return nil
}

func (l *lasting) current() (_ *net.UnixListener, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inner, l.closed
}

// Accept implements net.Listener.
func (l *lasting) Accept() (net.Conn, error) {
	for {
		inner, _ := l.current()
		conn, err := inner.Accept()
		if err == nil {
			return conn, nil
		}
		if now, closed := l.current(); closed || now == inner {
			return nil, err
		}
	}
}

// Close implements net.Listener.
func (l *lasting) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.inner.Close()
}

// Addr implements net.Listener.
func (l *lasting) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }
