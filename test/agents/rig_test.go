package agents

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/test/wire"
)

// patience is how long a test waits for all that it does: the agents are large programs that start slowly.
const patience = 30 * time.Minute

// executable is the path of an agent's command below the folder in ACPHOST_AGENTS. It skips the test if the command
// does not exist.
func executable(t testing.TB, command string) string {
	t.Helper()
	dir := os.Getenv(installed)
	if dir == "" {
		t.Skip("the agents are not fetched for this: " + installed + " names no folder in which npm has installed them")
	}
	path, err := filepath.Abs(filepath.Join(dir, "node_modules", ".bin", command))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is not installed in %s=%s: %v", command, installed, dir, err)
	}
	return path
}

// rig is a running "acphost serve" in its own home, with a workspace, for one agent.
type rig struct {
	*wire.Process
	*client.Client
	home, work string // home also marks every process that belongs here

	t   testing.TB
	ctx context.Context
	// tries: an agent that does not start is not a failure, and unstarted is the reason.
	tries     bool
	unstarted error
	// walled: the agent's network is a proxy. Its entry in agents.json names the models, as entries name those of
	// vendors. Its reports to its vendor and its search for updates are not disabled.
	walled bool
	models []string // host and port of each model
}

// model starts a model for an agent of the rig.
func (r *rig) model(api func(testing.TB, ...Step) *Model) *Model {
	r.t.Helper()
	m := api(r.t)
	r.models = append(r.models, strings.TrimPrefix(m.URL, "http://"))
	return m
}

// newRig starts a supervisor whose policy is rules: a rule file, or the name of a ready-made policy. Empty: there is no
// policy, and every question waits for a person. own is the user's agents.json, if given.
func newRig(t testing.TB, rules string, own ...string) *rig {
	t.Helper()
	return newRigWith(t, rules, "", own...)
}

// newRigWith is newRig with more of a configuration: lines of YAML.
func newRigWith(t testing.TB, rules, config string, own ...string) *rig {
	t.Helper()
	home := testkit.ShortDir(t)
	r := &rig{home: home, work: filepath.Join(home, "work"), t: t}
	for _, dir := range []string{"work", "run", "tmp", "config"} {
		if err := os.Mkdir(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(r.expectNobody)
	if strings.Contains(rules, "\n") {
		r.file("../config/policy.yaml", rules)
		rules = "policy.yaml"
	}
	if rules != "" {
		config += "permission: {policy: " + rules + "}\n"
	}
	for _, agents := range own {
		r.file("../.config/acphost/agents.json", agents)
	}
	path := r.file("../config/config.yaml", config)
	r.Process = wire.Start(t, wire.Options{Name: "supervisor", Command: []string{program("acphost"), "serve", "--config", path}, Dir: r.work, Env: r.env()})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	r.ctx = ctx
	r.dial()
	return r
}

// dial connects to the supervisor's socket.
func (r *rig) dial() {
	r.t.Helper()
	var found []string
	if !testkit.Poll(func() bool {
		found, _ = filepath.Glob(filepath.Join(r.home, "run", "acphost", fmt.Sprintf("%d-*.sock", r.PID())))
		return len(found) == 1
	}) {
		r.t.Fatalf("the supervisor has the sockets %q, want one", found)
	}
	var err error
	if r.Client, err = client.DialSocket(found[0]); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = r.Client.Close() })
}

// env is the environment of all that is run here. The agents are on its PATH, as they are where npm has installed them
// for all.
func (r *rig) env(more ...string) []string {
	path := os.Getenv("PATH")
	if dir, err := filepath.Abs(os.Getenv(installed)); err == nil {
		for _, in := range []string{filepath.Join(dir, "more"), dir} {
			path = filepath.Join(in, "node_modules", ".bin") + string(os.PathListSeparator) + path
		}
	}
	return append([]string{
		"PATH=" + path, "HOME=" + r.home, "TMPDIR=" + filepath.Join(r.home, "tmp"),
		"XDG_RUNTIME_DIR=" + filepath.Join(r.home, "run"), "LANG=C.UTF-8",
		"npm_config_update_notifier=false", // npm, when it runs tests, would ask the registry
	}, more...)
}

