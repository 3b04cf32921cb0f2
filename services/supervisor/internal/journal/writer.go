package journal

import (
	"cmp"
	"slices"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"

	"github.com/acphost/acphost/services/supervisor/internal/frame"
)

const (
	// maxOpenRequests bounds the requests whose answers are waited for; the answers to further ones go by the session
	// that they name themselves.
	maxOpenRequests = 1 << 16
	// maxFiles bounds the files of one supervisor: each session that is opened gets one.
	maxFiles = 1 << 16
	// maxOpenFiles bounds those that are open at once.
	maxOpenFiles = 128
	// flushBytes is how much gathers for a file before it is written.
	flushBytes = 1 << 20
)

// writer sorts frames into the files of their sessions. One goroutine's.
type writer struct {
	opts     Options
	instance string
	lines    lineMaker
	scan     jsonrpc.Scanner
	msg      jsonrpc.Message

	files    map[string]*file // by session; "" is what belongs to none
	requests map[requestKey]request
	openings []*opening
	dirty    []*file
	pending  int // bytes of records that are not written, as the queue counts them
	tick     uint64
	full     bool // it was said that nothing can be written
	failed   error
}

type requestKey struct {
	whose byte
	id    string
}

// request is one that is not answered.
type request struct {
	method  string
	session string
	opening *opening
}

// opening is a request for a session that has no id yet. Its line waits for the file that it belongs to.
type opening struct {
	rec     record
	cwd     string
	session string // once it is known, or was guessed
}

func newWriter(o Options, instance string) *writer {
	w := &writer{opts: o, instance: instance, files: map[string]*file{}, requests: map[requestKey]request{}}
	w.lines.content = o.Content
	return w
}

// batch sorts records into files, and writes what has gathered whenever it is much; done is told of bytes that are not
// held any more. settle writes the rest.
func (w *writer) batch(records []record, done func(int)) {
	for i := range records {
		r := &records[i]
		if r.gap != nil {
			w.gap(r)
		} else {
			w.record(r)
		}
		if w.pending += r.queued; w.pending >= flushBytes {
			w.settle(done)
		}
	}
}

// settle writes what has gathered.
func (w *writer) settle(done func(int)) {
	w.flush()
	done(w.pending)
	w.pending = 0
}

// gap tells what was lost where it is missing.
func (w *writer) gap(r *record) {
	f := w.files[string(r.session)]
	if f == nil {
		f = w.file("", "")
	}
	w.append(f, func(b []byte) []byte { return w.lines.lost(b, r.gap, r.at) }, r.gap.frames, r.gap.bytes, r.gap.from, r.gap.to)
}

// record writes a frame to the file of its session.
func (w *writer) record(r *record) {
	if !r.scanned {
		w.look(r)
	}
	var session, answers string
	switch {
	case r.method != nil && r.id != nil:
		var waits bool
		if session, waits = w.request(r); waits {
			return
		}
	case r.method != nil:
		session = string(r.session)
	case r.id != nil:
		session, answers = w.response(r)
	}
	w.put(session, r, answers)
}

// look finds in a frame what the sender did not say of it.
func (w *writer) look(r *record) {
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

// request notes a request for its answer, and returns the session that it belongs to. One that opens a session waits for
// the answer, which names it.
func (w *writer) request(r *record) (session string, waits bool) {
	q := request{method: string(r.method), session: string(r.session)}
	key := requestKey{r.dir.Whose(false), string(r.id)}
	if r.dir == frame.FrontToAgent {
		switch q.method {
		case acp.MethodSessionNew, acp.MethodSessionFork:
			if len(w.requests) >= maxOpenRequests {
				break
			}
			params := acp.Get(r.line, "params")
			cwd, _ := acp.String(acp.Get(params, "cwd"))
			q.opening = &opening{rec: r.clone(), cwd: cwd}
			w.openings = append(w.openings, q.opening)
			w.requests[key] = q
			return "", true
		case acp.MethodSessionLoad, acp.MethodSessionResume:
			cwd, _ := acp.String(acp.Get(r.line, "params", "cwd"))
			w.file(q.session, cwd)
		}
	}
	if len(w.requests) < maxOpenRequests {
		w.requests[key] = q
	}
	return q.session, false
}

// response returns the session that an answer belongs to, and the method that it answers.
func (w *writer) response(r *record) (session, method string) {
	key := requestKey{r.dir.Whose(true), string(r.id)}
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
	id, _ := acp.String(acp.Get(r.line, "result", "sessionId"))
	if o.session != "" { // its line is written
		if id != "" && id != o.session {
			w.file(id, o.cwd)
		}
		return cmp.Or(id, o.session), q.method
	}
	if id != "" {
		w.file(id, o.cwd)
	}
	w.put(id, &o.rec, "")
	return id, q.method
}

// put writes a frame to a session's file. Only sessions that a front has opened have one: an agent cannot make files.
func (w *writer) put(session string, r *record, answers string) {
	f := w.files[session]
	if f == nil && session != "" && len(w.openings) == 1 && w.openings[0].session == "" {
		// An agent may name a session before it has answered the request that opens it.
		o := w.openings[0]
		o.session = session
		f = w.file(session, o.cwd)
		w.append(f, func(b []byte) []byte { return w.lines.frame(b, &o.rec, "") }, 1, uint64(len(o.rec.line)), o.rec.at, o.rec.at)
	}
	if f == nil {
		f = w.file("", "")
	}
	w.append(f, func(b []byte) []byte { return w.lines.frame(b, r, answers) }, 1, uint64(len(r.line)), r.at, r.at)
}

// file is a session's file, made if it is missing.
func (w *writer) file(session, cwd string) *file {
	f := w.files[session]
	if f != nil || len(w.files) >= maxFiles && session != "" {
		return cmp.Or(f, w.files[""])
	}
	f = &file{session: session, cwd: cwd, path: filePath(w.opts, w.instance, session)}
	w.files[session] = f
	return f
}

// append adds a line to what is to be written to a file.
func (w *writer) append(f *file, line func([]byte) []byte, frames, size uint64, from, to int64) {
	if f.over {
		f.lost.merge(gap{frames: frames, bytes: size, from: from, to: to, why: whyOver})
		return
	}
	if len(f.buf) == 0 {
		w.dirty = append(w.dirty, f)
		f.from = from
	}
	f.buf = line(f.buf)
	f.to = to
	f.frames += frames
	f.bytes += size
	if len(f.buf) >= flushBytes {
		w.flushFile(f)
	}
}

// flush writes what has gathered.
func (w *writer) flush() {
	for _, f := range w.dirty {
		w.flushFile(f)
	}
	clear(w.dirty)
	w.dirty = w.dirty[:0]
}

// close writes the last and closes the files. What openings wait for will not come.
func (w *writer) close() {
	for _, o := range w.openings {
		if o.session == "" {
			w.put("", &o.rec, "")
		}
	}
	w.openings = nil
	w.flush()
	for _, f := range w.files {
		w.finish(f)
	}
}
