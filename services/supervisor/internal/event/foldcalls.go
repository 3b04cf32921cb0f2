package event

import (
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/heat"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/ordered"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/proto"
)

// maxPending is how many open requests of an agent are kept of a session, maxFiles how many files are shown with it.
const (
	maxPending = 1000
	maxFiles   = 1000
)

// pending are the requests of an agent that are not answered, oldest first.
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

// callKey is the key of a call, which no question's id equals.
func callKey(id string) string { return "\x00" + id }

// asked adds a question of the agent's. Acphost's own is no request of an agent.
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

// requestIDOf is the id of a question's request as JSON, taken from the question's own: see approvalID.
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
		Id: c.GetId(), Method: c.GetMethod(), At: c.GetTo(), Time: proto.CloneOf(e.GetTime()), // the event's holds the event
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

// called counts a call that succeeded, if it was about a file's content.
func called(files *heat.Files, method, path string) {
	switch method {
	case acp.MethodReadTextFile:
		files.File(path).Reads++
	case acp.MethodWriteTextFile:
		files.File(path).Writes++
	}
}
