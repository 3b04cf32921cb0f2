package programs

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

// maxOpening limits the roots and the MCP servers of a session, in bytes of JSON.
const maxOpening = 1 << 20

// opening holds the parameters with which a session is opened. It is immutable. admin has validated the request.
type opening struct {
	cwd       string
	dirs      []string
	servers   []byte // a JSON array
	http, sse bool   // some servers are of this kind
	meta      []byte // a JSON object, or nil
}

// openRequest is a request that opens a session.
type openRequest interface {
	GetAdditionalDirectories() []string
	GetMcpServers() []*supervisorv1.McpServer
	GetMeta() string
}

func newOpening(cwd string, r openRequest) (*opening, error) {
	o := &opening{cwd: cwd, dirs: slices.Clone(r.GetAdditionalDirectories())}
	var err error
	if o.meta, err = newMeta("open a session", r.GetMeta()); err != nil {
		return nil, err
	}
	size := len(cwd)
	for _, d := range o.dirs {
		size += len(d)
	}
	all := make([]mcpServer, 0, len(r.GetMcpServers()))
	for _, s := range r.GetMcpServers() {
		switch t := s.GetTransport().(type) {
		case *supervisorv1.McpServer_Stdio:
			args := append([]string{}, t.Stdio.GetArgs()...)
			all = append(all, mcpServer{Name: s.GetName(), Command: t.Stdio.GetCommand(), Args: args, Env: pairs(t.Stdio.GetEnv())})
		case *supervisorv1.McpServer_Http:
			o.http = true
			all = append(all, mcpServer{Type: "http", Name: s.GetName(), URL: t.Http.GetUrl(), Headers: pairs(t.Http.GetHeaders())})
		case *supervisorv1.McpServer_Sse:
			o.sse = true
			all = append(all, mcpServer{Type: "sse", Name: s.GetName(), URL: t.Sse.GetUrl(), Headers: pairs(t.Sse.GetHeaders())})
		}
	}
	if o.servers, err = json.Marshal(all); err != nil { // cannot fail: strings only
		return nil, err
	}
	if size += len(o.servers); size > maxOpening {
		return nil, fault.New(fault.Invalid, "open a session: its roots and MCP servers have more than the %d bytes that are taken", maxOpening)
	}
	return o, nil
}

// mcpServer is an MCP server in ACP's form. Fields of other kinds of servers are nil or empty.
type mcpServer struct {
	Type    string   `json:"type,omitempty"`
	Name    string   `json:"name"`
	Command string   `json:"command,omitempty"`
	Args    []string `json:"args,omitzero"`
	Env     []pair   `json:"env,omitzero"`
	URL     string   `json:"url,omitempty"`
	Headers []pair   `json:"headers,omitzero"`
}

type pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// pairs returns names and values in ACP's form, sorted, so that equal maps have equal JSON.
func pairs(m map[string]string) []pair {
	all := make([]pair, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		all = append(all, pair{name, m[name]})
	}
	return all
}

// params returns the params of a request that opens a session; without sessionId if that is empty.
func (o *opening) params(sessionID string) []byte {
	b := []byte{'{'}
	if sessionID != "" {
		b = append(jsonrpc.AppendString(append(b, `"sessionId":`...), sessionID), ',')
	}
	b = jsonrpc.AppendString(append(b, `"cwd":`...), o.cwd)
	if len(o.dirs) > 0 {
		b = appendStrings(append(b, `,"additionalDirectories":`...), o.dirs)
	}
	b = append(append(b, `,"mcpServers":`...), o.servers...)
	return append(appendMeta(b, o.meta), '}')
}

// like reports whether two openings are equal.
func (o *opening) like(p *opening) bool {
	return o.cwd == p.cwd && slices.Equal(o.dirs, p.dirs) && bytes.Equal(o.servers, p.servers) && bytes.Equal(o.meta, p.meta)
}

// accepts returns an error if opening a session by a method needs a capability that the agent did not advertise.
func (r *run) accepts(method string, o *opening) error {
	can := r.info.GetCapabilities()
	switch {
	case method == acp.MethodSessionLoad && !can.GetLoadSession():
		return r.unsupported("to load sessions (loadSession)")
	case method == acp.MethodSessionResume && !can.GetResumeSession():
		return r.unsupported("to resume sessions (sessionCapabilities.resume)")
	case method == acp.MethodSessionFork && !can.GetForkSession():
		return r.unsupported("to fork sessions (sessionCapabilities.fork)")
	case len(o.dirs) > 0 && !can.GetAdditionalDirectories():
		return r.unsupported("additional directories (sessionCapabilities.additionalDirectories)")
	case o.http && !can.GetMcpHttp():
		return r.unsupported("MCP servers over HTTP (mcpCapabilities.http)")
	case o.sse && !can.GetMcpSse():
		return r.unsupported("MCP servers over server-sent events (mcpCapabilities.sse)")
	}
	return nil
}

// sessionParams returns params with a sessionId and further members, each with a leading comma.
func sessionParams(sessionID string, more ...string) []byte {
	b := jsonrpc.AppendString([]byte(`{"sessionId":`), sessionID)
	return append(append(b, strings.Join(more, "")...), '}')
}

// member returns a string member of an object, with a leading comma.
func member(name, value string) string {
	return string(jsonrpc.AppendString([]byte(`,"`+name+`":`), value))
}

func appendStrings(b []byte, all []string) []byte {
	b = append(b, '[')
	for i, s := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonrpc.AppendString(b, s)
	}
	return append(b, ']')
}
