package daemon

import (
	"net"
	"net/http"
	"sync"
)

// silent contains the connections without a request so far. http.Server.Shutdown would wait five seconds for them.
type silent struct {
	mu    sync.Mutex
	all   map[net.Conn]bool // guarded by mu
	ended bool              // guarded by mu: end was called
}

// endSilent makes a server close silent connections when it is shut down.
func endSilent(s *http.Server) {
	c := &silent{all: map[net.Conn]bool{}}
	s.ConnState = c.changed
	s.RegisterOnShutdown(c.end)
}

// changed implements http.Server.ConnState.
func (c *silent) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(c.all, conn)
	case c.ended:
		_ = conn.Close()
	default:
		c.all[conn] = true
	}
}

// end closes all silent connections, and later ones at once.
func (c *silent) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for conn := range c.all {
		_ = conn.Close()
	}
}
