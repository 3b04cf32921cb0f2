package journal

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"

	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

const (
	// maxOpenRequests limits the tracked requests; answers to further ones are recorded for the session that they name
	// themselves.
	maxOpenRequests = 1 << 16
	// maxFiles limits the files of one supervisor: each opened session gets one.
	maxFiles = 1 << 16
	// maxOpenFiles limits the files that are open at the same time.
	maxOpenFiles = 128
	// maxClosed limits the tracked files of closed sessions: an agent may send more about a session that it has closed.
	maxClosed = 1024
	// spareBuffers is the number of buffers that are kept for reuse, of at most spareBytes each.
	spareBuffers = 16
	spareBytes   = 256 << 10
	// directBytes is the size from which a run is written without copying it from the queue.
	directBytes = 32 << 10
	// flushBytes is the number of buffered bytes of a file that triggers a write.
	flushBytes = 1 << 20
)

// writer assigns frames to the files of their sessions. Not safe for concurrent use.
type writer struct {
	opts  Options
	marks *atomic.Int64 // the queue's
	lines lineMaker
	scan  acp.Scanner
	msg   jsonrpc.Message

	files    map[fileKey]*file
	requests map[requestKey]request
	openings []*opening
	closed   []*file // of closed sessions, oldest first
	dirty    []*file
	buffers  [][]byte // for reuse
	pending  int      // bytes of unwritten records, as the queue counts them
	tick     uint64
	full     bool // a failure to write was logged
	failed   error

	unsaidMu sync.Mutex
	unsaid   map[fileKey]gap // gaps that are not recorded in their files yet
}

// fileKey is the id of an agent and a session. The session is empty for frames without one.
type fileKey struct{ agent, session string }

type requestKey struct {
	agent string
	whose byte
	id    string
}

// request is an unanswered request.
type request struct {
	method  string
	session string
	opening *opening
}

// opening is a request for a session that is not open yet: it has no id before the answer, or it is loaded or resumed
// and may not exist. Its line is written when its file is known.
type opening struct {
	rec     record
	cwd     string
	asked   string // the session that is loaded or resumed
	session string // once its line is written: the session of the file
}

func newWriter(o Options, marks *atomic.Int64) *writer {
	w := &writer{opts: o, marks: marks, files: map[fileKey]*file{}, requests: map[requestKey]request{}, unsaid: map[fileKey]gap{}}
	w.lines.content = o.Content
	return w
}

// batch assigns records to files until enough bytes were written, and returns the number of processed records; it calls
// done with the number of released bytes. settle writes the rest.
func (w *writer) batch(records []record, done func(int)) int {
	for i := range records {
		r := &records[i]
		switch {
		case r.gap != nil:
			w.gap(r)
		case r.mark != nil:
		case r.run != nil:
			w.run(r)
		default:
			w.record(r)
		}
		w.pending += r.queued
		if w.pending < flushBytes && r.mark == nil {
			continue
		}
		w.writeGathered(done)
		if r.mark != nil {
			w.reached(r.mark)
		}
		return i + 1
	}
	return len(records)
}

// reached closes the channel of a mark.
func (w *writer) reached(mark chan<- struct{}) {
	w.marks.Add(-1)
	close(mark)
}

// writeGathered writes the buffered lines.
func (w *writer) writeGathered(done func(int)) {
	w.flush()
	done(w.pending)
	w.pending = 0
}

// gap writes the count of lost frames to their file.
func (w *writer) gap(r *record) {
	f := w.files[fileKey{idOf(r.agent), string(r.session)}]
	if f == nil {
		f = w.asked(r.agent, string(r.session))
	}
	if f == nil {
		f = w.file(r.agent, "", "")
	}
	w.append(f, func(b []byte) []byte { return w.lines.lost(b, r.gap, r.at) }, *r.gap)
}

// run writes a run of updates to the file of their session. It does not copy a long run.
func (w *writer) run(r *record) {
	f := w.fileOf(r.agent, string(r.session))
	text := valid(r.run.text)
	if len(text) < directBytes || f.over {
		w.append(f, func(b []byte) []byte { return append(b, text...) }, r.run.holds)
		return
	}
	w.flushFile(f)
	w.write(f, text, r.run.holds)
}

// record writes a frame to the file of its session.
func (w *writer) record(r *record) {
	if !r.scanned {
		w.identify(r)
	}
	var session, answers string
	switch {
	case r.method != nil && r.id != nil:
		if r.dir == frame.ClientToAgent && string(r.method) == acp.MethodInitialize {
			w.beginAnew(r)
		}
		var waits bool
		if session, waits = w.request(r); waits {
			return
		}
	case r.method != nil:
		if session = string(r.session); session == "" {
			session = w.cancelled(r)
		}
	case r.id != nil:
		session, answers = w.response(r)
	}
	w.put(session, r, answers)
	f := w.files[fileKey{idOf(r.agent), session}]
	switch {
	case session == "" || f == nil:
	// The agent has ended, or has lost the session.
	case r.dir == frame.OursToClient && string(r.method) == frame.MethodSessionClosed:
		w.sessionClosed(f)
	case answers != "" && acp.Get(r.line, "result") != nil:
		switch answers {
		case acp.MethodSessionClose, acp.MethodSessionDelete:
			w.sessionClosed(f)
		case acp.MethodSessionNew, acp.MethodSessionFork, acp.MethodSessionLoad, acp.MethodSessionResume:
			w.sessionOpened(f)
		}
	}
}

