package prompt

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/hosting"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// recordedTurn is a turn with every kind of event, its end last.
func recordedTurn(t *testing.T) []*supervisorv1.Event {
	t.Helper()
	data, err := os.ReadFile("../../tui/render/testdata/turn.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var list []*supervisorv1.Event
	var end *supervisorv1.Event
	for line := range strings.Lines(string(data)) {
		ev := &supervisorv1.Event{}
		if err := protojson.Unmarshal([]byte(line), ev); err != nil {
			t.Fatal(err)
		}
		switch {
		case ev.GetTurnEnded() == nil:
			list = append(list, ev)
		case end == nil:
			end = ev
		}
	}
	return append(list, end)
}

func TestPrompt_PrintsRecordedTurn(t *testing.T) {
	for name, c := range map[string]struct {
		look   render.Options
		prints printing
		status int
	}{
		"plain.txt":  {look: render.Options{Cwd: "/work/app", NoUsage: true}},
		"color.ansi": {look: render.Options{Cwd: "/work/app", Color: true, Markdown: true, Width: 72}},
		"json.jsonl": {prints: printJSON},
		"final.txt":  {look: render.Options{Cwd: "/work/app", NoUsage: true}, prints: printFinal, status: command.StatusFailed}, // the turn has a gap
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, false)
			r.look, r.prints = c.look, cmp.Or(c.prints, printText)
			r.fake.Turn = func(_ context.Context, send func(*supervisorv1.Event)) error {
				for _, ev := range recordedTurn(t) {
					send(ev)
				}
				return nil
			}
			r.begin(t)
			if s := r.wait(t); s != c.status {
				t.Errorf("status %d", s)
			}
			testkit.Golden(t, "prompt_"+name, r.out.String())
			testkit.Golden(t, "prompt_"+name+".stderr", r.errs.String())
			if c.prints != printJSON {
				return
			}
			lines := strings.Split(strings.TrimSpace(r.out.String()), "\n")
			for i, line := range lines {
				ev := &supervisorv1.Event{}
				if err := protojson.Unmarshal([]byte(line), ev); err != nil {
					t.Errorf("%s: %v", line, err)
				}
				if want := recordedTurn(t)[i]; !proto.Equal(ev, want) {
					t.Errorf("got %v, want %v", ev, want)
				}
			}
		})
	}
}

func TestPrompt_ExitStatus(t *testing.T) {
	for name, c := range map[string]struct {
		end    *supervisorv1.Event
		want   int
		stderr string
	}{
		"end_turn":          {turnEnded("end_turn"), 0, ""},
		"refusal":           {turnEnded("refusal"), 3, ""},
		"max_tokens":        {turnEnded("max_tokens"), 4, ""},
		"max_turn_requests": {turnEnded("max_turn_requests"), 5, ""},
		"cancelled":         {turnEnded("cancelled"), 6, ""},
		"something new":     {turnEnded("bored"), 1, ""},
		"crashed": {turnFailed(supervisorv1.ErrorKind_ERROR_KIND_CRASHED, "the agent ended"), 1,
			"acphost: the agent ended\n    last words\\u{1b}[2J\n"},
		"login": {turnFailed(supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED, "log in"), 7,
			"acphost: log in\n    last words\\u{1b}[2J\nacphost: log in with the agent's own command, or with \"acphost agents login\" where the agent has a name, and try again\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, false)
			r.fake.Turn = func(_ context.Context, send func(*supervisorv1.Event)) error { send(c.end); return nil }
			r.begin(t)
			if s := r.wait(t); s != c.want {
				t.Errorf("status %d, want %d", s, c.want)
			}
			if got := r.errs.String(); got != c.stderr {
				t.Errorf("stderr %q, want %q", got, c.stderr)
			}
		})
	}
}

