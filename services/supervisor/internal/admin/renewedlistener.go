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

// checkEvery is how often the socket's file is checked.
const checkEvery = 3 * time.Second

// renewedListener listens on a socket with a path, and creates the socket again if its file is gone: every process that
// may write in the folder can remove it, also an agent of the same user, and clients could not find the supervisor any
// more.
type renewedListener struct {
	path string
	// own reports that the name belongs to this supervisor only, so that any other file with that name is replaced.
	own bool

	made fs.FileInfo // the socket's file, used by check only; nil: unknown

	mu     sync.Mutex
	inner  *net.UnixListener // guarded by mu
	closed bool              // guarded by mu
}

func newRenewedListener(l *net.UnixListener, path string, own bool) *renewedListener {
	made, _ := os.Lstat(path)
	return &renewedListener{path: path, own: own, inner: l, made: made}
}

// keep checks the socket until ctx ends. It calls failed with each new reason for which the socket cannot be created
// again.
func (l *renewedListener) keep(ctx context.Context, failed func(error)) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for last := ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := l.check()
		if err == nil {
			last = ""
		} else if err.Error() != last {
			last = err.Error()
			failed(err)
		}
	}
}

// check creates the socket again if it is gone.
func (l *renewedListener) check() error {
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
	_ = old.Close() // unreachable: its file is gone
	return nil
}

func (l *renewedListener) current() (_ *net.UnixListener, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inner, l.closed
}

// Accept implements net.Listener.
func (l *renewedListener) Accept() (net.Conn, error) {
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
func (l *renewedListener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.inner.Close()
}

// Addr implements net.Listener.
func (l *renewedListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }
