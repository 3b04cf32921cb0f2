package event

import (
	"path"
	"strings"

	"github.com/acphost/acphost/internal/facts"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/fileref"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
)

// maxTouches limits the files in use of one event, maxTouchBytes their paths: a short line may repeat the names of a
// long one. maxLooks limits the file lookups for one prompt.
const (
	maxTouches    = 1000
	maxTouchBytes = 64 << 10
	maxLooks      = 500
)

const (
	provided   = supervisorv1.FileAction_FILE_ACTION_USER_PROVIDED
	referenced = supervisorv1.FileAction_FILE_ACTION_USER_REFERENCED
	reads      = supervisorv1.FileAction_FILE_ACTION_READ
	writes     = supervisorv1.FileAction_FILE_ACTION_WRITE
	searches   = supervisorv1.FileAction_FILE_ACTION_SEARCH
	blocked    = supervisorv1.FileAction_FILE_ACTION_BLOCKED
)

// touches collects files without duplicates: of several uses of a file, a change takes precedence, else the first.
type touches struct {
	cwd   string
	bytes int
	list  []*supervisorv1.FileTouch
	known map[string]*supervisorv1.FileTouch
}

// touching begins a list for a session.
func (d *Decoder) touching(session string) *touches {
	t := &touches{known: map[string]*supervisorv1.FileTouch{}}
	if roots := d.roots.At(session); len(roots) > 0 {
		t.cwd = roots[0]
	}
	return t
}

func (t *touches) add(file string, action supervisorv1.FileAction) {
	if len(file) >= len("file:") && strings.EqualFold(file[:len("file:")], "file:") { // some agents use URIs as paths
		file = fileref.OfURI(file)
	}
	if file == "" || len(file) > maxKept {
		return
	}
	file = t.absolute(file)
	file = path.Clean(strings.ToValidUTF8(file, "\ufffd")) // events and feeds carry text; a URI may contain any bytes
	switch known := t.known[file]; {
	case known != nil:
		if action == writes {
			known.Action = writes
		}
	case len(t.list) < maxTouches && t.bytes+len(file) <= maxTouchBytes:
		t.bytes += len(file)
		made := &supervisorv1.FileTouch{Path: file, Action: action}
		t.known[file] = made
		t.list = append(t.list, made)
	}
}

// absolute returns the absolute path for a path relative to the session's folder.
func (t *touches) absolute(file string) string {
	if !path.IsAbs(file) && t.cwd != "" {
		return path.Join(t.cwd, file)
	}
	return file
}

// refused marks files as refused.
func refused(list []*supervisorv1.FileTouch) []*supervisorv1.FileTouch {
	for _, touch := range list {
		touch.Action, touch.Refused = blocked, touch.GetAction()
	}
	return list
}

// prompt adds the files that a prompt contains or refers to. exists reports whether there is a file at an absolute
// path; nil: unknown.
func (t *touches) prompt(blocks []*supervisorv1.ContentBlock, exists func(file string) bool) {
	looks := 0
	look := func(name string) bool {
		looks++
		return exists != nil && looks <= maxLooks && exists(t.absolute(name))
	}
	for _, b := range blocks {
		switch c := b.GetContent().(type) {
		case *supervisorv1.ContentBlock_Text:
			for _, r := range fileref.In(c.Text.GetText(), maxTouches) {
				if name := referredTo(r, look); name != "" {
					t.add(name, referenced)
				}
			}
		case *supervisorv1.ContentBlock_ResourceLink:
			t.add(fileref.OfURI(c.ResourceLink.GetUri()), referenced)
		case *supervisorv1.ContentBlock_Resource:
			t.add(fileref.OfURI(c.Resource.GetUri()), provided)
		case *supervisorv1.ContentBlock_Image:
			t.add(fileref.OfURI(c.Image.GetUri()), provided)
		}
	}
}

// referredTo returns the file that a reference means: its first interpretation that exists or, if none does and the
// reference is certainly a file, the path without the position in the file. Empty otherwise.
func referredTo(r fileref.Reference, exists func(name string) bool) string {
	for _, name := range r.Names {
		if exists(name) {
			return name
		}
	}
	if r.Certain() {
		return r.Name()
	}
	return ""
}

// toolCall adds the files of a tool call.
func (t *touches) toolCall(s intent.Session, c *supervisorv1.ToolCall) {
	for _, item := range c.GetContent() {
		t.add(item.GetDiff().GetPath(), writes)
	}
	for _, l := range c.GetLocations() {
		t.add(l.GetPath(), actionOf(c.GetKind()))
	}
	if c.GetRawInput() == "" {
		return
	}
	a := intent.Question(s, acp.ToolCall{ID: c.GetToolCallId(), Title: c.GetTitle(), Name: c.GetName(), Kind: c.GetKind(), RawInput: []byte(c.GetRawInput())})
	if a.GetCommand() != nil {
		t.command(a.GetCommand())
		return
	}
	action := actionOf(strings.TrimPrefix(a.GetKind(), "tool."))
	for _, p := range a.GetPaths() {
		t.add(p.GetPath(), action)
	}
}