func TestPrompt_FailedTurnPrintsResumeCommand(t *testing.T) {
	r := newRun(t, false)
	r.fake.Can = &supervisorv1.AgentCapabilities{ResumeSession: true}
	r.fake.Turn = func(_ context.Context, send func(*supervisorv1.Event)) error {
		send(turnFailed(supervisorv1.ErrorKind_ERROR_KIND_CRASHED, "the agent ended"))
		return nil
	}
	r.begin(t)
	if s := r.wait(t); s != 1 || !strings.HasSuffix(r.errs.String(), "\nsession s1\n") {
		t.Errorf("status %d, stderr %q", s, r.errs.String())
	}
}

func TestPrompt_StartErrors(t *testing.T) {
	agentError := func(code codes.Code, kind supervisorv1.ErrorKind, message string) error {
		st, err := status.New(code, message).WithDetails(&supervisorv1.AgentError{Kind: kind, Message: message})
		if err != nil {
			t.Fatal(err)
		}
		return st.Err()
	}
	for name, c := range map[string]struct {
		prepare func(*aRun)
		want    int
		stderr  string
	}{
		"the supervisor does not start": {
			func(r *aRun) {
				r.start = func(context.Context) (hosting.Supervisor, error) { return nil, errors.New("no room") }
			}, 1, "acphost: no room\n",
		},
		"the command is not there": {
			func(r *aRun) {
				r.fake.StartErr = agentError(codes.NotFound, supervisorv1.ErrorKind_ERROR_KIND_COMMAND_NOT_FOUND, "no such command")
			}, 127, "acphost: no such command\n",
		},
		"the command cannot be executed": {
			func(r *aRun) {
				r.fake.StartErr = agentError(codes.FailedPrecondition, supervisorv1.ErrorKind_ERROR_KIND_SPAWN_FAILED, "not executable")
			}, 126, "acphost: not executable\n",
		},
		"a login is required": {
			func(r *aRun) {
				r.agent.Preset = "claude"
				r.fake.OpenErr = agentError(codes.FailedPrecondition, supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED, "log in first")
			}, 7, "acphost: log in first\nacphost: run \"acphost agents login claude\" and try again\n",
		},
		"the mode is not there": {
			func(r *aRun) { r.mode = "none" }, 1, "acphost: --mode: there is no mode \"none\"; there are ask and code\n",
		},
		"sessions cannot be gone on with": {
			func(r *aRun) { r.session = "old" }, 1, "acphost: agent \"demo\" cannot go on with a session that it has stored: leave --session out\n",
		},
		"the agent does not know the session": {
			func(r *aRun) {
				r.session, r.fake.Can = "old", &supervisorv1.AgentCapabilities{LoadSession: true}
				r.fake.OpenErr = agentError(codes.NotFound, supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND, "never heard of it")
			}, 1, "acphost: never heard of it\nacphost: see \"acphost sessions list\" for its id, or leave --session and --continue out to begin a new one\n",
		},
		"images are not taken": {
			func(r *aRun) { r.attachments = []*attachment{{File: &hosting.File{Path: "/a.png"}, image: true}} }, 1,
			"acphost: the agent does not take images: leave --image out, or name the file in the text\n",
		},
		"the turn breaks off": {
			func(r *aRun) {
				r.fake.Turn = func(_ context.Context, send func(*supervisorv1.Event)) error {
					send(agentMessage("half a"))
					return nil
				}
			}, 1, "acphost: the turn broke off without an end\n",
		},
		"the stream fails": {
			func(r *aRun) {
				r.fake.Turn = func(context.Context, func(*supervisorv1.Event)) error {
					return status.Error(codes.ResourceExhausted, "not read for 30 s")
				}
			}, 1, "acphost: not read for 30 s\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, false)
			c.prepare(r)
			r.begin(t)
			if s := r.wait(t); s != c.want {
				t.Errorf("status %d, want %d", s, c.want)
			}
			if got := r.errs.String(); got != c.stderr {
				t.Errorf("stderr %q, want %q", got, c.stderr)
			}
		})
	}
}

