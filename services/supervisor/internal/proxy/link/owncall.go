package link

import (
	"context"
	"crypto/sha256"
	"errors"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/textform"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/events/span"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// offered returns the options of acphost's own question. Their ids are their kinds.
func offered(d *gate.Decision) []acp.PermissionOption {
	var options []acp.PermissionOption
	for _, kind := range []string{acp.AllowOnce, acp.AllowAlways, acp.RejectOnce, acp.RejectAlways} {
		if kind == acp.AllowAlways && d.Always.Text == "" || kind == acp.RejectAlways && d.Never.Text == "" {
			continue
		}
		options = append(options, acp.PermissionOption{ID: kind, Kind: kind})
	}
	return options
}

const (
	// askedBecause introduces the reason of a question, in its first content. Package event recognises it.
	askedBecause = "Asked because: "
	// maxDiff limits the bytes of either side of a diff.
	maxDiff = 1 << 20
	// writeTextFile is ACP's method that writes a file.
	writeTextFile = "fs/write_text_file"
	// maxShownCommand limits the bytes of a command that are shown.
	maxShownCommand = 64 << 10
)

// ownCall is acphost's own tool call, which shows a person the action of an agent's call.
type ownCall struct {
	sessionID string
	id        string
	title     string
	detail    string // gate.Decision.Detail
	kind      string
	content   []byte // a JSON array
	locations []byte // a JSON array
}

// newOwnCall describes a call for a person: the judged action, not the agent's description.
func (l *Link) newOwnCall(ctx context.Context, h *heldCall, d *gate.Decision, a *permissionv1.Action) *ownCall {
	o := &ownCall{sessionID: h.call.sessionID, id: l.opts.Names.next(d.ID()), title: intent.Title(a), detail: d.Detail, kind: ownKind(a.GetKind())}
	if d.Reason != "" {
		o.content = textContent(askedBecause + d.Why())
	}
	switch {
	case a.GetKind() == "fs.write" && len(a.GetPaths()) > 0:
		o.content = appendContent(o.content, l.diff(ctx, h, a.GetPaths()[0].GetPath()))
	case a.GetCommand() != nil:
		o.content = appendItem(o.content, shownInBlock(a.GetCommand()))
	}
	if d.Said != "" {
		o.content = appendItem(o.content, "The agent says this about it; acphost has not checked it: "+strconv.Quote(d.Said))
	}
	locations := []byte{'['}
	for i, p := range a.GetPaths() {
		if i > 0 {
			locations = append(locations, ',')
		}
		locations = append(jsonrpc.AppendString(append(locations, `{"path":`...), p.GetPath()), '}')
	}
	o.locations = append(locations, ']')
	return o
}

// created returns the tool_call that introduces the tool call.
func (o *ownCall) created() []byte {
	b := o.update("tool_call")
	b = o.members(b)
	return append(b, `,"status":"pending"}}}`+"\n"...)
}

// updated returns a tool_call_update with a new status.
func (o *ownCall) updated(status string) []byte {
	b := o.update("tool_call_update")
	b = append(append(b, `,"status":"`...), status...)
	return append(b, `"}}}`+"\n"...)
}

// question returns the params of the session/request_permission about the tool call. If the call is traced, the params contain the trace.
func (o *ownCall) question(d *gate.Decision, call *span.Span) []byte {
	b := jsonrpc.AppendString([]byte(`{"sessionId":`), o.sessionID)
	b = jsonrpc.AppendString(append(b, `,"toolCall":{"toolCallId":`...), o.id)
	b = o.members(b)
	b = append(b, `,"status":"pending"},"options":[`...)
	for i, option := range offered(d) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, `{"optionId":"`...), option.ID...), `","kind":"`...)
		b = append(append(b, option.Kind...), `","name":`...)
		b = append(jsonrpc.AppendString(b, map[string]string{
			acp.AllowOnce:    "Allow once: " + o.title,
			acp.AllowAlways:  "Always allow: " + d.Always.Text,
			acp.RejectOnce:   "Reject",
			acp.RejectAlways: "Always reject: " + d.Never.Text,
		}[option.Kind]), '}')
	}
	b = append(b, ']')
	return append(appendMeta(b, o.detail, call.Context()), '}')
}

// appendMeta appends the member _meta of a question: the detail of the decision, and the trace of the call.
func appendMeta(b []byte, detail string, trace span.Context) []byte {
	var members []string
	member := func(name, value string) {
		members = append(members, string(jsonrpc.AppendString(append(jsonrpc.AppendString(nil, name), ':'), value)))
	}
	if detail != "" {
		member(acp.MetaDetail, detail)
	}
	if trace.Valid() {
		member("traceparent", trace.Traceparent())
	}
	if len(members) == 0 {
		return b
	}
	return append(b, `,"_meta":{`+strings.Join(members, ",")+"}"...)
}

