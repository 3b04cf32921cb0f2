package headless

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// maxOpening bounds the roots and the MCP servers of a session, in bytes of JSON.
const maxOpening = 1 << 20

// opening is what a session is opened with. It does not change.
type opening struct {
	cwd       string
	dirs      []string
	servers   []byte // a JSON array
	http, sse bool   // there are such servers
	meta      []byte // a JSON object, or nil
}

func newOpening(cwd string, dirs []string, servers []*supervisorv1.McpServer, meta string) (*opening, error) {
	o := &opening{cwd: cwd, dirs: slices.Clone(dirs)}
	var err error
	if o.meta, err = newMeta("open a session", meta); err != nil {
		return nil, err
	}
	size := len(cwd)
	if !filepath.IsAbs(cwd) {
		return nil, fault.New(fault.Invalid, "open a session: cwd %q is not an absolute path", cwd)
	}
	for _, d := range dirs {
		if !filepath.IsAbs(d) {
			return nil, fault.New(fault.Invalid, "open a session: the additional directory %q is not an absolute path", d)
		}
		size += len(d)
	}
	o.servers = append(o.servers, '[')
	for i, s := range servers {
		if i > 0 {
			o.servers = append(o.servers, ',')
		}
		if err := o.add(s); err != nil {
			return nil, err
		}
		if len(o.servers) > maxOpening {
			break
		}
	}
	o.servers = append(o.servers, ']')
	if size += len(o.servers); size > maxOpening {
		return nil, fault.New(fault.Invalid, "open a session: its roots and MCP servers have more than the %d bytes that are taken", maxOpening)
	}
	return o, nil
}

// add appends an MCP server.
func (o *opening) add(s *supervisorv1.McpServer) error {
	if s.GetName() == "" {
		return fault.New(fault.Invalid, "open a session: an MCP server has no name")
	}
	switch t := s.GetTransport().(type) {
	case *supervisorv1.McpServer_Stdio:
		if !filepath.IsAbs(t.Stdio.GetCommand()) {
			return fault.New(fault.Invalid, "open a session: the command %q of MCP server %q is not an absolute path", t.Stdio.GetCommand(), s.GetName())
		}
		b := jsonrpc.AppendString(append(o.servers, `{"name":`...), s.GetName())
		b = jsonrpc.AppendString(append(b, `,"command":`...), t.Stdio.GetCommand())
		b = appendStrings(append(b, `,"args":`...), t.Stdio.GetArgs())
		o.servers = append(appendPairs(append(b, `,"env":`...), t.Stdio.GetEnv()), '}')
		return nil
	case *supervisorv1.McpServer_Http:
		o.http = true
		return o.addRemote("http", s.GetName(), t.Http)
	case *supervisorv1.McpServer_Sse:
		o.sse = true
		return o.addRemote("sse", s.GetName(), t.Sse)
	}
	return fault.New(fault.Invalid, "open a session: MCP server %q has none of stdio, http and sse", s.GetName())
}

func (o *opening) addRemote(kind, name string, r *supervisorv1.McpHttp) error {
	if r.GetUrl() == "" {
		return fault.New(fault.Invalid, "open a session: MCP server %q has no url", name)
	}
	b := append(append(o.servers, `{"type":"`...), kind...)
	b = jsonrpc.AppendString(append(b, `","name":`...), name)
	b = jsonrpc.AppendString(append(b, `,"url":`...), r.GetUrl())
	o.servers = append(appendPairs(append(b, `,"headers":`...), r.GetHeaders()), '}')
	return nil
}

// params are the params of a request that opens a session; an empty id names none.
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

// like tells whether two openings are the same.
func (o *opening) like(p *opening) bool {
	return o.cwd == p.cwd && slices.Equal(o.dirs, p.dirs) && bytes.Equal(o.servers, p.servers) && bytes.Equal(o.meta, p.meta)
}

// accepts refuses what the agent did not advertise.
func (r *run) accepts(o *opening) error {
	can := r.info.GetCapabilities()
	switch {
	case len(o.dirs) > 0 && !can.GetAdditionalDirectories():
		return r.unsupported("additional directories (sessionCapabilities.additionalDirectories)")
	case o.http && !can.GetMcpHttp():
		return r.unsupported("MCP servers over HTTP (mcpCapabilities.http)")
	case o.sse && !can.GetMcpSse():
		return r.unsupported("MCP servers over server-sent events (mcpCapabilities.sse)")
	}
	return nil
}

// sessionParams are params that name a session and have further members, each of which begins with a comma.
func sessionParams(sessionID string, more ...string) []byte {
	b := jsonrpc.AppendString([]byte(`{"sessionId":`), sessionID)
	return append(append(b, strings.Join(more, "")...), '}')
}

// member is a member of an object that is a string, with a comma before it.
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

// appendPairs appends names and values as ACP has them, sorted, so that the same map is the same JSON.
func appendPairs(b []byte, pairs map[string]string) []byte {
	b = append(b, '[')
	for i, name := range slices.Sorted(maps.Keys(pairs)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonrpc.AppendString(append(b, `{"name":`...), name)
		b = jsonrpc.AppendString(append(b, `,"value":`...), pairs[name])
		b = append(b, '}')
	}
	return append(b, ']')
}