func TestPrompt_ResumesOrLoadsSession(t *testing.T) {
	for name, c := range map[string]struct {
		can     *supervisorv1.AgentCapabilities
		session string
		want    string
	}{
		"new":    {&supervisorv1.AgentCapabilities{ResumeSession: true}, "", "new demo-1 /work"},
		"resume": {&supervisorv1.AgentCapabilities{ResumeSession: true, LoadSession: true}, "old", "resume old"},
		"load":   {&supervisorv1.AgentCapabilities{LoadSession: true}, "old", "load old"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, false)
			r.fake.Can, r.session, r.mode, r.model = c.can, c.session, "code", "big"
			r.begin(t)
			if s := r.wait(t); s != 0 {
				t.Errorf("status %d: %s", s, r.errs.String())
			}
			want := []string{"start", c.want, "mode code", "model big", "prompt s1"}
			if !slices.Equal(r.fake.Calls, want) {
				t.Errorf("calls %q, want %q", r.fake.Calls, want)
			}
			if !r.fake.Prompted.GetCancelOnDisconnect() {
				t.Error("the turn would go on without its caller")
			}
			if got := r.errs.String(); got != "session s1\n" {
				t.Errorf("stderr %q", got)
			}
		})
	}
}

func TestAttachments_EmbeddedOrLinked(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text, blob, large := write("a b.txt", "text ü\n"), write("b.bin", "\x00\x01"), write("large.txt", strings.Repeat("x", maxFile+1))
	image := write("p.png", "\x89PNG\r\n\x1a\n")
	list, err := readAttachments([]string{text, blob, large}, []string{image})
	if err != nil {
		t.Fatal(err)
	}
	blocks, notes, err := promptBlocks("Look.", list, &supervisorv1.AgentCapabilities{PromptEmbeddedContext: true, PromptImage: true})
	if err != nil || len(blocks) != 5 || len(notes) != 1 {
		t.Fatalf("got %d blocks, notes %q, %v", len(blocks), notes, err)
	}
	if got := blocks[0].GetText().GetText(); got != "Look." {
		t.Errorf("text %q", got)
	}
	if got := blocks[1].GetResource(); got.GetText() != "text ü\n" || got.GetMimeType() != "text/plain" || got.GetUri() != "file://"+strings.ReplaceAll(text, " ", "%20") {
		t.Errorf("embedded %v", got)
	}
	if got := blocks[2].GetResource(); string(got.GetBlob()) != "\x00\x01" || got.GetMimeType() != "application/octet-stream" {
		t.Errorf("embedded %v", got)
	}
	if got := blocks[3].GetResourceLink(); got.GetName() != "large.txt" || got.GetSize() != maxFile+1 || !strings.Contains(notes[0], "over 1 MiB") {
		t.Errorf("linked %v, note %q", got, notes)
	}
	if got := blocks[4].GetImage(); got.GetMimeType() != "image/png" || len(got.GetData()) != 8 {
		t.Errorf("image %v", got)
	}
	blocks, notes, err = promptBlocks("Look.", list[:1], &supervisorv1.AgentCapabilities{})
	if err != nil || blocks[1].GetResourceLink().GetMimeType() != "text/plain" || len(notes) != 1 || !strings.Contains(notes[0], "as a link") {
		t.Errorf("got %v, %q, %v", blocks, notes, err)
	}
	for name, c := range map[string]struct{ files, images []string }{
		"no file: name files":     {files: []string{dir}},
		"no such file":            {files: []string{filepath.Join(dir, "none")}},
		"is no image":             {images: []string{text}},
		"over 10 MiB in all":      {files: slices.Repeat([]string{write("mib", strings.Repeat("x", maxFile))}, 11)},
		"has over 5 MiB: make it": {images: []string{write("large.png", "\x89PNG\r\n\x1a\n"+strings.Repeat("x", maxImage))}},
	} {
		if _, err := readAttachments(c.files, c.images); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %q", err, name)
		}
	}
}