// path is a path in the workspace.
func (r *rig) path(name string) string { return filepath.Join(r.work, name) }

// file writes a file into the workspace and returns its path.
func (r *rig) file(name, text string) string {
	r.t.Helper()
	path := r.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		r.t.Fatal(err)
	}
	if r.walled {
		text = usageStatistics.ReplaceAllString(text, `"usageStatisticsEnabled": true`)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return path
}

// usageStatistics is the setting by which agents report to their vendors.
var usageStatistics = regexp.MustCompile(`"usageStatisticsEnabled": *false`)

// expectFile expects a file in the workspace to hold text.
func (r *rig) expectFile(name, want string) {
	r.t.Helper()
	if got, err := os.ReadFile(r.path(name)); err != nil || string(got) != want {
		r.t.Errorf("%s holds %q (%v), want %q", name, got, err, want)
	}
}

// expectNoFile expects that there is no file of that name in the workspace.
func (r *rig) expectNoFile(name string) {
	r.t.Helper()
	if _, err := os.Lstat(r.path(name)); !errors.Is(err, os.ErrNotExist) {
		r.t.Errorf("%s is there (%v), want nothing", name, err)
	}
}

// start starts an agent: its command, and its environment on top of the rig's, "NAME=VALUE" each.
func (r *rig) start(command []string, env ...string) *supervisorv1.Agent {
	r.t.Helper()
	return r.startAs(&supervisorv1.StartAgentRequest{Command: command}, env)
}

// preset starts an agent by its name.
func (r *rig) preset(name string, env ...string) *supervisorv1.Agent {
	r.t.Helper()
	return r.startAs(&supervisorv1.StartAgentRequest{Preset: name}, env)
}

func (r *rig) startAs(req *supervisorv1.StartAgentRequest, env []string) *supervisorv1.Agent {
	r.t.Helper()
	if r.walled {
		id := req.GetPreset()
		if id == "" {
			id = filepath.Base(req.GetCommand()[0])
		}
		r.nameModels(id)
	}
	req.Cwd, req.Env = r.work, map[string]*supervisorv1.EnvValue{}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if r.walled && isQuiet(name) {
			continue
		}
		req.Env[name] = &supervisorv1.EnvValue{Source: &supervisorv1.EnvValue_Value{Value: value}}
	}
	resp, err := r.Agents.StartAgent(r.ctx, req)
	if err != nil && r.tries {
		r.unstarted = explain(err)
		return nil
	}
	if err != nil {
		r.t.Fatalf("start %v: %v", req, explain(err))
	}
	return resp.GetAgent()
}

// isQuiet reports whether a variable keeps an agent from connecting to other machines than its model's.
func isQuiet(name string) bool {
	return strings.Contains(name, "DISABLE") || strings.Contains(name, "OFFLINE")
}

// open opens a session in the workspace.
func (r *rig) open(agent *supervisorv1.Agent) *supervisorv1.Session {
	r.t.Helper()
	resp, err := r.Sessions.NewSession(r.ctx, &supervisorv1.NewSessionRequest{AgentId: agent.GetId(), Cwd: r.work})
	if err != nil {
		r.t.Fatalf("open a session with %s: %v", agent.GetId(), explain(err))
	}
	return resp.GetSession()
}

// finish ends the supervisor as a service manager does, and expects it to leave nothing.
func (r *rig) finish() {
	r.t.Helper()
	if err := r.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	if got := r.ExpectExit(); got != 0 {
		r.t.Errorf("the exit status after SIGTERM is %d, want 0", got)
	}
	r.expectNobody()
}

