package event

import (
	"math"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// copyOf returns a copy of a tool call that shares its lists.
func copyOf(c *supervisorv1.ToolCall) *supervisorv1.ToolCall {
	return &supervisorv1.ToolCall{
		ToolCallId: c.GetToolCallId(), Title: c.GetTitle(), Kind: c.GetKind(), Status: c.GetStatus(), Name: c.GetName(),
		TerminalIds: c.GetTerminalIds(), Paths: c.GetPaths(), Content: c.GetContent(), Locations: c.GetLocations(),
		RawInput: c.GetRawInput(), RawOutput: c.GetRawOutput(), Output: c.GetOutput(),
	}
}

// toolCall decodes a report of a tool call; nil: it has no id.
func toolCall(v []byte) *supervisorv1.ToolCallReport {
	if r, named := reportOf(v); named {
		return r
	}
	return nil
}

// reportOf decodes a report of a tool call. named is false if it has no id.
func reportOf(v []byte) (r *supervisorv1.ToolCallReport, named bool) {
	r = &supervisorv1.ToolCallReport{}
	members(v, func(name, v []byte) {
		if !acp.ReportSays(string(name), v) {
			return
		}
		switch string(name) {
		case "toolCallId":
			r.ToolCallId, named = acp.String(v)
		case "title":
			r.Title = optionalText(v)
		case "name":
			r.Name = optionalText(v)
		case "kind":
			r.Kind = optionalText(v)
		case "status":
			r.Status = optionalText(v)
		case "content":
			r.Content, r.ContentSet = listOf(v, contentItem), true
		case "locations":
			r.Locations, r.LocationsSet = locations(v), true
		case "rawInput":
			r.RawInput = raw(v)
		case "rawOutput":
			r.RawOutput = raw(v)
		case "_meta":
			r.Meta = rawObject(v)
		}
	})
	r.Output = streamed([]byte(r.GetMeta()))
	if r.GetName() == "" && r.Meta != "" {
		if name := acp.MetaToolName([]byte(r.GetMeta())); name != "" {
			r.Name = &name
		}
	}
	return r, named
}

// streamed decodes the output of an agent's own terminal in a _meta; nil: it has none.
func streamed(meta []byte) *supervisorv1.ToolOutput {
	if len(meta) == 0 {
		return nil
	}
	piece, exit := acp.Get(meta, "terminal_output"), acp.Get(meta, "terminal_exit")
	if piece == nil {
		// The name that Codex uses, unless its client requests the other one.
		piece = acp.Get(meta, "terminal_output_delta")
	}
	if !isObject(piece) && !isObject(exit) {
		return nil
	}
	o := &supervisorv1.ToolOutput{Ended: isObject(exit)}
	for _, of := range [...][]byte{piece, exit} {
		if id, ok := acp.String(acp.Get(of, "terminal_id")); ok && id != "" {
			o.TerminalId = safetext.Cut(id, maxTitle)
		}
	}
	if o.GetTerminalId() == "" {
		return nil
	}
	o.Text, _ = acp.String(acp.Get(piece, "data"))
	exited(o, acp.Get(exit, "exit_code"), acp.Get(exit, "signal"))
	return o
}

// exited sets how a command ended, if it is known.
func exited(o *supervisorv1.ToolOutput, code, signal []byte) {
	o.Signal, _ = acp.String(signal)
	if code, ok := acp.Int(code, 64); ok && code >= 0 && code <= math.MaxUint32 {
		n := uint32(code)
		o.ExitCode = &n
	}
}

func contentItem(v []byte) *supervisorv1.ToolCallContent {
	var kind, content, path, oldText, newText, terminal []byte
	read(v, "type", &kind, "content", &content, "path", &path,
		"oldText", &oldText, "newText", &newText, "terminalId", &terminal)
	switch string(kind) {
	case `"content"`:
		if isObject(content) {
			return &supervisorv1.ToolCallContent{Item: &supervisorv1.ToolCallContent_Content{Content: block(content, noLimit)}}
		}
	case `"diff"`:
		at, ok := acp.String(path)
		to, made := acp.String(newText)
		if ok && made {
			return &supervisorv1.ToolCallContent{Item: &supervisorv1.ToolCallContent_Diff{
				Diff: &supervisorv1.Diff{Path: at, OldText: optionalText(oldText), NewText: to},
			}}
		}
	case `"terminal"`:
		if id, ok := acp.String(terminal); ok {
			return &supervisorv1.ToolCallContent{Item: &supervisorv1.ToolCallContent_TerminalId{TerminalId: id}}
		}
	}
	return &supervisorv1.ToolCallContent{Item: &supervisorv1.ToolCallContent_Other{Other: raw(v)}}
}

// locations decodes the locations of a tool call. It omits locations without a path.
func locations(v []byte) []*supervisorv1.Location {
	return listOf(v, func(v []byte) *supervisorv1.Location {
		l := &supervisorv1.Location{}
		ok := false
		read(v, "path", func(v []byte) { l.Path, ok = acp.String(v) }, "line", func(v []byte) {
			l.Line = nil
			if n, whole := unsigned(v, 32); whole {
				line := uint32(n)
				l.Line = &line
			}
		})
		return where(ok, l)
	})
}
