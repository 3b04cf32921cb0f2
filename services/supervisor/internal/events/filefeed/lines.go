package filefeed

import (
	"maps"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// singleAgent is the mode of all sessions.
const singleAgent = "single_agent"

// head has the first members of lines about a session.
type head struct {
	Type        string `json:"type"`
	AgentID     string `json:"agent_id"`
	SessionID   string `json:"session_id"`
	SessionMode string `json:"session_mode,omitempty"`
}

func headOf(kind string, key sessionKey) head {
	h := head{Type: kind, AgentID: key.agent, SessionID: key.session, SessionMode: singleAgent}
	if kind == "blocked" {
		h.SessionMode = ""
	}
	return h
}

// node is a file, or a folder.
type node struct {
	Path         string  `json:"path"`
	Heat         float64 `json:"heat"`
	InContext    bool    `json:"in_context"`
	LastAction   string  `json:"last_action"`
	TurnAccessed uint64  `json:"turn_accessed"`
	TimestampMS  int64   `json:"timestamp_ms"`

	refusals uint32 // total
}

type snapshotLine struct {
	head
	Seq   uint64           `json:"seq"`
	Nodes map[string]*node `json:"nodes"`
}

type deltaLine struct {
	head
	Seq     uint64   `json:"seq"`
	Updates []*node  `json:"updates"`
	Removed []string `json:"removed"`
}

type usageLine struct {
	head
	Used uint64 `json:"used"`
	Size uint64 `json:"size"`
	Cost *cost  `json:"cost,omitempty"`
}

type cost struct {
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency"`
}

type blockedLine struct {
	head
	Path        string `json:"path"`
	Action      string `json:"action"`
	TimestampMS int64  `json:"timestamp_ms"`
}

type resultLine struct {
	Type   string         `json:"type"`
	ID     jsontext.Value `json:"id"`
	Result any            `json:"result"`
}

type errorLine struct {
	Type  string         `json:"type"`
	ID    jsontext.Value `json:"id"`
	Error *rpcError      `json:"error"`
}

// rpcError is the error in an answer. Code is 400, 404 or 500.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// encode encodes a line. Text from agents may be invalid UTF-8, which must not end the supervisor.
func encode(line any) []byte {
	data, err := json.Marshal(line, json.Deterministic(true), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if err != nil {
		panic("filefeed: " + err.Error()) // these types can always be encoded
	}
	return append(data, '\n')
}

// snapshot returns the complete state of a session. Server.mu is held; the line does not need it later.
func (s *session) snapshot() *snapshotLine {
	return &snapshotLine{head: headOf("snapshot", s.key), Seq: s.seq, Nodes: maps.Clone(s.nodes)}
}

func usageOf(key sessionKey, u *supervisorv1.ContextUsage) *usageLine {
	line := &usageLine{head: headOf("usage", key), Used: u.GetUsed(), Size: u.GetSize()}
	if u.Cost != nil {
		line.Cost = &cost{Amount: u.GetCost(), Currency: u.GetCurrency()}
	}
	return line
}

// action returns the protocol's word for an action: "user_provided", "read".
func action(a supervisorv1.FileAction) string {
	return strings.ToLower(strings.TrimPrefix(a.String(), "FILE_ACTION_"))
}

// relative returns a path relative to a root, "." for the root itself; it returns other paths unchanged.
func relative(root, path string) string {
	if path == root && root != "" {
		return "."
	}
	if rest, ok := strings.CutPrefix(path, strings.TrimSuffix(root, "/")+"/"); ok && root != "" && rest != "" {
		return rest
	}
	return path
}