// sessionClosed closes the file of an ended session, which shows other processes that it has ended. More frames of the
// session may follow: then the file is opened again, as long as not too many other sessions were closed since.
func (w *writer) sessionClosed(f *file) {
	w.flushFile(f)
	f.close()
	if f.closed {
		return
	}
	f.closed = true
	if w.closed = append(w.closed, f); len(w.closed) > maxClosed {
		oldest := w.closed[0]
		w.closed = slices.Delete(w.closed, 0, 1)
		w.flushFile(oldest)
		w.finish(oldest)
		delete(w.files, fileKey{idOf(oldest.agent), oldest.session})
	}
}

// sessionOpened keeps the file of a session open, though the session was closed before.
func (w *writer) sessionOpened(f *file) {
	if f.closed {
		f.closed = false
		w.closed = slices.DeleteFunc(w.closed, func(other *file) bool { return other == f })
	}
}

// beginAnew writes the beginning of an agent's connection to the files of all sessions with open requests, because
// these will not be answered any more.
func (w *writer) beginAnew(r *record) {
	agent := idOf(r.agent)
	written := map[string]bool{"": true}
	for key, q := range w.requests {
		if key.agent != agent {
			continue
		}
		delete(w.requests, key)
		if w.files[fileKey{agent, q.session}] != nil && !written[q.session] {
			written[q.session] = true
			w.put(q.session, r, "")
		}
	}
	w.giveUp(func(o *opening) bool { return idOf(o.rec.agent) == agent })
}

// giveUp drops openings whose answer will not arrive. Unwritten lines are recorded without a session.
func (w *writer) giveUp(which func(o *opening) bool) {
	w.openings = slices.DeleteFunc(w.openings, func(o *opening) bool {
		if !which(o) {
			return false
		}
		if o.session == "" {
			w.put("", &o.rec, "")
		}
		return true
	})
}

// identify finds method, id and session in a frame that the sender has not scanned.
func (w *writer) identify(r *record) {
	jerr := w.scan.Scan(r.line, &w.msg)
	if jerr != nil && jerr.Code == jsonrpc.CodeParse {
		return
	}
	r.scanned = true
	r.method, r.id = w.msg.Method, w.msg.ID
	if r.session == nil {
		r.session = w.msg.SessionID
	}
}

// request tracks a request until its answer, and returns its session. A request that opens a session waits for the
// answer, which names the session or is an error.
func (w *writer) request(r *record) (session string, waits bool) {
	q := request{method: string(r.method), session: string(r.session)}
	key := requestKey{idOf(r.agent), r.dir.Requester(false), string(r.id)}
	// Its id is used again: the earlier answer can no longer be recognized.
	if before := w.requests[key].opening; before != nil {
		delete(w.requests, key)
		w.giveUp(func(o *opening) bool { return o == before })
	}
	room := len(w.requests) < maxOpenRequests
	if r.dir == frame.ClientToAgent {
		switch q.method {
		case acp.MethodSessionNew, acp.MethodSessionFork:
			if room {
				cwd, _ := acp.String(acp.CwdOf(acp.Get(r.line, "params")))
				q.opening = &opening{cwd: cwd}
			}
		case acp.MethodSessionLoad, acp.MethodSessionResume:
			cwd, _ := acp.String(acp.CwdOf(acp.Get(r.line, "params")))
			if q.session == "" || w.files[fileKey{idOf(r.agent), q.session}] != nil || !room {
				w.file(r.agent, q.session, cwd)
			} else {
				q.opening = &opening{cwd: cwd, asked: q.session}
			}
		}
	}
	if room {
		w.requests[key] = q
	}
	if q.opening == nil {
		return q.session, false
	}
	q.opening.rec = r.clone()
	w.openings = append(w.openings, q.opening)
	return "", true
}

// response returns the session of an answer, and the method that it answers.
func (w *writer) response(r *record) (session, method string) {
	key := requestKey{idOf(r.agent), r.dir.Requester(true), string(r.id)}
	q, ok := w.requests[key]
	if !ok {
		return string(r.session), ""
	}
	delete(w.requests, key)
	if q.opening == nil {
		return q.session, q.method
	}
	o := q.opening
	w.openings = slices.DeleteFunc(w.openings, func(p *opening) bool { return p == o })
	if o.asked != "" {
		return w.loaded(r, o), q.method
	}
	id, _ := acp.Exact(acp.Get(r.line, "result", "sessionId"))
	if o.session != "" { // its line is written
		if id != "" && id != o.session {
			w.file(r.agent, id, o.cwd)
		}
		return cmp.Or(id, o.session), q.method
	}
	if id != "" {
		w.file(r.agent, id, o.cwd)
	}
	w.put(id, &o.rec, "")
	return id, q.method
}