func (o *ownCall) update(kind string) []byte {
	b := jsonrpc.AppendString([]byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":`), o.sessionID)
	b = append(append(append(b, `,"update":{"sessionUpdate":"`...), kind...), `","toolCallId":`...)
	return jsonrpc.AppendString(b, o.id)
}

func (o *ownCall) members(b []byte) []byte {
	b = jsonrpc.AppendString(append(b, `,"title":`...), o.title)
	b = append(append(append(b, `,"kind":"`...), o.kind...), '"')
	if o.content != nil {
		b = append(append(b, `,"content":`...), o.content...)
	}
	return append(append(b, `,"locations":`...), o.locations...)
}

// ownKind returns ACP's tool kind of an action.
func ownKind(kind string) string {
	switch kind {
	case "fs.read":
		return "read"
	case "fs.list":
		return "search"
	case "fs.write":
		return "edit"
	case "terminal.create":
		return "execute"
	}
	return "other"
}

// diff returns the content that shows a write: the current file, as far as it can be read, and the new file, in the form that the handler
// keeps.
func (l *Link) diff(ctx context.Context, h *heldCall, path string) []byte {
	text, _ := acp.String(acp.Get(h.params, "content"))
	b := jsonrpc.AppendString([]byte(`[{"type":"diff","path":`), path)
	b = append(b, `,"oldText":`...)
	var now presentText
	err := errors.ErrUnsupported
	if h.atHandler() {
		now, err = l.readText(ctx, h.route.Handler, h.cc, path, h.outside)
	}
	missing := status.Code(err) == codes.NotFound
	unread := err != nil && !missing && h.atHandler()
	if err == nil || missing {
		sum := sha256.Sum256([]byte(now.text))
		h.seen = &sum
	}
	if err == nil || unread {
		b = jsonrpc.AppendString(b, shortened(now.text, maxDiff))
	} else {
		b = append(b, "null"...)
	}
	b = jsonrpc.AppendString(append(b, `,"newText":`...), shortened(now.form.Apply(text), maxDiff))
	b = append(b, "}]"...)
	if unread {
		b = appendItem(b, "The present content of the file is not shown, and would be replaced: "+safetext.Cut(safetext.Line(status.Convert(err).Message()), 200))
	}
	return b
}

// contentUnchanged reports whether the file that a write would replace has the content with a SHA-256; a missing file is empty. If so, the
// handler will reject the write if the file changes before it.
func (l *Link) contentUnchanged(ctx context.Context, h *heldCall, sum [sha256.Size]byte) bool {
	path, _ := acp.Exact(acp.Get(h.params, "path"))
	now, err := l.readText(ctx, h.route.Handler, h.cc, path, h.outside)
	if err != nil && status.Code(err) != codes.NotFound || sha256.Sum256([]byte(now.text)) != sum {
		return false
	}
	h.cc.ExpectedDigest = now.digest
	return true
}

// presentText is the current text of a file.
type presentText struct {
	text, digest string
	form         textform.Form // the form that a write keeps
}

// readText reads a text file for a question, through the handler that would write it. So it reads only files that the handler could write,
// and the agent never gets the text. outside is the target of the path, if it leaves the roots.
func (l *Link) readText(ctx context.Context, handler string, cc *acpv1.CallContext, path, outside string) (presentText, error) {
	conn, err := l.opts.Conn(handler)
	if err != nil {
		return presentText{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	cc = proto.CloneOf(cc)
	cc.AllowedPath, cc.NoDigest = outside, false // contentUnchanged uses the digest, and diff the form
	res, err := fsv1.NewFileSystemServiceClient(conn).ReadTextFile(ctx, &fsv1.ReadTextFileRequest{Context: cc, Path: path})
	kept := res.GetResult().GetKept()
	return presentText{res.GetContent(), res.GetResult().GetDigest(), textform.Form{CRLF: kept.GetCrlf(), Mark: kept.GetByteOrderMark()}}, err
}

// shown returns the contents of files after the edit that a question shows. It returns nil if the gate does not decide about writes, or if
// no handler makes them. It takes at most callTimeout.
func (l *Link) shown(ctx context.Context, cc *acpv1.CallContext, s intent.Session, a *permissionv1.Action, tc acp.ToolCall) intent.Edits {
	r := l.lookup(cc.GetSessionId(), []byte(writeTextFile))
	if cc == nil || r == nil || r.Target != route.Handler || !l.opts.Gate.Decides(writeTextFile, a.GetRoots()) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	room, err := l.queue.budget.reserve(ctx, firstGuess) // for one file at a time
	if err != nil {
		return nil
	}
	defer l.queue.budget.give(room)
	return s.Shown(a, tc, func(p *permissionv1.PathAccess) (string, textform.Form, bool) {
		cc.ResolvedPath = nil
		if p.GetResolvedPath() != "" {
			cc.ResolvedPath = &acpv1.ResolvedPath{Path: p.GetResolvedPath()}
		}
		now, err := l.readText(ctx, r.Handler, cc, p.GetPath(), outside(p))
		return now.text, now.form, err == nil || status.Code(err) == codes.NotFound
	})
}

func shownInBlock(c *permissionv1.Command) string { return "```sh\n" + shownCommand(c) + "\n```" }

func shownCommand(c *permissionv1.Command) string {
	text := safetext.ExactLines(shortened(c.GetText(), maxShownCommand))
	if c.GetCwd() != "" {
		text += "\n# in " + safetext.Exact(c.GetCwd())
	}
	for _, e := range c.GetEnv() {
		text += "\n# with " + safetext.Exact(shortened(e, 200))
	}
	// The command's own text must not end the block that shows it.
	return strings.ReplaceAll(text, "```", "`\u200b``")
}

// textContent returns content that shows text.
func textContent(text string) []byte {
	b := jsonrpc.AppendString([]byte(`[{"type":"content","content":{"type":"text","text":`), text)
	return append(b, "}}]"...)
}

// appendItem appends text to content.
func appendItem(content []byte, text string) []byte { return appendContent(content, textContent(text)) }

// appendContent appends content to content, which may be empty.
func appendContent(content, more []byte) []byte {
	if len(content) == 0 {
		return more
	}
	return append(append(content[:len(content)-1:len(content)-1], ','), more[1:]...)
}

// shortened truncates text to n bytes of whole characters, and marks the cut.
func shortened(text string, n int) string {
	text, cut := safetext.Prefix(text, n)
	if cut {
		text += "\n[the rest is not shown]"
	}
	return text
}
