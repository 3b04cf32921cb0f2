package link

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/intent"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// offered are the options of a question of ours: kinds, which are their own ids.
func offered(d *gate.Decision) []string {
	kinds := []string{gate.AllowOnce}
	if d.Always.Text != "" {
		kinds = append(kinds, gate.AllowAlways)
	}
	kinds = append(kinds, gate.RejectOnce)
	if d.Never.Text != "" {
		kinds = append(kinds, gate.RejectAlways)
	}
	return kinds
}

// kinds are options that are their own ids.
func kinds(offered []string) []acp.PermissionOption {
	var options []acp.PermissionOption
	for _, kind := range offered {
		options = append(options, acp.PermissionOption{ID: kind, Kind: kind})
	}
	return options
}

const (
	// maxDiff is how many bytes of either side of a diff are shown.
	maxDiff = 1 << 20
	// maxShownCommand is how many bytes of a command are shown.
	maxShownCommand = 64 << 10
)

// ownCall is a tool call of our own, made to show a person what a call of the agent's would do.
type ownCall struct {
	sessionID string
	id        string
	title     string
	kind      string
	content   []byte // a JSON array
	locations []byte // likewise
}

// newOwnCall describes a call for a person: what was judged, not what the agent says of it.
func (l *Link) newOwnCall(ctx context.Context, g *gated, d *gate.Decision, a *permissionv1.Action) *ownCall {
	o := &ownCall{sessionID: g.call.sessionID, id: "acphost-" + d.ID(), title: intent.Summary(a), kind: ownKind(a.GetKind())}
	switch {
	case a.GetKind() == "fs.write" && len(a.GetPaths()) > 0:
		o.content = l.diff(ctx, g, a.GetPaths()[0].GetPath())
	case a.GetCommand() != nil:
		o.content = textContent("```sh\n" + shownCommand(a.GetCommand()) + "\n```")
	}
	if d.Reason != "" {
		o.content = appendItem(o.content, "Asked because: "+d.Denial())
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

// created is the tool_call that introduces it.
func (o *ownCall) created() []byte {
	b := o.update("tool_call")
	b = o.members(b)
	return append(b, `,"status":"pending"}}}`+"\n"...)
}

// updated is a tool_call_update with a new status.
func (o *ownCall) updated(status string) []byte {
	b := o.update("tool_call_update")
	b = append(append(b, `,"status":"`...), status...)
	return append(b, `"}}}`+"\n"...)
}

// question is the params of the session/request_permission about it.
func (o *ownCall) question(d *gate.Decision) []byte {
	b := jsonrpc.AppendString([]byte(`{"sessionId":`), o.sessionID)
	b = jsonrpc.AppendString(append(b, `,"toolCall":{"toolCallId":`...), o.id)
	b = o.members(b)
	b = append(b, `,"status":"pending"},"options":[`...)
	option := func(kind, name string) {
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		b = append(append(append(b, `{"optionId":"`...), kind...), `","kind":"`...)
		b = append(append(b, kind...), `","name":`...)
		b = append(jsonrpc.AppendString(b, name), '}')
	}
	for _, kind := range offered(d) {
		option(kind, map[string]string{
			gate.AllowOnce:    "Allow once: " + o.title,
			gate.AllowAlways:  "Always allow: " + d.Always.Text,
			gate.RejectOnce:   "Reject",
			gate.RejectAlways: "Always reject: " + d.Never.Text,
		}[kind])
	}
	return append(b, "]}"...)
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

// ownKind is ACP's tool kind for an action.
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

// diff is the content that shows a write: the file as it is, as far as it can be read, and as it would be.
func (l *Link) diff(ctx context.Context, g *gated, path string) []byte {
	text, _ := acp.String(acp.Get(g.params, "content"))
	b := jsonrpc.AppendString([]byte(`[{"type":"diff","path":`), path)
	b = append(b, `,"oldText":`...)
	if old, ok := l.present(ctx, g, path); ok {
		b = jsonrpc.AppendString(b, shortened(old, maxDiff))
	} else {
		b = append(b, "null"...)
	}
	b = jsonrpc.AppendString(append(b, `,"newText":`...), shortened(text, maxDiff))
	return append(b, "}]"...)
}

// present reads the file that a write would replace.
func (l *Link) present(ctx context.Context, g *gated, path string) (string, bool) {
	if !g.atHandler() {
		return "", false
	}
	conn, err := l.opts.Conn(g.route.Handler)
	if err != nil {
		return "", false
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	res, err := fsv1.NewFileSystemServiceClient(conn).ReadTextFile(ctx, &fsv1.ReadTextFileRequest{Context: g.cc, Path: path})
	if err != nil {
		return "", false // it does not exist yet, or is no text: the new text says enough
	}
	return res.GetContent(), true
}

func shownCommand(c *permissionv1.Command) string {
	text := plain(shortened(c.GetText(), maxShownCommand), "\n\t")
	if c.GetCwd() != "" {
		text += "\n# in " + plain(c.GetCwd(), "")
	}
	for _, e := range c.GetEnv() {
		text += "\n# with " + plain(shortened(e, 200), "")
	}
	// Nothing of the command's own may end the block that shows it.
	return strings.ReplaceAll(text, "```", "`\u200b``")
}

// plain writes characters that do not show, or that change how others show, as escapes, but for those in keep: what a
// person reads is what runs.
func plain(text, keep string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) || strings.ContainsRune(keep, r) {
			b.WriteRune(r)
			continue
		}
		fmt.Fprintf(&b, "\\u{%x}", r)
	}
	return b.String()
}

// textContent is content that shows text.
func textContent(text string) []byte {
	b := jsonrpc.AppendString([]byte(`[{"type":"content","content":{"type":"text","text":`), text)
	return append(b, "}}]"...)
}

// appendItem appends text to content.
func appendItem(content []byte, text string) []byte {
	item := textContent(text)
	if len(content) == 0 {
		return item
	}
	return append(append(content[:len(content)-1:len(content)-1], ','), item[1:]...)
}

// shortened cuts text to n bytes of whole characters, and says so.
func shortened(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "\n[the rest is not shown]"
}