// expectNobody waits until no process is left that belongs here.
func (r *rig) expectNobody() {
	r.t.Helper()
	var left []int
	if !testkit.Poll(func() bool {
		var err error
		if left, err = proc.WithEnviron("HOME=" + r.home); err != nil {
			r.t.Error(err)
			return true
		}
		return len(left) == 0
	}) {
		r.t.Errorf("processes are left behind:\n%s", wire.Describe(left))
	}
}

// decisions are the lines of the audit.
func (r *rig) decisions() []*supervisorv1.AuditRecord {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.home, ".local", "state", "acphost", "audit.jsonl"))
	if err != nil {
		r.t.Fatal(err)
	}
	var all []*supervisorv1.AuditRecord
	for line := range bytes.Lines(data) {
		d := &supervisorv1.AuditRecord{}
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(line, d); err != nil {
			r.t.Fatalf("the audit holds a line that is no record: %v\n%s", err, line)
		}
		all = append(all, d)
	}
	return all
}

// done waits until the audit has a new record of an action without a question: such an action is judged when it is
// over. It returns the newest such record.
func (r *rig) done() *supervisorv1.AuditRecord {
	r.t.Helper()
	isDone := func(d *supervisorv1.AuditRecord) bool { return d.GetAction().GetDone() }
	testkit.Poll(func() bool { return slices.ContainsFunc(r.decisions(), isDone) })
	return r.decision("what was done without a question", isDone)
}

// decision is the newest line of the audit for which f holds.
func (r *rig) decision(what string, f func(*supervisorv1.AuditRecord) bool) *supervisorv1.AuditRecord {
	r.t.Helper()
	all := r.decisions()
	for _, d := range slices.Backward(all) {
		if f(d) {
			return d
		}
	}
	var b strings.Builder
	for _, d := range all {
		fmt.Fprintf(&b, "  %v\n", d)
	}
	r.t.Fatalf("the audit has nothing about %s; it has:\n%s", what, &b)
	return nil
}

// asked is the newest decision about a question of the agent of a kind: "tool.execute".
func (r *rig) asked(kind string) *supervisorv1.AuditRecord {
	r.t.Helper()
	return r.decision("a question of kind "+kind, func(d *supervisorv1.AuditRecord) bool {
		return d.GetAction().GetDoor() == permissionv1.Door_DOOR_REQUEST && d.GetAction().GetKind() == kind
	})
}

// frame is a line of the journal.
type frame struct {
	Time    time.Time       `json:"t"`
	Dir     string          `json:"dir"`
	Handler string          `json:"handler"`
	Method  string          `json:"method"`
	Answers string          `json:"answers"`
	Frame   json.RawMessage `json:"frame"`
}

// toolReport is a report of a tool call in a frame.
type toolReport struct{ ToolCallID, Kind, Status string }

// calls returns the reports of tool calls in a frame.
func (f frame) calls() []toolReport {
	var m struct {
		Params struct{ Update, ToolCall toolReport }
	}
	_ = json.Unmarshal(f.Frame, &m) // another frame
	return slices.DeleteFunc([]toolReport{m.Params.Update, m.Params.ToolCall}, func(c toolReport) bool { return c.ToolCallID == "" })
}

// frames are the lines that a session's journal has for a method, requests and answers; all of them for "".
func (r *rig) frames(session, method string) []frame {
	r.t.Helper()
	code, out, errs := r.cli("sessions", "export", session, "--format", "ndjson")
	if code != 0 {
		r.t.Fatalf("export %s: exit %d\n%s", session, code, errs)
	}
	var all []frame
	lines := bufio.NewScanner(strings.NewReader(out))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var f frame
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			r.t.Fatalf("the journal holds a line that is no JSON: %s", lines.Text())
		}
		if method == "" || f.Method == method || f.Answers == method {
			all = append(all, f)
		}
	}
	return all
}

