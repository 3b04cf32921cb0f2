// Package filefeed reports the files that agents work with to programs on this machine: JSON lines over TCP, in the
// protocol of eisen-core, which the editor extension Eisen uses.
//
// It serves the data of a Source without computing anything. Its only own state is which session comes first. It must
// not access agents or sessions except through Sessions, since agents can connect to it too.
package filefeed

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/panics"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

const (
	// maxReaders is the limit of connections. A further one evicts the oldest whose reader has not authenticated with
	// the token: any process can connect, including agents, and this keeps others out only until they reconnect.
	maxReaders = 16
	// evictTimeout is how long an evicted reader may take to read the reason.
	evictTimeout = time.Second
	// maxLine is the limit of a line from a reader, in bytes.
	maxLine = 64 << 10
	// maxQueued is the limit of bytes in the queue of a reader; above it, the reader gets a snapshot instead.
	maxQueued = 4 << 20
	// maxBlocked is the limit of lines about refusals of one file in a response of the Source.
	maxBlocked = 100
	// maxSessions is the limit of sessions in the feed; the oldest ones are dropped.
	maxSessions = 1000
	// acceptPause is the pause after a failed accept: the process may be out of file descriptors.
	acceptPause = 100 * time.Millisecond
)

// Source provides the files that agents work with. Its methods are called concurrently.
type Source interface {
	// WatchFiles sends all files, then changes, until ctx ends or send fails.
	WatchFiles(ctx context.Context, req *supervisorv1.WatchFilesRequest, send func(*supervisorv1.WatchFilesResponse) error) error
	// Show sets the known state of the session that s names.
	Show(agentID string, s *supervisorv1.Session)
}

// Options configure a Server.
type Options struct {
	// Listen is the address: a loopback IP address and a port; port 0 is any free one. Required.
	Listen string
	// Source provides the files. Required.
	Source Source
	// AgentID is the agent in lines without a session; it may be empty.
	AgentID string
	// Sessions opens and closes sessions for readers with the token. Nil: an editor opens and closes them.
	Sessions Sessions
	// Folder is a folder in which sessions may be opened, in addition to the roots of open sessions.
	Folder string
	// Logger logs why a feed has ended. Nil: nothing is logged.
	Logger *slog.Logger
}

// Sessions opens and closes sessions, like SessionService.
type Sessions interface {
	NewSession(context.Context, *supervisorv1.NewSessionRequest) (*supervisorv1.NewSessionResponse, error)
	CloseSession(context.Context, *supervisorv1.CloseSessionRequest) (*supervisorv1.CloseSessionResponse, error)
}

// Server serves the feed. Safe for concurrent use.
type Server struct {
	source   Source
	agentID  string
	opener   Sessions
	folder   string
	token    string
	log      *slog.Logger
	listener net.Listener
	running  sync.WaitGroup
	ctx      context.Context // of calls; ends with Close
	cancel   context.CancelFunc

	mu       sync.Mutex // guards the fields below
	closed   bool
	readers  []*reader          // the oldest first
	evicted  int                // evicted readers that are still connected
	stop     context.CancelFunc // of the active watch; nil: there are no readers
	received bool               // the first response of the watch has arrived
	sessions map[sessionKey]*session
	order    []sessionKey // in order of arrival
	active   sessionKey
}

type sessionKey struct{ agent, session string }

// session is the feed's state of a session. A node is replaced, never changed.
type session struct {
	key   sessionKey
	root  string
	seq   uint64
	nodes map[string]*node
	usage *usageLine
}

// CheckAddress returns an error unless an address is a loopback address with a port.
func CheckAddress(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().IsLoopback() {
		return fmt.Errorf(`expected an address of the loopback, as in "127.0.0.1:17320" or "[::1]:0", got %q`, address)
	}
	return nil
}

// Start listens and serves until Close.
func Start(o Options) (*Server, error) {
	if err := CheckAddress(o.Listen); err != nil {
		return nil, fmt.Errorf("serve file activity: %w", err)
	}
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("serve file activity: %w; choose another port, or 0 for one that is free", err)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		source: o.Source, agentID: o.AgentID, opener: o.Sessions, folder: o.Folder, token: rand.Text(), log: o.Logger, listener: listener,
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.running.Go(panics.Guard(s.log, "accepting readers of file activity", s.accept))
	return s, nil
}

