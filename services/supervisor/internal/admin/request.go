package admin

import (
	"bytes"
	"cmp"
	"encoding/hex"
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
	"github.com/acphost/acphost/services/supervisor/internal/events/usage"
)

// Limits of request fields, in bytes unless a comment names another unit.
const (
	maxName      = 256  // of presets, agents, MCP servers
	maxAgentName = 128  // characters, as in the configuration
	maxID        = 1024 // of options, modes, models
	maxSessionID = 4096
	maxPath      = 4096
	maxText      = 8192 // of cursors and ids that agents choose
	maxURI       = 64 << 10
	maxDays      = 366 // in one usage request
)

// checkRequest returns INVALID_ARGUMENT with the first problem of a request; nil: it is valid. It checks each request
// to acphost's services before its handler gets it.
func checkRequest(req any) error {
	if err := problem(req); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return nil
}

func problem(req any) error {
	switch r := req.(type) {
	case *supervisorv1.StartAgentRequest:
		return startAgent(r)
	case *supervisorv1.StopAgentRequest, *supervisorv1.RestartAgentRequest, *supervisorv1.GetAgentRequest, *supervisorv1.LogoutRequest:
		return agentNamed(r)
	case *supervisorv1.AuthenticateRequest:
		return cmp.Or(agentNamed(r), short("method_id", r.GetMethodId(), maxID))
	case *supervisorv1.NewSessionRequest:
		return cmp.Or(agentNamed(r), opening(r))
	case *supervisorv1.LoadSessionRequest, *supervisorv1.ResumeSessionRequest:
		return cmp.Or(agentNamed(r), sessionNamed(r), opening(r))
	case *supervisorv1.ForkSessionRequest:
		return cmp.Or(inSession(r), optional(absolute, "cwd", r.GetCwd()), also(r))
	case *supervisorv1.ListStoredSessionsRequest:
		return cmp.Or(agentNamed(r), optional(absolute, "cwd", r.GetCwd()), short("cursor", r.GetCursor(), maxText))
	case *supervisorv1.CloseSessionRequest, *supervisorv1.CancelPromptRequest, *supervisorv1.GetSessionRequest:
		return inSession(r)
	case *supervisorv1.DeleteSessionRequest:
		return cmp.Or(agentNamed(r), sessionNamed(r))
	case *supervisorv1.PromptRequest:
		return cmp.Or(inSession(r), prompt(r.GetPrompt()))
	case *supervisorv1.SetModeRequest:
		return cmp.Or(inSession(r), named("mode_id", r.GetModeId(), maxID))
	case *supervisorv1.SetModelRequest:
		return cmp.Or(inSession(r), named("model_id", r.GetModelId(), maxID))
	case *supervisorv1.SetConfigOptionRequest:
		return cmp.Or(inSession(r), named("config_id", r.GetConfigId(), maxID), setTo(r))
	case *supervisorv1.WatchSessionRequest:
		return cmp.Or(inSession(r), short("cursor", r.GetCursor(), maxID))
	case *supervisorv1.WatchEventsRequest:
		return short("cursor", r.GetCursor(), maxID)
	case *supervisorv1.WatchOutputRequest:
		return named("terminal_id", r.GetTerminalId(), maxID)
	case *supervisorv1.GetUsageRequest:
		return days(r)
	case *supervisorv1.ListApprovalsRequest:
		return short("session_id", r.GetSessionId(), maxSessionID)
	case *supervisorv1.WatchApprovalsRequest:
		return short("session_id", r.GetSessionId(), maxSessionID)
	case *supervisorv1.AnswerApprovalRequest:
		return cmp.Or(named("id", r.GetId(), maxText), answer(r))
	case *supervisorv1.OpenAgentRequest:
		return frames(r)
	case *supervisorv1.RestartHandlerRequest:
		return handlerNamed(r)
	case *supervisorv1.SwapHandlerRequest:
		return cmp.Or(handlerNamed(r), swap(r))
	case *supervisorv1.ReplayPolicyRequest:
		return replayed(r)
	case *supervisorv1.RevokeGrantsRequest:
		if len(r.GetIds()) == 0 {
			return errors.New("ids: name at least one grant")
		}
	}
	return nil
}

