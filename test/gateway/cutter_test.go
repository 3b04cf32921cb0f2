package gateway_test

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// cutter is a TCP proxy that cuts each of its connections after a random number of bytes, either way, in the middle of
// whatever passes.
type cutter struct {
	listener net.Listener
	to       string
	most     int64 // bytes of a connection that pass, less than this
	cuts     atomic.Int64
	whole    atomic.Bool // no connection that begins now is cut

	mu     sync.Mutex // guards what follows
	random *rand.Rand
	open   map[net.Conn]bool
	closed bool
	wg     sync.WaitGroup
}

func newCutter(t *testing.T, to string, most int64, seed uint64) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: l, to: to, most: most, random: rand.New(rand.NewPCG(seed, 0)), open: map[net.Conn]bool{}}
	c.wg.Go(c.serve)
	t.Cleanup(func() {
		_ = l.Close()
		c.mu.Lock()
		c.closed = true
		for conn := range c.open {
			_ = conn.Close()
		}
		c.mu.Unlock()
		c.wg.Wait()
	})
	return c
}

func (c *cutter) at() string { return c.listener.Addr().String() }

func (c *cutter) serve() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		c.mu.Lock()
		left := &atomic.Int64{}
		left.Store(1 + c.random.Int64N(c.most))
		if c.whole.Load() {
			left.Store(1 << 60)
		}
		reset := c.random.IntN(2) == 0
		c.open[client], c.open[server] = true, true
		if c.closed {
			_, _ = client.Close(), server.Close()
		}
		c.mu.Unlock()
		cut := sync.OnceFunc(func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, conn := range []net.Conn{client, server} {
				if reset {
					_ = conn.(*net.TCPConn).SetLinger(0)
				}
				_ = conn.Close()
				delete(c.open, conn)
			}
		})
		c.wg.Go(func() { c.pass(client, server, left, cut) })
		c.wg.Go(func() { c.pass(server, client, left, cut) })
	}
}

// pass forwards bytes until one end is closed, or the given number remains.
func (c *cutter) pass(from, to net.Conn, left *atomic.Int64, cut func()) {
	defer cut()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		rest := left.Add(-int64(n))
		if rest <= 0 && rest+int64(n) > 0 { // the other way has not used it up
			c.cuts.Add(1)
		}
		if _, failed := to.Write(buf[:max(0, n+int(min(0, rest)))]); failed != nil || err != nil || rest <= 0 {
			return
		}
	}
}