func TestAttachments_RejectPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("this file system has no pipes: %v", err)
	}
	if _, err := readAttachments([]string{pipe}, nil); err == nil || !strings.Contains(err.Error(), "is no file") {
		t.Errorf("got %v", err)
	}
}

func TestPrompt_ShowsTerminalOutput(t *testing.T) {
	r := newRun(t, false)
	r.fake.Outputs = map[string][]*supervisorv1.WatchOutputResponse{"t1": {
		{Data: []byte("\x1b[31mFAIL\x1b[0m one\r\n")}, {Data: []byte("two")}, {Ended: true, ExitCode: proto.Uint32(1)},
	}}
	r.fake.Turn = func(_ context.Context, send func(*supervisorv1.Event)) error {
		report := &supervisorv1.ToolCallReport{ToolCallId: "c", Title: proto.String("go test"), Kind: proto.String("execute"), ContentSet: true,
			Content: []*supervisorv1.ToolCallContent{{Item: &supervisorv1.ToolCallContent_TerminalId{TerminalId: "t1"}}}}
		send(&supervisorv1.Event{Event: &supervisorv1.Event_ToolCall{ToolCall: report}})
		send(&supervisorv1.Event{Event: &supervisorv1.Event_ToolCallUpdate{ToolCallUpdate: report}})
		send(turnEnded("refusal"))
		return nil
	}
	r.begin(t)
	if s := r.wait(t); s != 3 {
		t.Errorf("status %d", s)
	}
	want := "○ $ go test\n    │ FAIL one\n    │ two\n    │ exit code 1\nThe agent refuses to go on.\n"
	if got := r.out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := strings.Count(strings.Join(r.fake.Calls, "\n"), "watch output t1"); n != 1 {
		t.Errorf("the terminal was watched %d times", n)
	}
}

func TestPrompt_AsksNothingWithoutTerminal(t *testing.T) {
	r := newRun(t, false)
	r.fake.Turn = func(_ context.Context, send func(*supervisorv1.Event)) error {
		send(agentMessage("May I?"))
		for _, id := range []string{"demo-1/1", "demo-1/2", "demo-1/3"} { // that is printed once
			send(&supervisorv1.Event{Event: &supervisorv1.Event_QuestionAsked{QuestionAsked: mayI(id)}})
		}
		for id, outcome := range map[string]string{"demo-1/1": "expired", "demo-1/2": "allowed", "demo-1/3": "denied"} {
			send(questionAnswered(id, outcome))
		}
		send(turnEnded("end_turn"))
		return nil
	}
	r.begin(t)
	if s := r.wait(t); s != 0 {
		t.Errorf("status %d", s)
	}
	if got := r.errs.String(); got != "acphost: no user was here to answer 2 questions: Edit main.go; Edit main.go\n" {
		t.Errorf("stderr %q", got)
	}
	if !strings.Contains(r.out.String(), "May I?\n\n? The agent asks: Edit main.go\n") {
		t.Errorf("stdout %q", r.out.String())
	}
	if slices.Contains(r.fake.Calls, "watch approvals") || r.fake.Started.GetAttended() {
		t.Error("the prompt counts as attended")
	}
}

func TestPrompt_BrokenPipeCancelsTurn(t *testing.T) {
	r := newRun(t, false)
	left := make(chan struct{})
	r.screen.out = brokenPipe{}
	r.fake.Turn = func(ctx context.Context, send func(*supervisorv1.Event)) error {
		send(agentMessage("a line\n"))
		send(agentMessage("another line\n"))
		<-ctx.Done()
		close(left)
		return ctx.Err()
	}
	r.begin(t)
	if s := r.wait(t); s != 141 {
		t.Errorf("status %d", s)
	}
	<-left
	if r.errs.String() != "" {
		t.Errorf("stderr %q", r.errs.String())
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "stdout", Err: syscall.EPIPE}
}

