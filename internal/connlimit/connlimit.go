// Package connlimit limits the number of concurrent connections or calls, in total and from each origin, so that one
// origin cannot keep others out. The supervisor and sidecars use it for connections that have not authenticated yet.
package connlimit

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Limiter limits the number of concurrent entries (connections, calls), in total and from each origin. Safe for
// concurrent use.
type Limiter struct {
	// maxTotal is the limit of all entries, maxPerOrigin the limit of one origin.
	maxTotal, maxPerOrigin int
	// policy selects the entry to evict when a limit is reached.
	policy Policy

	mu       sync.Mutex
	byOrigin map[string][]*entry // guarded by mu: entries by origin, the oldest first
	total    int                 // guarded by mu
	last     uint64              // guarded by mu: the number of the latest entry
}

// Policy selects the entry that a Limiter evicts when a limit is reached.
type Policy int

const (
	// RejectNew rejects the new entry.
	RejectNew Policy = iota
	// EvictLargest evicts the oldest entry of the origin with the most entries, if that origin has more than the new
	// entry's origin would have. Otherwise it rejects the new entry.
	EvictLargest
	// EvictOldest evicts the oldest entry of the new entry's origin if that origin is at its limit, and the oldest
	// entry of the origin with the most entries if the total is at its limit. It never rejects the new entry.
	EvictOldest
)

// entry is an admitted connection or call.
type entry struct {
	origin string
	number uint64 // increases with each entry, so that the lowest number is the oldest
	drop   func()
}

// New returns an empty Limiter with a limit of all entries and a limit for each origin.
func New(maxTotal, maxPerOrigin int, m Policy) *Limiter {
	return &Limiter{maxTotal: maxTotal, maxPerOrigin: maxPerOrigin, policy: m, byOrigin: map[string][]*entry{}}
}

// Admit adds an entry, or reports that a limit is reached. drop is called if the entry is evicted, in the goroutine of
// the entry that replaces it, and must not block; RejectNew never calls it. The caller calls leave when the entry ends.
// It may call leave more than once, and after an eviction.
func (l *Limiter) Admit(origin string, drop func()) (leave func(), ok bool) {
	l.mu.Lock()
	victim, ok := l.victimFor(origin)
	if !ok {
		l.mu.Unlock()
		return nil, false
	}
	if victim != nil {
		l.remove(victim)
	}
	l.last++
	p := &entry{origin: origin, number: l.last, drop: drop}
	l.byOrigin[origin] = append(l.byOrigin[origin], p)
	l.total++
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

// victimFor returns the entry to evict for a new entry, or nil if no limit is reached. ok is false if the new entry is
// rejected.
func (l *Limiter) victimFor(origin string) (victim *entry, ok bool) {
	own := l.byOrigin[origin]
	switch {
	case len(own) >= l.maxPerOrigin && l.policy == EvictOldest:
		return own[0], true
	case len(own) >= l.maxPerOrigin:
		return nil, false
	case l.total < l.maxTotal:
		return nil, true
	case l.policy == RejectNew:
		return nil, false
	}
	var largest []*entry
	for _, there := range l.byOrigin {
		if len(there) > len(largest) || len(there) == len(largest) && there[0].number < largest[0].number {
			largest = there
		}
	}
	if len(largest) == 0 || l.policy == EvictLargest && len(largest) <= len(own)+1 {
		return nil, false
	}
	return largest[0], true
}

// remove removes an entry unless it was removed before.
func (l *Limiter) remove(p *entry) {
	there := l.byOrigin[p.origin]
	i := slices.Index(there, p)
	if i < 0 {
		return
	}
	l.total--
	if l.byOrigin[p.origin] = slices.Delete(there, i, i+1); len(there) == 1 {
		delete(l.byOrigin, p.origin)
	}
}

// Room returns the limit of unauthenticated connections of one listener: an eighth of the process's limit of open
// files, and at most 256.
func Room() int { return RoomOf(openFiles()) }

// RoomOf returns the result of Room for a limit of open files. 0 means that the limit is unknown.
func RoomOf(files uint64) int {
	if files == 0 {
		return 256
	}
	return int(max(16, min(256, files/8)))
}

// AddressOf returns the origin of a TCP connection: the peer's address without its port. For IPv6 it is the /64
// network, which usually belongs to one peer.
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
