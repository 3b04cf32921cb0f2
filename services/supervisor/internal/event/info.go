package event

import (
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// ParseInfo reads what an agent says of itself: the result of initialize, of ACP v1 or v2. Whatever is absent or of a
// wrong type counts as not there.
func ParseInfo(result []byte) *supervisorv1.AgentInfo {
	info := &supervisorv1.AgentInfo{Capabilities: &supervisorv1.AgentCapabilities{}, Raw: raw(result)}
	members(result, func(name, v []byte) {
		switch string(name) {
		case "protocolVersion":
			n, _ := unsigned(v, 32)
			info.ProtocolVersion = uint32(n)
		case "agentInfo", "info":
			info.Name, info.Title, info.Version = textOf(get(v, "name")), textOf(get(v, "title")), textOf(get(v, "version"))
		case "agentCapabilities":
			info.Capabilities = capabilities(v)
		case "authMethods":
			info.AuthMethods = authMethods(v)
		}
	})
	return info
}

func capabilities(v []byte) *supervisorv1.AgentCapabilities {
	offers := func(path ...string) bool { return isObject(get(v, path...)) }
	says := func(path ...string) bool { return isTrue(get(v, path...)) }
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

// authMethods reads the ways to log in. One without an id is left out.
func authMethods(v []byte) []*supervisorv1.AuthMethod {
	var out []*supervisorv1.AuthMethod
	elements(v, func(v []byte) {
		m := &supervisorv1.AuthMethod{Type: "agent"}
		members(v, func(name, v []byte) {
			switch string(name) {
			case "id":
				m.Id = textOf(v)
			case "name":
				m.Name = textOf(v)
			case "description":
				m.Description = textOf(v)
			case "type":
				if s, ok := text(v); ok && s != "" {
					m.Type = s
				}
			}
		})
		if m.Id != "" {
			out = append(out, m)
		}
	})
	return out
}