// newCommand returns the command without a supervisor to start.
func newCommand(call *command.Call) *cobra.Command { return New(call, nil) }

func TestPrompt_UsageErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"prompt"}, "the text is missing"},
		{[]string{"prompt", "a", "b", "--agent", "claude"}, "put it in quotes"},
		{[]string{"prompt", "hello"}, "which agent?"},
		{[]string{"prompt", "hello", "--"}, "which agent?"},
		{[]string{"prompt", "", "--agent", "claude"}, "the text is empty"},
		{[]string{"prompt", "-", "--agent", "claude"}, "the text on standard input is empty"},
		{[]string{"prompt", "\xff", "--agent", "claude"}, "not UTF-8"},
		{[]string{"prompt", "hello", "--cwd", filepath.Join(t.TempDir(), "none"), "--", "demo"}, "--cwd: "},
		{[]string{"prompt", "hello", "--colour", "--", "demo"}, "unknown flag"},
	} {
		status, stdout, stderr := (&commandtest.Call{}).Run(t, newCommand, c.args...)
		if status != command.StatusUsage || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: status %d, stdout %q, stderr %q; want %q", c.args, status, stdout, stderr, c.want)
		}
	}
	status, stdout, _ := (&commandtest.Call{}).Run(t, newCommand, "prompt", "--help")
	for _, want := range []string{"Exit status:", "130", "--image FILE", "requires a login", "turnEnded"} {
		if status != 0 || !strings.Contains(stdout, want) {
			t.Errorf("help does not contain %q", want)
		}
	}
}

func TestCtrlC_QuitsDuringStdin(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	call := &command.Call{Stdin: r, Stdout: os.Stdout, Stderr: os.Stderr, Env: func(string) string { return "" }}
	if s := commandtest.Execute(ctx, call, newCommand, []string{"prompt", "-", "--", "demo"}); s != 130 {
		t.Errorf("status %d", s)
	}
	_ = w.Close() // what was being read ends
	_ = r.Close()
}