// cli runs acphost in the workspace.
func (r *rig) cli(args ...string) (code int, stdout, stderr string) {
	r.t.Helper()
	cmd := exec.Command(program("acphost"), args...)
	cmd.Dir, cmd.Env = r.work, r.env()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			r.t.Fatal(err)
		}
		code = exit.ExitCode()
	}
	return code, out.String(), errs.String()
}

// turn is one prompt and all its events. Its methods belong to the test's goroutine.
type turn struct {
	*client.Turn
	t    testing.TB
	r    *rig
	seen []*supervisorv1.Event
}

// prompt begins a turn.
func (r *rig) prompt(session *supervisorv1.Session, words string) *turn {
	r.t.Helper()
	began, err := r.Prompt(r.ctx, &supervisorv1.PromptRequest{
		AgentId: session.GetAgentId(), SessionId: session.GetSessionId(), Prompt: []*supervisorv1.ContentBlock{client.Text(words)},
	})
	if err != nil {
		r.t.Fatalf("prompt: %v", explain(err))
	}
	return &turn{Turn: began, t: r.t, r: r}
}

// until receives events up to one that f accepts, and returns that one.
func (u *turn) until(what string, f func(*supervisorv1.Event) bool) *supervisorv1.Event {
	u.t.Helper()
	var ended error
	for e, err := range u.Events() {
		if ended = err; err != nil {
			break
		}
		if u.seen = append(u.seen, e); f(e) {
			return e
		}
	}
	u.t.Fatalf("the events ended with %v before %s; there were:\n%s", explain(ended), what, listing(u.seen))
	return nil
}

// question receives events up to a permission question and returns it.
func (u *turn) question() *supervisorv1.Approval {
	u.t.Helper()
	return u.until("a question", func(e *supervisorv1.Event) bool { return e.GetQuestionAsked() != nil }).GetQuestionAsked()
}

// answer answers a question with the option of a kind: "allow_once".
func (u *turn) answer(q *supervisorv1.Approval, kind string) {
	u.t.Helper()
	if _, err := u.r.Answer(u.r.ctx, q.GetId(), "tester", client.Choose(kind)); err != nil {
		u.t.Fatalf("answer %v with %s: %v", q, kind, explain(err))
	}
}

// end receives the rest of a turn, which must end properly, and returns its end.
func (u *turn) end() *supervisorv1.TurnEnded {
	u.t.Helper()
	end := u.until("the turn's end", func(e *supervisorv1.Event) bool { return e.GetTurnEnded() != nil })
	for e, err := range u.Events() {
		u.t.Errorf("after the turn's end arrived %v, %v", e, explain(err))
	}
	return end.GetTurnEnded()
}

// stopped receives the rest of a turn and checks how it ended.
func (u *turn) stopped(reason string) *supervisorv1.TurnEnded {
	u.t.Helper()
	end := u.end()
	if end.GetStopReason() != reason || end.GetError() != nil {
		u.t.Errorf("the turn ended with %v, want the stop reason %s; there were:\n%s", end, reason, listing(u.seen))
	}
	return end
}

// message returns the agent's message, all pieces joined.
func (u *turn) message() string {
	var b strings.Builder
	for _, e := range u.seen {
		b.WriteString(e.GetAgentMessage().GetContent().GetText().GetText())
	}
	return b.String()
}

// expectSaid expects the agent's message to hold words.
func (u *turn) expectSaid(words ...string) {
	u.t.Helper()
	for _, w := range words {
		if message := u.message(); !strings.Contains(message, w) {
			u.t.Errorf("the agent sent %q, want %q in it; there were:\n%s", message, w, listing(u.seen))
		}
	}
}