// Port returns the port of the listener.
func (s *Server) Port() int { return s.listener.Addr().(*net.TCPAddr).Port }

// Token returns the token that a reader needs to change something. It is new at each start.
func (s *Server) Token() string { return s.token }

// Close ends the feed, closes all connections and waits for its goroutines. It may be called repeatedly.
func (s *Server) Close() {
	s.cancel()
	s.mu.Lock()
	s.closed = true
	for _, r := range s.readers {
		r.end()
	}
	if s.stop != nil {
		s.stop()
	}
	s.mu.Unlock()
	_ = s.listener.Close()
	s.running.Wait()
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			if !s.isOpen() {
				return
			}
			s.log.Warn("a reader of file activity could not be accepted", "address", s.listener.Addr().String(), "error", err)
			time.Sleep(acceptPause)
			continue
		}
		if r := s.join(conn); r != nil {
			end := func(error) { r.end() }
			s.running.Go(panics.Guard(s.log, "writing to a reader of file activity", r.write, end))
			s.running.Go(panics.Guard(s.log, "reading from a reader of file activity", r.read, end))
			continue
		}
		_ = conn.SetWriteDeadline(time.Now().Add(evictTimeout))
		_, _ = conn.Write(encode(failed(500, "%d readers that know the token are connected, and there is no room for more", maxReaders)))
		_ = conn.Close()
	}
}

func (s *Server) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed
}

// join adds a reader, if there is room, and starts the watch for the first one.
func (s *Server) join(conn net.Conn) *reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.readers) >= maxReaders && !s.evictOldest() {
		return nil
	}
	r := &reader{
		server: s, conn: conn, behind: true,
		wake: make(chan struct{}, 1), answers: make(chan []byte), begun: make(chan struct{}), gone: make(chan struct{}),
	}
	r.end = sync.OnceFunc(func() {
		close(r.gone)
		_ = conn.Close()
	})
	s.readers = append(s.readers, r)
	if s.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		s.stop, s.received, s.sessions, s.order = stop, false, map[sessionKey]*session{}, nil
		s.running.Go(panics.Guard(s.log, "watching file activity", func() { s.watch(ctx) }, func(error) { r.end() }))
	}
	r.signal()
	return r
}

// evictOldest evicts the oldest reader without the token. It returns false if none exists. mu is held.
func (s *Server) evictOldest() bool {
	for i, r := range s.readers {
		if r.trusted {
			continue
		}
		s.readers = slices.Delete(s.readers, i, i+1)
		if s.evicted >= maxReaders { // connections arrive faster than evicted ones end
			r.end()
			return true
		}
		r.lost = true
		s.evicted++
		_ = r.conn.SetDeadline(time.Now().Add(evictTimeout)) // also for an active write
		r.signal()
		return true
	}
	return false
}

// leave removes a reader. With the last one, the watch ends.
func (s *Server) leave(r *reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.readers, r); i >= 0 {
		s.readers = slices.Delete(s.readers, i, i+1)
	}
	if r.lost {
		s.evicted--
	}
	if len(s.readers) == 0 && s.stop != nil {
		s.stop()
		s.stop, s.sessions, s.order = nil, nil, nil
	}
}

func (s *Server) watch(ctx context.Context) {
	err := s.source.WatchFiles(ctx, &supervisorv1.WatchFilesRequest{}, func(r *supervisorv1.WatchFilesResponse) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if ctx.Err() != nil {
			return ctx.Err() // another watch may be active
		}
		s.apply(r)
		return nil
	})
	if ctx.Err() == nil { // the source has ended
		s.log.Debug("file activity is not sent any more", "error", err)
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, r := range s.readers {
			r.end()
		}
	}
}

