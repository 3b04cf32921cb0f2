// Package filefeed tells programs on this machine which files agents work with: JSON lines over TCP, in the protocol of
// eisen-core, which the editor extension Eisen reads.
//
// It serves what a Source knows, and computes nothing of it. What it may change is its own: which session it tells first. It must
// not reach agents or sessions, since agents can connect to it too.
package filefeed

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

const (
	// maxReaders bounds the connections: one more is closed at once.
	maxReaders = 16
	// maxLine bounds a line from a reader, in bytes.
	maxLine = 64 << 10
	// maxQueued bounds the bytes that wait for a reader; one for whom there would be more gets a snapshot in their place.
	maxQueued = 4 << 20
	// maxSessions bounds the sessions that are told: of more, those that were told first are forgotten.
	maxSessions = 1000
	// acceptPause is how long after a connection that failed the next one is accepted: there may be no files to open.
	acceptPause = 100 * time.Millisecond
)

// Source knows which files agents work with. Its methods are called concurrently.
type Source interface {
	// WatchFiles sends all files, then what has changed, until ctx ends or send fails.
	WatchFiles(ctx context.Context, req *supervisorv1.WatchFilesRequest, send func(*supervisorv1.WatchFilesResponse) error) error
	// Show fills in what is known of the session that s names.
	Show(agentID string, s *supervisorv1.Session)
}

// Options are what a Server is made of.
type Options struct {
	// Listen is the address: an IP address of this machine's loopback and a port, 0 for one that is free. Required.
	Listen string
	// Source knows the files. Required.
	Source Source
	// AgentID is the agent of lines that are about no session; it may be empty.
	AgentID string
	// Sessions opens and closes sessions for readers that know the token. Nil: an editor does.
	Sessions Sessions
	// Folder is where sessions may be opened besides the roots of those that are open.
	Folder string
	// Logger is told why a feed has ended. Nil: nobody is.
	Logger *slog.Logger
}

// Sessions opens and closes sessions, as SessionService does.
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

	mu       sync.Mutex // guards what follows
	closed   bool
	readers  map[*reader]struct{}
	stop     context.CancelFunc // of the watch under way; nil: nobody reads
	told     bool               // the first response of the watch is there
	sessions map[sessionKey]*session
	order    []sessionKey // as they were told first
	active   sessionKey
}

type sessionKey struct{ agent, session string }

// session is what is told of a session. A node is replaced, and never changed.
type session struct {
	key   sessionKey
	root  string
	seq   uint64
	nodes map[string]*node
	usage *usageLine
}

// CheckAddress returns an error unless an address is one of the loopback's with a port.
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
		readers: map[*reader]struct{}{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.running.Go(s.accept)
	return s, nil
}

// Port is where the server listens.
func (s *Server) Port() int { return s.listener.Addr().(*net.TCPAddr).Port }

// Token is what a reader says to change something. It is made anew at each start.
func (s *Server) Token() string { return s.token }

// Close ends the feed, closes all connections and waits for its goroutines. It may be called again.
func (s *Server) Close() {
	s.cancel()
	s.mu.Lock()
	s.closed = true
	for r := range s.readers {
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
			s.running.Go(r.write)
			s.running.Go(r.read)
			continue
		}
		_ = conn.Close()
	}
}

func (s *Server) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed
}

// join takes in a reader, if there is room, and begins to watch for the first one.
func (s *Server) join(conn net.Conn) *reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.readers) >= maxReaders {
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
	s.readers[r] = struct{}{}
	if s.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		s.stop, s.told, s.sessions, s.order = stop, false, map[sessionKey]*session{}, nil
		s.running.Go(func() { s.watch(ctx) })
	}
	r.stir()
	return r
}

// leave lets a reader go. With the last one, the watch ends.
func (s *Server) leave(r *reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.readers, r); len(s.readers) == 0 && s.stop != nil {
		s.stop()
		s.stop, s.sessions, s.order = nil, nil, nil
	}
}

func (s *Server) watch(ctx context.Context) {
	err := s.source.WatchFiles(ctx, &supervisorv1.WatchFilesRequest{}, func(r *supervisorv1.WatchFilesResponse) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if ctx.Err() != nil {
			return ctx.Err() // another watch may be under way
		}
		s.take(r)
		return nil
	})
	if ctx.Err() == nil { // the source has ended
		s.log.Debug("file activity is not told any more", "error", err)
		s.mu.Lock()
		defer s.mu.Unlock()
		for r := range s.readers {
			r.end()
		}
	}
}

// take tells readers what has changed. mu is held.
func (s *Server) take(r *supervisorv1.WatchFilesResponse) {
	for _, changed := range r.GetSessions() {
		key := sessionKey{changed.GetAgentId(), changed.GetSessionId()}
		known := s.sessions[key]
		isNew := known == nil
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
			if n.LastAction == actionBlocked && (was == nil || was.TimestampMS != n.TimestampMS || was.LastAction != actionBlocked) {
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
		if !s.told { // nobody has been told anything: who reads gets snapshots
			continue
		}
		switch {
		case isNew:
			s.tell(key, known.snapshot())
		case len(d.Updates)+len(d.Removed) > 0:
			known.seq++
			d.head, d.Seq = headOf("delta", key), known.seq
			s.tell(key, d)
		}
		if changed.GetUsage() != nil {
			s.tell(key, known.usage)
		}
		s.tell(key, blocked...)
	}
	if s.told {
		return
	}
	s.told = true
	for reader := range s.readers {
		reader.stir()
	}
}

// session makes a session known. mu is held.
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

// tell queues lines about a session for everybody who wants them. mu is held.
func (s *Server) tell(key sessionKey, lines ...any) {
	for _, line := range lines {
		var data []byte
		for r := range s.readers {
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

// snapshots are the lines that say all of the sessions that pass a filter, the active one first; there is at least one. mu is held.
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

// inOrder are the sessions, the active one first. mu is held.
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
		LastAction: action(f.GetAction()), TurnAccessed: f.GetTurn(), TimestampMS: f.GetTime().AsTime().UnixMilli(),
	}
}