// loaded returns the session of the answer to a load or a resume. If the agent rejected the session, and sent nothing
// about it, it does not exist: its frames are recorded without a session.
func (w *writer) loaded(r *record, o *opening) (session string) {
	if o.session != "" { // its line is written
		return o.session
	}
	if acp.Get(r.line, "result") != nil || w.files[fileKey{idOf(r.agent), o.asked}] != nil {
		w.opened(o, o.asked)
		return o.asked
	}
	w.put("", &o.rec, "")
	return ""
}

// opened creates the file of an opening's session, and writes the opening's line to it.
func (w *writer) opened(o *opening, session string) *file {
	o.session = session
	f := w.file(o.rec.agent, session, o.cwd)
	w.append(f, func(b []byte) []byte { return w.lines.frame(b, &o.rec, "") }, o.rec.size())
	return f
}

// asked returns the file of a session that is being loaded or resumed, created because a frame names it; nil if there
// is no such request.
func (w *writer) asked(agent *frame.Agent, session string) (f *file) {
	if session == "" {
		return nil
	}
	for _, o := range w.openings { // earlier requests for the session belong to the file, too
		if o.asked == session && o.session == "" && idOf(o.rec.agent) == idOf(agent) {
			f = w.opened(o, session)
		}
	}
	return f
}

// put writes a frame to a session's file. Only sessions that a client has opened have a file: an agent cannot create
// files.
func (w *writer) put(session string, r *record, answers string) {
	f := w.fileOf(r.agent, session)
	w.append(f, func(b []byte) []byte { return w.lines.frame(b, r, answers) }, r.size())
}

// fileOf returns the file of a session's frame.
func (w *writer) fileOf(agent *frame.Agent, session string) *file {
	if f := w.files[fileKey{idOf(agent), session}]; f != nil {
		return f
	}
	if session != "" {
		// An agent may name a session before it answers the request that opens it, and it replays a session that it
		// loads.
		if f := w.asked(agent, session); f != nil {
			return f
		}
		if o := w.onlyOpening(agent); o != nil {
			return w.opened(o, session)
		}
	}
	return w.file(agent, "", "")
}

// onlyOpening returns the only request of an agent's client for an unknown session; nil if none exists, or several.
func (w *writer) onlyOpening(agent *frame.Agent) (only *opening) {
	for _, o := range w.openings {
		if idOf(o.rec.agent) != idOf(agent) || o.session != "" || o.asked != "" {
			continue
		}
		if only != nil {
			return nil
		}
		only = o
	}
	return only
}

// cancelled returns the session of the request that a notification cancels.
func (w *writer) cancelled(r *record) string {
	if string(r.method) != acp.MethodCancelRequest {
		return ""
	}
	id := string(acp.ParseCancelRequest(acp.Get(r.line, "params")))
	// A notification of acphost to a client may be about a question of the agent.
	for _, whose := range [...]byte{r.dir.Requester(false), frame.OfAgent} {
		if q, ok := w.requests[requestKey{idOf(r.agent), whose, id}]; ok {
			if q.opening != nil {
				return q.opening.session // cancelling does not create a session
			}
			return q.session
		}
	}
	return ""
}

// file returns a session's file, and creates it if it is missing.
func (w *writer) file(agent *frame.Agent, session, cwd string) *file {
	key := fileKey{idOf(agent), session}
	f := w.files[key]
	if f == nil && len(w.files) >= maxFiles && session != "" {
		key.session, session = "", ""
		f = w.files[key]
	}
	if f == nil {
		f = &file{agent: agent, session: session, cwd: cwd, path: filePath(w.opts, agent, session)}
		w.files[key] = f
	}
	return f
}

func idOf(agent *frame.Agent) string {
	if agent == nil {
		return ""
	}
	return agent.ID
}

// append adds a line to the buffer of a file.
func (w *writer) append(f *file, line func([]byte) []byte, holds gap) {
	if f.over {
		w.lose(f, holds, whyOver)
		return
	}
	holds.why = ""
	if len(f.buf) == 0 {
		w.dirty = append(w.dirty, f)
	}
	if n := len(w.buffers); f.buf == nil && n > 0 {
		f.buf, w.buffers = w.buffers[n-1], w.buffers[:n-1]
	}
	f.buf = line(f.buf)
	f.holds.merge(holds)
	if len(f.buf) >= flushBytes {
		w.flushFile(f)
	}
}

// flush writes the buffered lines.
func (w *writer) flush() {
	for _, f := range w.dirty {
		w.flushFile(f)
	}
	clear(w.dirty)
	w.dirty = w.dirty[:0]
}

// rest releases memory: nothing was written for a while.
func (w *writer) rest() { w.buffers = nil }

// close writes all buffers and closes the files. Pending openings will not be answered.
func (w *writer) close() {
	w.giveUp(func(*opening) bool { return true })
	w.flush()
	for _, f := range w.files {
		w.finish(f)
	}
}
