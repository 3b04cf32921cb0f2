package event

import (
	"cmp"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// ParseInfo reads what an agent says of itself: the result of initialize, of ACP v1 or v2. Whatever is absent or of a
// wrong type counts as not there.
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
	return info
}

func capabilities(v []byte) *supervisorv1.AgentCapabilities {
	offers := func(path ...string) bool { return isObject(acp.Get(v, path...)) }
	says := func(path ...string) bool { return isTrue(acp.Get(v, path...)) }
	return &supervisorv1.AgentCapabilities{
		LoadSession:           says("loadSession"),
		ResumeSession:         offers("sessionCapabilities", "resume"),
		ForkSession:           offers("sessionCapabilities", "fork"),
		ListSessions:          offers("sessionCapabilities", "list"),
		CloseSession:          offers("sessionCapabilities", "close"),
		DeleteSession:         offers("sessionCapabilities", "delete"),
		AdditionalDirectories: offers("sessionCapabilities", "additionalDirectories"),
		PromptImage:           says("promptCapabilities", "image"),
		PromptAudio:           says("promptCapabilities", "audio"),
		PromptEmbeddedContext: says("promptCapabilities", "embeddedContext"),
		McpHttp:               says("mcpCapabilities", "http"),
		McpSse:                says("mcpCapabilities", "sse"),
		Logout:                offers("auth", "logout"),
	}
}

// authMethod reads a way to log in; nil: it has no id.
func authMethod(v []byte) *supervisorv1.AuthMethod {
	m := &supervisorv1.AuthMethod{Type: "agent"}
	read(v, "id", &m.Id, "name", &m.Name, "description", &m.Description, "type", func(v []byte) { m.Type = cmp.Or(textOf(v), m.Type) })
	return where(m.Id != "", m)
}
