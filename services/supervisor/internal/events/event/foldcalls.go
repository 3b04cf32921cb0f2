package event

import (
	"strings"

	"github.com/acphost/acphost/internal/ordered"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/events/heat"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/proto"
)

// maxPending is the limit of an agent's open requests in a session, maxFiles that of shown files.
const (
	maxPending = 1000
	maxFiles   = 1000
)

// pending are the unanswered requests of an agent, oldest first.
type pending struct {
	open ordered.Map[string, *pendingRequest]
	size int
}

type pendingRequest struct {
	key   string
	path  string
	shown *supervisorv1.PendingRequest
}

func (r *pendingRequest) size() int {
	return 256 + 2*len(r.key) + len(r.path) + len(r.shown.GetMethod())
}

// callKey returns the key of a call, which differs from all ids of questions.
func callKey(id string) string { return "\x00" + id }

// asked adds a question of the agent. It ignores acphost's own questions, which are not requests of an agent.
func (p *pending) asked(q *supervisorv1.Approval) {
	if q.GetPermission().GetFromAcphost() {
		return
	}
	method := acp.MethodElicitationCreate
	if q.GetPermission() != nil {
		method = acp.MethodRequestPermission
	}
	p.add(&pendingRequest{key: q.GetId(), shown: &supervisorv1.PendingRequest{
		Id: requestIDOf(q), Method: method, At: toClient, Time: q.GetTime(),
	}})
}

// requestIDOf returns the id of a question's request as JSON, from the question's id: see approvalID.
func requestIDOf(q *supervisorv1.Approval) string {
	id := strings.TrimPrefix(q.GetId(), q.GetAgentId()+"/")
	if v := jsontext.Value(id); v.IsValid() && strings.IndexByte(`"0n`, byte(v.Kind())) >= 0 {
		return id
	}
	return string(jsonrpc.AppendString(nil, id))
}

// called adds a call.
func (p *pending) called(e *supervisorv1.Event, c *supervisorv1.CallStarted) {
	r := &pendingRequest{key: callKey(c.GetId()), shown: &supervisorv1.PendingRequest{
		// A clone, because the time is part of the event.
		Id: c.GetId(), Method: c.GetMethod(), At: c.GetTo(), Time: proto.CloneOf(e.GetTime()),
	}}
	if len(c.GetPath()) <= maxKept {
		r.path = c.GetPath()
	}
	p.add(r)
}

func (p *pending) add(r *pendingRequest) {
	p.remove(r.key)
	if p.open.Len() >= maxPending {
		p.remove(p.open.Oldest())
	}
	p.open.Set(r.key, r)
	p.size += r.size()
}

// remove removes a request and returns it; nil if it is not open.
func (p *pending) remove(key string) *pendingRequest {
	r := p.open.Delete(key)
	if r != nil {
		p.size -= r.size()
	}
	return r
}

func (p *pending) clear() { *p = pending{} }

func (p *pending) list() []*supervisorv1.PendingRequest {
	var out []*supervisorv1.PendingRequest
	for _, r := range p.open.All() {
		out = append(out, r.shown)
	}
	return out
}

// called counts a successful call that reads or writes a file.
func called(files *heat.Files, method, path string) {
	switch method {
	case acp.MethodReadTextFile:
		files.File(path).Reads++
	case acp.MethodWriteTextFile:
		files.File(path).Writes++
	}
}
