package event

import (
	"cmp"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// ParseInfo decodes an agent's description of itself: the result of initialize, of ACP v1 or v2. A member that is
// absent or of a wrong type stays unset.
func ParseInfo(result []byte) *supervisorv1.AgentInfo {
	info := &supervisorv1.AgentInfo{Capabilities: &supervisorv1.AgentCapabilities{}, Raw: raw(result)}
	about := func(v []byte) {
		info.Name, info.Title, info.Version = textOf(acp.Get(v, "name")), textOf(acp.Get(v, "title")), textOf(acp.Get(v, "version"))
	}
	read(result,
		"protocolVersion", func(v []byte) {
			n, _ := unsigned(v, 32)
			info.ProtocolVersion = uint32(n)
		},
		"agentInfo", about, "info", about,
		"agentCapabilities", func(v []byte) { info.Capabilities = capabilities(v) },
		"authMethods", func(v []byte) { info.AuthMethods = listOf(v, authMethod) })
	if info.GetProtocolVersion() >= 2 {
		info.Capabilities = capabilities2(acp.Get(result, "capabilities"))
		info.Capabilities.Logout = len(info.GetAuthMethods()) > 0
	}
	return info
}

func capabilities(v []byte) *supervisorv1.AgentCapabilities {
	offers := func(path ...string) bool { return isObject(acp.Get(v, path...)) }
	has := func(path ...string) bool { return isTrue(acp.Get(v, path...)) }
	return &supervisorv1.AgentCapabilities{
		LoadSession:           has("loadSession"),
		ResumeSession:         offers("sessionCapabilities", "resume"),
		ForkSession:           offers("sessionCapabilities", "fork"),
		ListSessions:          offers("sessionCapabilities", "list"),
		CloseSession:          offers("sessionCapabilities", "close"),
		DeleteSession:         offers("sessionCapabilities", "delete"),
		AdditionalDirectories: offers("sessionCapabilities", "additionalDirectories"),
		PromptImage:           has("promptCapabilities", "image"),
		PromptAudio:           has("promptCapabilities", "audio"),
		PromptEmbeddedContext: has("promptCapabilities", "embeddedContext"),
		McpHttp:               has("mcpCapabilities", "http"),
		McpSse:                has("mcpCapabilities", "sse"),
		Logout:                offers("auth", "logout"),
	}
}

// capabilities2 decodes capabilities of ACP v2, where an agent with sessions can list, resume, replay and close them.
func capabilities2(v []byte) *supervisorv1.AgentCapabilities {
	offers := func(path ...string) bool { return isObject(acp.Get(v, path...)) }
	sessions := offers("session")
	return &supervisorv1.AgentCapabilities{
		LoadSession: sessions, ResumeSession: sessions, ListSessions: sessions, CloseSession: sessions,
		ForkSession:           offers("session", "fork"),
		DeleteSession:         offers("session", "delete"),
		AdditionalDirectories: offers("session", "additionalDirectories"),
		PromptImage:           offers("session", "prompt", "image"),
		PromptAudio:           offers("session", "prompt", "audio"),
		PromptEmbeddedContext: offers("session", "prompt", "embeddedContext"),
		McpHttp:               offers("session", "mcp", "http"),
	}
}

// authMethod decodes a login method; nil: it has no id.
func authMethod(v []byte) *supervisorv1.AuthMethod {
	m := &supervisorv1.AuthMethod{Type: "agent"}
	read(v, "id", &m.Id, "methodId", &m.Id, "name", &m.Name, "description", &m.Description, "type", func(v []byte) { m.Type = cmp.Or(textOf(v), m.Type) })
	return where(m.Id != "", m)
}