// days validates the days of a usage request.
func days(r *supervisorv1.GetUsageRequest) error {
	all := r.GetDays()
	if len(all) < 2 || len(all) > maxDays+1 {
		return fmt.Errorf("days: say when each day begins, and when the last one ends: 2 to %d times, got %d", maxDays+1, len(all))
	}
	for i, day := range all {
		switch {
		case day.CheckValid() != nil || day.AsTime().Truncate(usage.Quarter) != day.AsTime():
			return fmt.Errorf("days[%d]: a day begins at a full quarter of an hour", i)
		case i > 0 && !day.AsTime().After(all[i-1].AsTime()):
			return fmt.Errorf("days[%d]: it is not after the one before", i)
		}
	}
	return nil
}

func frames(r *supervisorv1.OpenAgentRequest) error {
	if r.GetPart() == nil {
		return errors.New("part: a message opens an agent or holds frames")
	}
	if r.GetOpen() == nil && len(r.GetFrames().GetFrames()) == 0 {
		return errors.New("frames: there are none")
	}
	for i, f := range r.GetFrames().GetFrames() {
		if len(f) == 0 || bytes.IndexByte(f, '\n') >= 0 {
			return fmt.Errorf("frames[%d]: a frame is one line, without its line feed and not empty", i)
		}
	}
	return short("open.agent", r.GetOpen().GetAgent(), maxName)
}

func startAgent(r *supervisorv1.StartAgentRequest) error {
	command := r.GetCommand()
	switch {
	case (r.GetPreset() == "") == (len(command) == 0):
		return errors.New("preset, command: exactly one of them must be set")
	case len(command) > 0 && command[0] == "":
		return errors.New("command: its first element, the program, is empty")
	case len(command) > 0 && len(r.GetArgs()) > 0:
		return errors.New("args: they are for a preset; a command has its own")
	}
	return cmp.Or(
		short("preset", r.GetPreset(), maxName),
		argument("command", command...),
		argument("args", r.GetArgs()...),
		environment("env", r.GetEnv()),
		optional(absolute, "cwd", r.GetCwd()),
		word("name", r.GetName(), maxAgentName),
	)
}

func setTo(r *supervisorv1.SetConfigOptionRequest) error {
	switch to := r.GetTo().(type) {
	case *supervisorv1.SetConfigOptionRequest_Value:
		return named("value", to.Value, maxID)
	case *supervisorv1.SetConfigOptionRequest_Enabled:
		return nil
	}
	return errors.New("value, enabled: exactly one of them must be set")
}

func answer(r *supervisorv1.AnswerApprovalRequest) error {
	switch a := r.GetAnswer().(type) {
	case *supervisorv1.AnswerApprovalRequest_OptionId:
		return named("option_id", a.OptionId, maxID)
	case *supervisorv1.AnswerApprovalRequest_Accept:
		if v := jsontext.Value(a.Accept); !v.IsValid() || v.Kind() != '{' {
			return errors.New("accept: it takes a JSON object, as {} or {\"name\": \"value\"}")
		}
		return nil
	case *supervisorv1.AnswerApprovalRequest_Decline:
		return onlyTrue("decline", a.Decline)
	case *supervisorv1.AnswerApprovalRequest_Cancel:
		return onlyTrue("cancel", a.Cancel)
	}
	return errors.New("option_id, accept, decline, cancel: exactly one of them is the answer")
}

func onlyTrue(field string, value bool) error {
	if !value {
		return fmt.Errorf("%s: it is true or not there", field)
	}
	return nil
}

func handlerNamed(r interface{ GetName() string }) error {
	if r.GetName() == "" {
		return errors.New("name: which handler?")
	}
	return nil
}

func swap(r *supervisorv1.SwapHandlerRequest) error {
	switch digest, err := hex.DecodeString(r.GetSha256()); {
	case (len(r.GetCommand()) == 0) == (r.GetAddress() == ""):
		return errors.New("command, address: exactly one of them must be set")
	case len(r.GetCommand()) > 0 && r.GetCommand()[0] == "":
		return errors.New("command: its first element, the program, is empty")
	case err != nil || len(digest) != 0 && len(digest) != 32:
		return errors.New("sha256: it takes 64 hexadecimal characters")
	case r.GetAddress() != "" && (r.GetSha256() != "" || r.GetNoTls()):
		return errors.New("sha256, no_tls: they are for a command; for an address the configuration determines the connection")
	case r.GetSecretFile() != "" && (!strings.HasPrefix(r.GetAddress(), "unix:") || !filepath.IsAbs(r.GetSecretFile())):
		return errors.New("secret_file: it is an absolute path, and for the address of a unix socket")
	case r.Uid != nil && !strings.HasPrefix(r.GetAddress(), "unix:"):
		return errors.New("uid: it is for the address of a unix socket")
	}
	return nil
}

