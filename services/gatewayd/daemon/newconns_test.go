package daemon

import (
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are pipes.
type pipes struct {
	conns chan net.Conn
	over  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.over:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { close(p.over); return nil }

func (*pipes) Addr() net.Addr { return &net.TCPAddr{} }

func TestEndSilent_ClosesConnectionsWithoutRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &http.Server{Handler: http.NotFoundHandler()}
		closeNewConns(s)
		l := &pipes{conns: make(chan net.Conn), over: make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		ours, theirs := net.Pipe()
		defer ours.Close()
		l.conns <- theirs
		synctest.Wait()
		begun := time.Now()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("the server ended after %v, want at most a second", took)
		}
		<-served
	})
}
