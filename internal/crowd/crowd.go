// Package crowd limits how many callers may be somewhere at once, so that frequent callers do not keep others out. The
// supervisor and sidecars use it to limit connections of callers that have not identified themselves yet.
package crowd

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Crowd bounds how many may be somewhere at once: altogether, and of each origin, so that one who comes often does not
// keep others out. Safe for concurrent use.
type Crowd struct {
	// most may be there, and each of one origin.
	most, each int
	// manner says who gives way where there are too many.
	manner Manner

	mu   sync.Mutex
	of   map[string][]*place // guarded by mu: by origin, the oldest first
	all  int                 // guarded by mu
	came uint64              // guarded by mu
}

// Manner says who gives way in a crowd.
type Manner int

const (
	// Firm refuses the newcomer.
	Firm Manner = iota
	// Sharing has who has more places than the newcomer would have give one up, its oldest; else the newcomer is refused.
	Sharing
	// Pressing has the oldest of the newcomer's origin go if that has its share, the oldest of whoever has most if all are
	// taken. The newcomer is never refused.
	Pressing
)

// place is one that is in a crowd.
type place struct {
	origin string
	number uint64 // when it came
	drop   func()
}

// New makes an empty crowd: most may be there at once, and each of one origin.
func New(most, each int, m Manner) *Crowd {
	return &Crowd{most: most, each: each, manner: m, of: map[string][]*place{}}
}

// Admit lets somebody in, or says that there is no room. drop is called if it has to give way to another, from that
// one's goroutine, and must not wait; a Firm crowd calls it never. The caller calls leave when it goes, which may be more
// than once and after it was dropped.
func (c *Crowd) Admit(origin string, drop func()) (leave func(), ok bool) {
	c.mu.Lock()
	victim, ok := c.roomFor(origin)
	if !ok {
		c.mu.Unlock()
		return nil, false
	}
	if victim != nil {
		c.remove(victim)
	}
	c.came++
	p := &place{origin: origin, number: c.came, drop: drop}
	c.of[origin] = append(c.of[origin], p)
	c.all++
	c.mu.Unlock()
	if victim != nil {
		victim.drop()
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.remove(p)
	}, true
}

// roomFor says who has to go for a newcomer; nil: nobody.
func (c *Crowd) roomFor(origin string) (victim *place, ok bool) {
	own := c.of[origin]
	switch {
	case len(own) >= c.each && c.manner == Pressing:
		return own[0], true
	case len(own) >= c.each:
		return nil, false
	case c.all < c.most:
		return nil, true
	case c.manner == Firm:
		return nil, false
	}
	var largest []*place
	for _, there := range c.of {
		if len(there) > len(largest) || len(there) == len(largest) && there[0].number < largest[0].number {
			largest = there
		}
	}
	if len(largest) == 0 || c.manner == Sharing && len(largest) <= len(own)+1 {
		return nil, false
	}
	return largest[0], true
}

// remove takes one out, if it is there.
func (c *Crowd) remove(p *place) {
	there := c.of[p.origin]
	i := slices.Index(there, p)
	if i < 0 {
		return
	}
	c.all--
	if c.of[p.origin] = slices.Delete(there, i, i+1); len(there) == 1 {
		delete(c.of, p.origin)
	}
}

// Room is how many connections of strangers a process should have at one door: an eighth of the files that it may have
// open, and no more than 256.
func Room() int { return RoomOf(openFiles()) }

// RoomOf is Room where so many files may be open; 0: not known.
func RoomOf(files uint64) int {
	if files == 0 {
		return 256
	}
	return int(max(16, min(256, files/8)))
}

// AddressOf is the origin of a connection over TCP: the address of the other end, without its port. Whoever has one
// address of IPv6 has 2^64 of them, as a rule: they are one origin.
func AddressOf(conn net.Conn) string {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return ""
	}
	address := at.Addr().Unmap().WithZone("")
	if !address.Is6() {
		return address.String()
	}
	prefix, err := address.Prefix(64)
	if err != nil {
		return ""
	}
	return prefix.String()
}