// agentNamed requires an agent; req has a field agent_id.
func agentNamed(req any) error {
	return named("agent_id", req.(interface{ GetAgentId() string }).GetAgentId(), maxName)
}

// sessionNamed requires a session; req has a field session_id.
func sessionNamed(req any) error {
	return named("session_id", req.(interface{ GetSessionId() string }).GetSessionId(), maxSessionID)
}

// inSession requires a session; its agent may be empty. req has the fields agent_id and session_id.
func inSession(req any) error {
	return cmp.Or(short("agent_id", req.(interface{ GetAgentId() string }).GetAgentId(), maxName), sessionNamed(req))
}

type places interface {
	GetAdditionalDirectories() []string
	GetMcpServers() []*supervisorv1.McpServer
}

// opening validates the fields with which a session is opened.
func opening(req any) error {
	return cmp.Or(absolute("cwd", req.(interface{ GetCwd() string }).GetCwd()), also(req.(places)))
}

// also validates additional roots and MCP servers.
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
		if err := cmp.Or(absolute(at+".stdio.command", t.Stdio.GetCommand()), argument(at+".stdio.args", t.Stdio.GetArgs()...)); err != nil {
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
	return fmt.Errorf("%s: exactly one of stdio, http and sse must be set", at)
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

// prompt requires blocks with content. It does not check whether the agent supports their kinds.
func prompt(blocks []*supervisorv1.ContentBlock) error {
	if len(blocks) == 0 {
		return errors.New("prompt: at least one block is required")
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
		return cmp.Or(named(".resource_link.uri", c.ResourceLink.GetUri(), maxURI), named(".resource_link.name", c.ResourceLink.GetName(), maxText))
	case *supervisorv1.ContentBlock_Resource:
		if c.Resource.GetContents() == nil {
			return errors.New(".resource: neither text nor blob is there")
		}
		return named(".resource.uri", c.Resource.GetUri(), maxURI)
	case *supervisorv1.ContentBlock_Other:
		return errors.New(".other: it is for messages of agents, not for prompts")
	}
	return errors.New(": it is empty")
}

// named requires text of at most maxBytes bytes.
func named(field, text string, maxBytes int) error {
	if text == "" {
		return fmt.Errorf("%s: it is required", field)
	}
	return short(field, text, maxBytes)
}

// short requires text of at most maxBytes bytes, without a NUL.
func short(field, text string, maxBytes int) error {
	switch {
	case len(text) > maxBytes:
		return fmt.Errorf("%s: it has more than %d bytes", field, maxBytes)
	case strings.ContainsRune(text, 0):
		return fmt.Errorf("%s: it has a NUL character", field)
	}
	return nil
}

// word requires text of at most maxChars characters, all visible.
func word(field, text string, maxChars int) error {
	if utf8.RuneCountInString(text) > maxChars || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("%s: it takes at most %d characters, without control characters", field, maxChars)
	}
	return nil
}

// absolute requires an absolute path.
func absolute(field, path string) error {
	if err := short(field, path, maxPath); err != nil {
		return err
	}
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%s: it takes an absolute path, got %q", field, path)
	}
	return nil
}

// optional applies check to a text that is not empty.
func optional(check func(field, text string) error, field, text string) error {
	if text == "" {
		return nil
	}
	return check(field, text)
}

// argument requires texts that can be a program's arguments.
func argument(field string, args ...string) error {
	for i, arg := range args {
		if strings.ContainsRune(arg, 0) {
			return fmt.Errorf("%s[%d]: it has a NUL character", field, i)
		}
	}
	return nil
}

// environment requires variables that a process can have, each with one source.
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
			return fmt.Errorf("%s.%s: exactly one of value and file must be set", field, name)
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