// actionOf returns what a tool call of an ACP kind does with its files.
func actionOf(kind string) supervisorv1.FileAction {
	switch kind {
	case "edit", "delete", "move":
		return writes
	case "search":
		return searches
	}
	return reads
}

// command adds the files that a command uses, according to its words. It parses the line again: the action for the
// policy omits names of files that an earlier part of the line may have replaced.
func (t *touches) command(c *permissionv1.Command) {
	if c == nil {
		return
	}
	subs, _ := shell.Parse(c.GetText())
	if len(c.GetArgv()) > 0 {
		subs, _ = shell.FromArgv(c.GetArgv())
	}
	for _, sub := range subs {
		for _, file := range facts.Likely(sub, t.folderOf(c, sub)) {
			action := reads
			switch {
			case file.GetAccess() == permissionv1.Access_ACCESS_WRITE:
				action = writes
			case file.GetRecursive() || file.GetMetadataOnly():
				action = searches
			}
			if file.GetPath() != "/dev/null" {
				t.add(file.GetPath(), action)
			}
		}
	}
}

// folderOf returns the folder in which a part of a command runs; "" if unknown.
func (t *touches) folderOf(c *permissionv1.Command, sub *permissionv1.SubCommand) string {
	if sub.GetCwdUnknown() || c.GetCwdDoubtful() {
		return ""
	}
	dir := t.cwd
	if c.GetCwd() != "" {
		dir = t.absolute(c.GetCwd())
	}
	if path.IsAbs(sub.GetCwd()) || dir == "" {
		return sub.GetCwd()
	}
	return path.Join(dir, sub.GetCwd())
}

// judging returns the known state of a session and its agent, for interpreting the agent's messages.
func (d *Decoder) judging(session string) intent.Session {
	return intent.Session{Agent: d.agent.Name, Dialect: d.dialect, SessionID: session, Roots: d.roots.At(session)}
}

// touchedByReport returns the files in use for a report: the files of a tool call that runs or has succeeded, once it
// names them, and those of a call that failed after it was denied. report is merged into the tool call already.
func (d *Decoder) touchedByReport(session string, report *supervisorv1.ToolCallReport) []*supervisorv1.FileTouch {
	k := d.reports.known.At(reportKey(session, report.GetToolCallId()))
	if k == nil {
		return nil
	}
	t := d.touching(session)
	switch status := k.GetStatus(); {
	case status == "failed" && k.denied:
		return d.refusedBy(session, report.GetToolCallId())
	case status != "in_progress" && status != "completed":
		return nil
	case report.Status == nil && report.GetRawInput() == "" && !report.GetLocationsSet() && !report.GetContentSet():
		return nil
	}
	c := d.reports.with(session, report) // k lacks parts that are too large to keep
	// It was interpreted already, or would take too long.
	if in := c.GetRawInput(); in == k.input || len(in) > maxMerged {
		c.RawInput = ""
	}
	k.input = k.GetRawInput()
	t.toolCall(d.judging(session), c)
	return t.list
}

// deniedQuestion records the answer of a person or the policy to a question about a tool call.
func (d *Decoder) deniedQuestion(r *request, denied bool) {
	if k := d.reports.known.At(reportKey(r.session, r.toolCall)); k != nil && r.toolCall != "" {
		k.denied = denied
	}
}

// refusedBy returns the files of a denied tool call, once.
func (d *Decoder) refusedBy(session, toolCall string) []*supervisorv1.FileTouch {
	k := d.reports.known.At(reportKey(session, toolCall))
	if k == nil || !k.denied {
		return nil
	}
	k.denied = false
	t := d.touching(session)
	t.toolCall(d.judging(session), k.ToolCall)
	return refused(t.list)
}

// refusedUnreported returns the files of a session's denied tool calls that had no report after that.
func (d *Decoder) refusedUnreported(session string) (all []*supervisorv1.FileTouch) {
	for key, k := range d.reports.known.All() {
		if k.denied && len(all) < maxTouches && strings.HasPrefix(key, session+"\x00") {
			all = append(all, d.refusedBy(session, k.GetToolCallId())...)
		}
	}
	return all[:min(len(all), maxTouches)]
}

// usedByCall returns the files of a call of a client's method.
func (d *Decoder) usedByCall(r *request, file string, params []byte) []*supervisorv1.FileTouch {
	t := d.touching(r.session)
	switch r.method {
	case acp.MethodReadTextFile:
		t.add(file, reads)
	case acp.MethodWriteTextFile:
		t.add(file, writes)
	case acp.MethodTerminalCreate, acp.MethodTerminalRun:
		t.command(intent.Names(d.judging(r.session), r.method, "terminal.create", params).GetCommand())
	}
	return t.list
}

// touchedByCall returns the files of a call that has ended: none if it failed, unless the gate or a handler denied it.
func touchedByCall(r *request, a *answer) []*supervisorv1.FileTouch {
	switch {
	case a.fault == nil:
		return r.touched
	case a.ours() && a.handler == gateName, textOf(acp.Get(a.fault, "data", "code")) == "PERMISSION_DENIED":
		return refused(r.touched)
	}
	return nil
}
