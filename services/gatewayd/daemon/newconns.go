package daemon

import (
	"net"
	"net/http"
	"sync"
)

// newConns contains the connections without a request so far. http.Server.Shutdown would wait five seconds for them.
type newConns struct {
	mu    sync.Mutex
	conns map[net.Conn]bool // guarded by mu
	ended bool              // guarded by mu: end was called
}

// closeNewConns makes a server close connections without a request when it is shut down.
func closeNewConns(s *http.Server) {
	c := &newConns{conns: map[net.Conn]bool{}}
	s.ConnState = c.stateChanged
	s.RegisterOnShutdown(c.closeAll)
}

// stateChanged implements http.Server.ConnState.
func (c *newConns) stateChanged(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(c.conns, conn)
	case c.ended:
		_ = conn.Close()
	default:
		c.conns[conn] = true
	}
}

// closeAll closes all connections without a request, and later ones at once.
func (c *newConns) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for conn := range c.conns {
		_ = conn.Close()
	}
}