// apply sends changes to readers. mu is held.
func (s *Server) apply(r *supervisorv1.WatchFilesResponse) {
	for _, changed := range r.GetSessions() {
		key := sessionKey{changed.GetAgentId(), changed.GetSessionId()}
		known := s.sessions[key]
		isNew := known == nil
		if isNew && changed.GetClosed() {
			continue // it cools down without further lines
		}
		if isNew {
			known = s.session(key)
			if roots := changed.GetRoots(); len(roots) > 0 {
				known.root = roots[0]
			}
		}
		d := &deltaLine{Updates: []*node{}, Removed: []string{}}
		var blocked []any
		for _, file := range changed.GetFiles() {
			n := nodeOf(known.root, file)
			was := known.nodes[n.Path]
			known.nodes[n.Path] = n
			d.Updates = append(d.Updates, n)
			before := uint32(0)
			if was != nil {
				before = was.refusals
			}
			for range min(n.refusals-min(before, n.refusals), maxBlocked) {
				blocked = append(blocked, &blockedLine{head: headOf("blocked", key), Path: n.Path, Action: action(file.GetRefused()), TimestampMS: n.TimestampMS})
			}
		}
		for _, path := range changed.GetRemoved() {
			path = relative(known.root, path)
			delete(known.nodes, path)
			d.Removed = append(d.Removed, path)
		}
		if u := changed.GetUsage(); u != nil {
			known.usage = usageOf(key, u)
		}
		if !s.received { // nothing was sent yet: readers get snapshots
			continue
		}
		switch {
		case isNew:
			s.broadcast(key, known.snapshot())
		case len(d.Updates)+len(d.Removed) > 0:
			known.seq++
			d.head, d.Seq = headOf("delta", key), known.seq
			s.broadcast(key, d)
		}
		if changed.GetUsage() != nil {
			s.broadcast(key, known.usage)
		}
		s.broadcast(key, blocked...)
		if changed.GetClosed() {
			s.close(known)
		}
	}
	if s.received {
		return
	}
	s.received = true
	for _, reader := range s.readers {
		reader.signal()
	}
}

// close removes a session from the feed: its readers get an empty list of files. mu is held.
func (s *Server) close(known *session) {
	if s.received && len(known.nodes) > 0 {
		known.seq++
		s.broadcast(known.key, &deltaLine{head: headOf("delta", known.key), Seq: known.seq, Updates: []*node{}, Removed: slices.Sorted(maps.Keys(known.nodes))})
	}
	delete(s.sessions, known.key)
	s.order = slices.DeleteFunc(s.order, func(k sessionKey) bool { return k == known.key })
	if s.active == known.key {
		s.active = sessionKey{}
	}
}

// session adds a session. mu is held.
func (s *Server) session(key sessionKey) *session {
	if len(s.order) >= maxSessions {
		delete(s.sessions, s.order[0])
		s.order = s.order[1:]
	}
	made := &session{key: key, nodes: map[string]*node{}}
	s.sessions[key] = made
	s.order = append(s.order, key)
	return made
}

// broadcast queues lines about a session for all readers that want them. mu is held.
func (s *Server) broadcast(key sessionKey, lines ...any) {
	for _, line := range lines {
		var data []byte
		for _, r := range s.readers {
			if !r.filter.passes(key) || r.behind {
				continue
			}
			if data == nil {
				data = encode(line)
			}
			r.queue(data)
		}
	}
}

// snapshots returns the lines with the complete state of the sessions that pass a filter, the active one first; there
// is at least one line. mu is held.
func (s *Server) snapshots(f filter) []any {
	var lines []any
	for _, key := range s.inOrder() {
		known := s.sessions[key]
		if !f.passes(key) {
			continue
		}
		lines = append(lines, known.snapshot())
		if known.usage != nil {
			lines = append(lines, known.usage)
		}
	}
	if len(lines) == 0 {
		lines = append(lines, &snapshotLine{head: headOf("snapshot", sessionKey{s.agentID, f.session}), Nodes: map[string]*node{}})
	}
	return lines
}

// inOrder returns the sessions, the active one first. mu is held.
func (s *Server) inOrder() []sessionKey {
	keys := slices.Clone(s.order)
	if i := slices.Index(keys, s.active); i > 0 {
		keys = slices.Insert(slices.Delete(keys, i, i+1), 0, s.active)
	}
	return keys
}

func nodeOf(root string, f *supervisorv1.TouchedFile) *node {
	return &node{
		Path: relative(root, f.GetPath()), Heat: math.Round(f.GetHeat()*1e6) / 1e6, InContext: f.GetInContext(),
		refusals: f.GetRefusals(), LastAction: action(f.GetAction()), TurnAccessed: f.GetTurn(), TimestampMS: f.GetTime().AsTime().UnixMilli(),
	}
}
