package egress

import (
	"net"
	"sync"
)

// limited is a listener with a limit of concurrent connections. Other connections wait in the kernel's queue.
type limited struct {
	net.Listener
	room   chan struct{}
	done   chan struct{}
	finish sync.Once
}

func newLimited(l net.Listener, limit int) *limited {
	return &limited{Listener: l, room: make(chan struct{}, limit), done: make(chan struct{})}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.room <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	return &limitedConn{TCPConn: conn.(*net.TCPConn), leave: sync.OnceFunc(func() { <-l.room })}, nil
}

func (l *limited) Close() error {
	l.finish.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// limitedConn allows another connection when it is closed.
type limitedConn struct {
	*net.TCPConn
	leave func()
}

func (c *limitedConn) Close() error {
	c.leave()
	return c.TCPConn.Close()
}