func TestLook_DisablesColour(t *testing.T) {
	for name, c := range map[string]struct {
		terminal bool
		env      map[string]string
		want     bool
	}{
		"a terminal":      {true, map[string]string{"TERM": "xterm"}, true},
		"no terminal":     {false, map[string]string{"TERM": "xterm"}, false},
		"NO_COLOR":        {true, map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, false},
		"a dumb terminal": {true, map[string]string{"TERM": "dumb"}, false},
	} {
		call := &command.Call{Stdout: os.Stdout, Env: func(n string) string { return c.env[n] }, Terminal: func(*os.File) bool { return c.terminal }}
		if o := output.RenderOptions(call, "/w", false, true); o.Color != c.want || o.Markdown != c.want {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

func TestPrompt_LastWordIsShownOnPause(t *testing.T) {
	r := newRun(t, false)
	r.look = render.Options{Color: true, Markdown: true, Width: 60}
	begun, shown := make(chan struct{}), make(chan struct{})
	r.fake.Turn = func(_ context.Context, send func(*supervisorv1.Event)) error {
		send(agentMessage("Wait a moment"))
		close(begun)
		<-shown
		send(turnEnded("end_turn"))
		return nil
	}
	r.begin(t)
	<-begun
	for r.out.String() != "Wait a moment" {
		r.post(t.Context(), func() {})
		if r.out.String() == "Wait a moment\n" {
			t.Fatal("the message is over")
		}
	}
	close(shown)
	if s := r.wait(t); s != 0 {
		t.Errorf("status %d", s)
	}
}

func TestPrompt_OpensSessionWithMeta(t *testing.T) {
	const meta = `{"claudeCode":{"options":{"settingSources":["user"]}}}`
	for name, c := range map[string]struct {
		can     *supervisorv1.AgentCapabilities
		session string
	}{
		"new":    {&supervisorv1.AgentCapabilities{}, ""},
		"resume": {&supervisorv1.AgentCapabilities{ResumeSession: true}, "old"},
		"load":   {&supervisorv1.AgentCapabilities{LoadSession: true}, "old"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, false)
			r.fake.Can, r.session, r.meta = c.can, c.session, meta
			r.begin(t)
			if s := r.wait(t); s != 0 {
				t.Errorf("status %d: %s", s, r.errs.String())
			}
			if want := []string{name + " " + meta}; !slices.Equal(r.fake.Metas, want) {
				t.Errorf("opened with %q, want %q", r.fake.Metas, want)
			}
			if got := r.fake.Prompted.GetMeta(); got != "" {
				t.Errorf("the prompt arrived with %s", got)
			}
		})
	}
}

func TestPrompt_ReportsRecordErrors(t *testing.T) {
	r := newRun(t, false)
	unsaid := make(chan string, 4)
	r.notices = unsaid
	unsaid <- "not recorded: a\x1b[2J"
	r.fake.Turn = func(_ context.Context, send func(*supervisorv1.Event)) error {
		send(&supervisorv1.Event{Event: &supervisorv1.Event_TurnEnded{TurnEnded: &supervisorv1.TurnEnded{StopReason: "end_turn"}}})
		return nil
	}
	late := &lateNews{Hosted: r.fake, unsaid: unsaid}
	r.start = func(context.Context) (hosting.Supervisor, error) { return late, nil }
	r.begin(t)
	if got := r.wait(t); got != 0 {
		t.Errorf("the exit status is %d, want 0", got)
	}
	errs := r.errs.String()
	if !strings.Contains(errs, "acphost: not recorded: a") || !strings.HasSuffix(errs, "acphost: not recorded: b\n") || strings.Contains(errs, "\x1b") {
		t.Errorf("standard error is %q", errs)
	}
}

// lateNews is a supervisor that finds out when it is closed.
type lateNews struct {
	*commandtest.Hosted
	unsaid chan<- string
}

func (l *lateNews) Close() {
	l.Hosted.Close()
	l.unsaid <- "not recorded: b"
}

func TestPrompt_PrintsAgentStderrByLine(t *testing.T) {
	r := newRun(t, true)
	var words io.Writer
	r.start = func(ctx context.Context) (hosting.Supervisor, error) {
		words = &agentStderr{p: r.promptRun, ctx: ctx}
		return r.fake, nil
	}
	long := strings.Repeat("x", 3*maxRest)
	r.fake.Turn = func(_ context.Context, send func(*supervisorv1.Event)) error {
		for _, piece := range []string{"rea", "dy\n\nacphost: \x1b[6n\u202egone\nlong ", long, long + "\n", "not ended"} {
			if n, err := io.WriteString(words, piece); n != len(piece) || err != nil {
				t.Errorf("took %d of %d bytes: %v", n, len(piece), err)
			}
		}
		r.ask(send, mayI("demo-1/7"))
		<-r.fake.Answered
		send(turnEnded("end_turn"))
		return nil
	}
	r.begin(t)
	k := r.board(t)
	if _, err := io.WriteString(words, " yet\n"); err != nil {
		t.Error(err)
	}
	k.press("akk")
	if s := r.wait(t); s != 0 {
		t.Errorf("status %d", s)
	}
	lines := strings.Split(r.errs.String(), "\n")
	if len(lines) != 5 || lines[0] != "agent: ready" || lines[1] != `agent: acphost: \u{1b}[6n\u{202e}gone` ||
		!strings.HasPrefix(lines[2], "agent: long xxx") || !strings.HasSuffix(lines[2], "x…") || lines[3] != "agent: not ended yet" {
		t.Errorf("standard error is %q", lines)
	}
	if out := r.out.String(); strings.Count(out, "\r\x1b[K") < 2 {
		t.Errorf("the question is on the printed line: %q", out)
	}
	if _, err := io.WriteString(words, "too late\n"); err == nil {
		t.Error("words are taken when the prompt is over")
	}
}
