package admin

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Bounds on what requests say, in bytes unless said otherwise.
const (
	maxName      = 256  // of presets, agents, MCP servers
	maxAgentName = 128  // characters, as in the configuration
	maxID        = 1024 // of what agents name: options, modes, models
	maxSessionID = 4096
	maxPath      = 4096
	maxText      = 8192 // of cursors and ids that agents make up
	maxURI       = 64 << 10
)

// first is INVALID_ARGUMENT for the first thing that is wrong with a request; nil: nothing is.
func first(problems ...error) error {
	for _, problem := range problems {
		if problem != nil {
			return status.Error(codes.InvalidArgument, problem.Error())
		}
	}
	return nil
}

// agentNamed demands an agent.
func agentNamed(req interface{ GetAgentId() string }) error {
	return named("agent_id", req.GetAgentId(), maxName)
}

// sessionNamed demands a session.
func sessionNamed(req interface{ GetSessionId() string }) error {
	return named("session_id", req.GetSessionId(), maxSessionID)
}

// inSession demands a session, whose agent may be left out.
func inSession(req interface {
	GetAgentId() string
	GetSessionId() string
}) error {
	if err := short("agent_id", req.GetAgentId(), maxName); err != nil {
		return err
	}
	return sessionNamed(req)
}

type places interface {
	GetAdditionalDirectories() []string
	GetMcpServers() []*supervisorv1.McpServer
}

// opening demands what a session is opened with.
func opening(req interface {
	places
	GetCwd() string
}) error {
	if err := absolute("cwd", req.GetCwd()); err != nil {
		return err
	}
	return also(req)
}

// also checks further roots and MCP servers.
func also(req places) error {
	for i, dir := range req.GetAdditionalDirectories() {
		if err := absolute(fmt.Sprintf("additional_directories[%d]", i), dir); err != nil {
			return err
		}
	}
	for i, server := range req.GetMcpServers() {
		if err := mcpServer(fmt.Sprintf("mcp_servers[%d]", i), server); err != nil {
			return err
		}
	}
	return nil
}

func mcpServer(at string, s *supervisorv1.McpServer) error {
	if err := named(at+".name", s.GetName(), maxName); err != nil {
		return err
	}
	switch t := s.GetTransport().(type) {
	case *supervisorv1.McpServer_Stdio:
		if err := absolute(at+".stdio.command", t.Stdio.GetCommand()); err != nil {
			return err
		}
		if err := argument(at+".stdio.args", t.Stdio.GetArgs()...); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(t.Stdio.GetEnv())) {
			if err := variable(at+".stdio.env", name, t.Stdio.GetEnv()[name]); err != nil {
				return err
			}
		}
		return nil
	case *supervisorv1.McpServer_Http:
		return mcpHTTP(at+".http", t.Http)
	case *supervisorv1.McpServer_Sse:
		return mcpHTTP(at+".sse", t.Sse)
	}
	return fmt.Errorf("%s: exactly one of stdio, http and sse says how it is reached", at)
}

func mcpHTTP(at string, h *supervisorv1.McpHttp) error {
	if err := named(at+".url", h.GetUrl(), maxURI); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(h.GetHeaders())) {
		if name == "" || strings.ContainsFunc(name+h.GetHeaders()[name], func(c rune) bool { return c == '\r' || c == '\n' || c == 0 }) {
			return fmt.Errorf("%s.headers: %q is not a header", at, name)
		}
	}
	return nil
}

// prompt demands blocks that say something. Whether the agent takes their kinds is not for here.
func prompt(blocks []*supervisorv1.ContentBlock) error {
	if len(blocks) == 0 {
		return errors.New("prompt: say something: at least one block")
	}
	for i, b := range blocks {
		at := fmt.Sprintf("prompt[%d]", i)
		if err := block(b); err != nil {
			return fmt.Errorf("%s%w", at, err)
		}
		if b.GetMeta() != "" {
			if v := jsontext.Value(b.GetMeta()); !v.IsValid() || v.Kind() != '{' {
				return fmt.Errorf("%s.meta: it takes a JSON object", at)
			}
		}
	}
	return nil
}

func block(b *supervisorv1.ContentBlock) error {
	switch c := b.GetContent().(type) {
	case *supervisorv1.ContentBlock_Text:
		return nil
	case *supervisorv1.ContentBlock_Image:
		if len(c.Image.GetData()) == 0 && c.Image.GetUri() == "" {
			return errors.New(".image: neither data nor uri is there")
		}
		return named(".image.mime_type", c.Image.GetMimeType(), maxName)
	case *supervisorv1.ContentBlock_Audio:
		if len(c.Audio.GetData()) == 0 {
			return errors.New(".audio.data: it is empty")
		}
		return named(".audio.mime_type", c.Audio.GetMimeType(), maxName)
	case *supervisorv1.ContentBlock_ResourceLink:
		if err := named(".resource_link.uri", c.ResourceLink.GetUri(), maxURI); err != nil {
			return err
		}
		return named(".resource_link.name", c.ResourceLink.GetName(), maxText)
	case *supervisorv1.ContentBlock_Resource:
		if c.Resource.GetContents() == nil {
			return errors.New(".resource: neither text nor blob is there")
		}
		return named(".resource.uri", c.Resource.GetUri(), maxURI)
	case *supervisorv1.ContentBlock_Other:
		return errors.New(".other: it is for what agents say, not for prompts")
	}
	return errors.New(": it is empty")
}

// named demands text that is short.
func named(field, text string, most int) error {
	if text == "" {
		return fmt.Errorf("%s: it is required", field)
	}
	return short(field, text, most)
}

// short demands that text is not longer than most bytes, and has no NUL.
func short(field, text string, most int) error {
	switch {
	case len(text) > most:
		return fmt.Errorf("%s: it has more than %d bytes", field, most)
	case strings.ContainsRune(text, 0):
		return fmt.Errorf("%s: it has a NUL character", field)
	}
	return nil
}

// word demands text of at most so many characters that can all be shown.
func word(field, text string, most int) error {
	if utf8.RuneCountInString(text) > most || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("%s: it takes at most %d characters, without control characters", field, most)
	}
	return nil
}

// absolute demands an absolute path.
func absolute(field, path string) error {
	if err := short(field, path, maxPath); err != nil {
		return err
	}
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%s: it takes an absolute path, got %q", field, path)
	}
	return nil
}

// optional checks what is there.
func optional(check func(field, text string) error, field, text string) error {
	if text == "" {
		return nil
	}
	return check(field, text)
}

// argument demands what can be an argument of a program.
func argument(field string, args ...string) error {
	for i, arg := range args {
		if strings.ContainsRune(arg, 0) {
			return fmt.Errorf("%s[%d]: it has a NUL character", field, i)
		}
	}
	return nil
}

// environment demands variables that a process can have, each with one source.
func environment(field string, env map[string]*supervisorv1.EnvValue) error {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if err := variable(field, name, env[name].GetValue()); err != nil {
			return err
		}
		switch source := env[name].GetSource().(type) {
		case *supervisorv1.EnvValue_Value:
		case *supervisorv1.EnvValue_File:
			if err := absolute(field+"."+name+".file", source.File); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s.%s: exactly one of value and file says where its value is from", field, name)
		}
	}
	return nil
}

func variable(field, name, value string) error {
	if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
		return fmt.Errorf("%s: %q is not a variable: a name has no \"=\", and there are no NUL characters", field, name)
	}
	return nil
}
