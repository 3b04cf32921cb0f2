// Package connlimit limits how many connections or calls there are at once, in total and from each origin, so that one origin does
// not keep others out. The supervisor and sidecars limit connections of callers that have not authenticated yet with it.
package connlimit

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Limiter limits how many entries (connections, calls) there are at once, in total and from each origin. Safe for concurrent use.
type Limiter struct {
	// most is the limit of all entries, each the limit of one origin.
	most, each int
	// policy says which entry is evicted if a limit is reached.
	policy Policy

	mu   sync.Mutex
	of   map[string][]*place // guarded by mu: by origin, the oldest first
	all  int                 // guarded by mu
	came uint64              // guarded by mu
}

// Policy says which entry a Limiter evicts if a limit is reached.
type Policy int

const (
	// RejectNew rejects the new entry.
	RejectNew Policy = iota
	// EvictLargest evicts the oldest entry of the origin with most entries, if that has more than the new entry's origin would
	// have. Otherwise it rejects the new entry.
	EvictLargest
	// EvictOldest evicts the oldest entry of the new entry's origin if that origin is at its limit, and the oldest entry of the
	// origin with most entries if the total is at its limit. It never rejects the new entry.
	EvictOldest
)

// place is an entry of a Limiter.
type place struct {
	origin string
	number uint64 // when it came
	drop   func()
}

// New returns an empty Limiter with a limit of all entries and one for each origin.
func New(most, each int, m Policy) *Limiter {
	return &Limiter{most: most, each: each, policy: m, of: map[string][]*place{}}
}

// Admit adds an entry, or reports that a limit is reached. drop is called if the entry is evicted, in the goroutine of the entry
// that replaces it, and must not block; RejectNew never calls it. The caller calls leave when the entry ends. It may call leave
// more than once, and after an eviction.
func (l *Limiter) Admit(origin string, drop func()) (leave func(), ok bool) {
	l.mu.Lock()
	victim, ok := l.roomFor(origin)
	if !ok {
		l.mu.Unlock()
		return nil, false
	}
	if victim != nil {
		l.remove(victim)
	}
	l.came++
	p := &place{origin: origin, number: l.came, drop: drop}
	l.of[origin] = append(l.of[origin], p)
	l.all++
	l.mu.Unlock()
	if victim != nil {
		victim.drop()
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.remove(p)
	}, true
}

// roomFor returns the entry to evict for a new one; nil: there is room.
func (l *Limiter) roomFor(origin string) (victim *place, ok bool) {
	own := l.of[origin]
	switch {
	case len(own) >= l.each && l.policy == EvictOldest:
		return own[0], true
	case len(own) >= l.each:
		return nil, false
	case l.all < l.most:
		return nil, true
	case l.policy == RejectNew:
		return nil, false
	}
	var largest []*place
	for _, there := range l.of {
		if len(there) > len(largest) || len(there) == len(largest) && there[0].number < largest[0].number {
			largest = there
		}
	}
	if len(largest) == 0 || l.policy == EvictLargest && len(largest) <= len(own)+1 {
		return nil, false
	}
	return largest[0], true
}

// remove removes an entry, if it is there.
func (l *Limiter) remove(p *place) {
	there := l.of[p.origin]
	i := slices.Index(there, p)
	if i < 0 {
		return
	}
	l.all--
	if l.of[p.origin] = slices.Delete(there, i, i+1); len(there) == 1 {
		delete(l.of, p.origin)
	}
}

// Room returns the limit of unauthenticated connections of one listener: an eighth of the process's limit of open files, and at
// most 256.
func Room() int { return RoomOf(openFiles()) }

// RoomOf is Room for a limit of open files; 0: the limit is not known.
func RoomOf(files uint64) int {
	if files == 0 {
		return 256
	}
	return int(max(16, min(256, files/8)))
}

// AddressOf returns the origin of a TCP connection: the peer's address without its port. For IPv6 it is the /64 network, which usually
// belongs to one peer.
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