// calls returns the current state of the tool calls, in the order in which they began.
func (u *turn) calls() []*supervisorv1.ToolCall {
	var all []*supervisorv1.ToolCall
	for _, e := range u.seen {
		report := e.GetToolCall()
		if report == nil {
			report = e.GetToolCallUpdate()
		}
		if report == nil {
			continue
		}
		i := slices.IndexFunc(all, func(c *supervisorv1.ToolCall) bool { return c.GetToolCallId() == report.GetToolCallId() })
		if i < 0 {
			i = len(all)
			all = append(all, &supervisorv1.ToolCall{ToolCallId: report.GetToolCallId()})
		}
		client.FoldToolCall(all[i], report)
	}
	return all
}

// call is the only tool call of a kind.
func (u *turn) call(kind string) *supervisorv1.ToolCall {
	u.t.Helper()
	var found []*supervisorv1.ToolCall
	for _, c := range u.calls() {
		if c.GetKind() == kind {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		u.t.Fatalf("there are %d tool calls of kind %s, want one; there were:\n%s", len(found), kind, listing(u.seen))
	}
	return found[0]
}

// kind is the name of what an event holds: "agent_message".
func kind(e *supervisorv1.Event) string {
	m := e.ProtoReflect()
	if set := m.WhichOneof(m.Descriptor().Oneofs().ByName("event")); set != nil {
		return string(set.Name())
	}
	return "nothing"
}

// listing is a line for each of the last events.
func listing(events []*supervisorv1.Event) string {
	var b strings.Builder
	if over := len(events) - 60; over > 0 {
		fmt.Fprintf(&b, "  (%d more)\n", over)
		events = events[over:]
	}
	for _, e := range events {
		line := e.GetRaw()
		if line == "" {
			line = e.String()
		}
		fmt.Fprintf(&b, "  %s %s\n", kind(e), line[:min(400, len(line))])
	}
	return b.String()
}

// explain is an error with its detail.
func explain(err error) error {
	if e := client.ErrorOf(err); e != nil && e.Agent != nil {
		return fmt.Errorf("%w (%s: %v)", err, e.Agent.GetKind(), e.Agent)
	}
	return err
}

// thought reports whether the agent thought words.
func (u *turn) thought(words string) bool {
	return slices.ContainsFunc(u.seen, func(e *supervisorv1.Event) bool {
		return strings.Contains(e.GetAgentThought().GetContent().GetText().GetText(), words)
	})
}

// plan returns the current plan.
func (u *turn) plan() []*supervisorv1.PlanEntry {
	for _, e := range slices.Backward(u.seen) {
		if e.GetPlan() != nil {
			return e.GetPlan().GetEntries()
		}
	}
	return nil
}

// expectNothingStrange expects that a model knew all that it was asked.
func expectNothingStrange(t *testing.T, m *Model) {
	t.Helper()
	if strange := m.Strange(); len(strange) > 0 {
		t.Errorf("the model was asked what it does not know: %q", strange)
	}
}

// resumed waits until a session is open again at an agent that was started anew.
func (r *rig) resumed(s *supervisorv1.Session) {
	r.t.Helper()
	var a *supervisorv1.GetAgentResponse
	var err error
	goesOn := func() bool {
		a, err = r.Agents.GetAgent(r.ctx, &supervisorv1.GetAgentRequest{AgentId: s.GetAgentId()})
		return err == nil && a.GetAgent().GetState() == supervisorv1.AgentState_AGENT_STATE_RUNNING && a.GetAgent().GetRestarts() > 0 &&
			slices.Contains(a.GetAgent().GetSessionIds(), s.GetSessionId())
	}
	for range 4 { // a large program starts slowly on a machine that has much to do
		if testkit.Poll(goesOn) {
			return
		}
	}
	r.t.Fatalf("the session does not go on; the agent is %v (%v)", a, explain(err))
}

// expectStored expects an agent to list a session.
func (r *rig) expectStored(agent *supervisorv1.Agent, s *supervisorv1.Session) {
	r.t.Helper()
	list, err := r.Sessions.ListStoredSessions(r.ctx, &supervisorv1.ListStoredSessionsRequest{AgentId: agent.GetId(), Cwd: r.work})
	if err != nil {
		r.t.Fatal(explain(err))
	}
	if !slices.ContainsFunc(list.GetSessions(), func(x *supervisorv1.StoredSession) bool { return x.GetSessionId() == s.GetSessionId() }) {
		r.t.Errorf("the agent lists %v, and not %s", list.GetSessions(), s.GetSessionId())
	}
}

// expectLoaded closes a session and loads it again, and expects words in the history that the agent sends.
func (r *rig) expectLoaded(agent *supervisorv1.Agent, s *supervisorv1.Session, words string) {
	r.t.Helper()
	if _, err := r.Sessions.CloseSession(r.ctx, &supervisorv1.CloseSessionRequest{SessionId: s.GetSessionId()}); err != nil {
		r.t.Fatal(explain(err))
	}
	if _, err := r.Sessions.LoadSession(r.ctx, &supervisorv1.LoadSessionRequest{AgentId: agent.GetId(), SessionId: s.GetSessionId(), Cwd: r.work}); err != nil {
		r.t.Fatal(explain(err))
	}
	events, err := r.WatchSession(r.ctx, &supervisorv1.WatchSessionRequest{SessionId: s.GetSessionId()})
	if err != nil {
		r.t.Fatal(explain(err))
	}
	history := ""
	for e, err := range events {
		if err != nil {
			r.t.Fatalf("the history ended with %v; the agent had printed %q", explain(err), history)
		}
		if e.GetHistory() {
			history += e.GetAgentMessage().GetContent().GetText().GetText()
		}
		if strings.Contains(history, words) {
			return
		}
	}
	r.t.Fatalf("the history ended; the agent had printed %q", history)
}

// option is the value of a session's option.
func option(s *supervisorv1.Session, id string) string {
	for _, o := range s.GetOptions() {
		if o.GetId() == id {
			return o.GetValue()
		}
	}
	return ""
}

// toolName is the agents' name of the tool of openWithTool.
const toolName = "mcp__rig__say"

// tool is an MCP server with one tool, "say", which writes its argument into a file.
const tool = `
const lines = require("readline").createInterface({input: process.stdin})
const answer = (m, result) => process.stdout.write(JSON.stringify({jsonrpc: "2.0", id: m.id, result}) + "\n")
lines.on("line", (line) => {
  const m = JSON.parse(line)
  if (m.method === "initialize") {
    answer(m, {protocolVersion: m.params.protocolVersion, capabilities: {tools: {}}, serverInfo: {name: "rig", version: "1"}})
  } else if (m.method === "tools/list") {
    answer(m, {tools: [{name: "say", description: "says words", inputSchema: {type: "object", properties: {words: {type: "string"}}}}]})
  } else if (m.method === "tools/call") {
    require("fs").appendFileSync(process.argv[2], JSON.stringify(m.params.arguments) + "\n")
    answer(m, {content: [{type: "text", text: "said"}]})
  } else if (m.id !== undefined) {
    answer(m, {})
  }
})
`

// openWithTool opens a session in the workspace with an MCP server, whose tool writes into tool.log in the home.
func (r *rig) openWithTool(agent *supervisorv1.Agent) *supervisorv1.Session {
	r.t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		r.t.Skip("there is no Node.js, which MCP's server needs")
	}
	stdio := &supervisorv1.McpStdio{Command: node, Args: []string{r.file("../tool.js", tool), filepath.Join(r.home, "tool.log")}}
	resp, err := r.Sessions.NewSession(r.ctx, &supervisorv1.NewSessionRequest{AgentId: agent.GetId(), Cwd: r.work, McpServers: []*supervisorv1.McpServer{
		{Name: "rig", Transport: &supervisorv1.McpServer_Stdio{Stdio: stdio}},
	}})
	if err != nil {
		r.t.Fatalf("open a session with %s: %v", agent.GetId(), explain(err))
	}
	return resp.GetSession()
}
