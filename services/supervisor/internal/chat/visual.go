package chat

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"

	"github.com/acphost/acphost/internal/regular"
	"github.com/acphost/acphost/services/supervisor/internal/jobcontrol"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// The person's own editor ($VISUAL, $EDITOR) for what is in the input. It has the terminal, is outside of the policy, and most
// editors run commands: it is opened after a code, as !COMMAND is run. What it leaves comes back into the input and is not sent.

// defaultEditor is the editor where the environment names none.
const defaultEditor = "vi"

// draftName is the file's name, from which editors take the language.
const draftName = "message.md"

// loan is the terminal while it may be the editor's.
type loan struct {
	ctx      context.Context // the chat's: the editor ends with it
	borrower jobcontrol.Borrower
	lent     atomic.Bool
	lost     chan error // the terminal is another job's for good
}

func newLoan(ctx context.Context) *loan { return &loan{ctx: ctx, lost: make(chan error, 1)} }

// visual is an editor that is opened.
type visual struct {
	m     *model
	words []string // the command

	text string // what was in the input
	end  visualMsg
}

// visualMsg is what an editor has left.
type visualMsg struct {
	text    string
	ok      bool   // the text counts
	problem string // what the person should know
	harmed  bool   // the editor may have left the screen in disorder
}

// editorOf is the person's editor, in words: a command with its arguments, or what a shell makes of one that is more than words.
func editorOf(env []string) []string {
	line := cmp.Or(strings.TrimSpace(valueOf(env, "VISUAL")), strings.TrimSpace(valueOf(env, "EDITOR")), defaultEditor)
	if strings.ContainsAny(line, "|&;<>()$`\\\"'*?[#~=%{\n") {
		return []string{"/bin/sh", "-c", line + ` "$@"`, "sh"}
	}
	return strings.Fields(line)
}

// editorName is the editor for people.
func editorName(env []string) string {
	words := editorOf(env)
	if len(words) == 4 && words[0] == "/bin/sh" {
		return "your editor"
	}
	return safetext.Line(filepath.Base(words[0]))
}

// editVisually opens the input in the person's editor, once that is confirmed.
func (m *model) editVisually() {
	switch {
	case m.loan == nil:
		m.warn("no editor can be opened here")
		return
	case m.own != nil:
		m.warn("a command of yours runs; ctrl+c ends it, and then the editor can be opened")
		return
	}
	m.confirmFirst("open this in "+editorName(m.o.Env)+", outside of the policy", func() tea.Cmd {
		v := &visual{m: m, words: editorOf(m.o.Env)}
		m.menu, m.away = menu{}, true
		return tea.Exec(v, func(err error) tea.Msg {
			if err != nil {
				return visualMsg{problem: "give the terminal to the editor: " + err.Error()}
			}
			return v.end
		})
	})
}

func (msg visualMsg) tell(m *model) tea.Cmd {
	m.away = false
	m.terminalSpoke() // the last keys were the editor's
	if msg.ok {
		m.edit.Set(msg.text)
	}
	if msg.problem != "" {
		m.warn(msg.problem)
	}
	if msg.harmed {
		return tea.ClearScreen
	}
	return nil
}

// Run implements tea.ExecCommand. Bubble Tea calls it from the goroutine that calls the model: nothing is drawn, and what the
// supervisor says waits.
func (v *visual) Run() error {
	l := v.m.loan
	l.lent.Store(true)
	defer l.lent.Store(false)
	v.text = v.m.edit.Text()
	var err error
	if v.end, err = v.edit(l); err != nil {
		l.lost <- err
		select {} // or the program would take the terminal again, and it is another job's
	}
	return nil
}

// SetStdin implements tea.ExecCommand.
func (v *visual) SetStdin(io.Reader) {}

// SetStdout implements tea.ExecCommand.
func (v *visual) SetStdout(io.Writer) {}

// SetStderr implements tea.ExecCommand.
func (v *visual) SetStderr(io.Writer) {}

// edit runs the editor. An error is a terminal that was lost.
func (v *visual) edit(l *loan) (visualMsg, error) {
	o := v.m.o
	file, cmd, problem := v.prepare(o)
	if problem != "" {
		return visualMsg{problem: problem}, nil
	}
	before, _ := term.GetState(o.Output.Fd())
	ended, err := l.borrower.Run(l.ctx, o.Input, cmd, o.Stop)
	if errors.Is(err, jobcontrol.ErrBackground) {
		_ = os.RemoveAll(filepath.Dir(file)) // the chat ends, and can tell nobody of it
		return visualMsg{}, err
	}
	harmed := err == nil && ended.Signal != ""
	if before != nil {
		_ = term.Restore(o.Output.Fd(), before)
	}
	if harmed {
		_, _ = io.WriteString(o.Output, undo)
	}
	msg := v.left(file, ended, err)
	msg.harmed = harmed
	return msg, nil
}

// prepare writes the file and finds the editor; problem: why not.
func (v *visual) prepare(o Options) (file string, cmd *exec.Cmd, problem string) {
	file, err := writeDraft(o.StateDir, v.text)
	if err != nil {
		return "", nil, "write the input to a file for the editor: " + err.Error()
	}
	if cmd, err = v.command(o, file); err != nil {
		_ = os.RemoveAll(filepath.Dir(file))
		return "", nil, err.Error()
	}
	return file, cmd, ""
}

// undo ends what an editor has a terminal do that was killed: the other screen, the mouse, pasting with marks, its keypads,
// an invisible cursor, colours.
const undo = "\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[?1l\x1b>\x1b[<u\x1b[>4m\x1b[?25h\x1b[0m"

// command is the editor with a file.
func (v *visual) command(o Options, file string) (*exec.Cmd, error) {
	name, err := lookPath(v.words[0], o.Env)
	if err != nil {
		return nil, fmt.Errorf("start the editor %s: %w; VISUAL or EDITOR names yours", v.words[0], err)
	}
	cmd := exec.Command(name, append(v.words[1:len(v.words):len(v.words)], file)...)
	cmd.Args[0] = v.words[0]
	cmd.Env, cmd.Dir = o.Env, o.Cwd
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.Input, o.Output, o.Output
	return cmd, nil
}

// lookPath finds a program by the person's PATH, which need not be this process's.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return exec.LookPath(name)
	}
	for _, dir := range filepath.SplitList(valueOf(env, "PATH")) {
		if !filepath.IsAbs(dir) { // an agent writes in the working directory
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no folder of PATH has it")
}

// left is what the editor has left in the file, which is removed unless something would be lost.
func (v *visual) left(file string, ended jobcontrol.Ended, err error) visualMsg {
	remove := func() { _ = os.RemoveAll(filepath.Dir(file)) }
	if err != nil {
		remove()
		return visualMsg{problem: "run the editor: " + err.Error()}
	}
	if ended.Code > 0 {
		remove()
		return visualMsg{problem: fmt.Sprintf("the editor ended with exit status %d; the input is as it was", ended.Code)}
	}
	text, err := readDraft(file)
	switch {
	case ended.Signal != "" && (err == nil && text == v.text || errors.Is(err, fs.ErrNotExist)):
		remove()
		return visualMsg{problem: "the editor was ended by " + ended.Signal + "; the input is as it was"}
	case ended.Signal != "":
		return visualMsg{problem: "the editor was ended by " + ended.Signal + "; the input is as it was, and what the editor wrote is kept in " + file}
	case errors.Is(err, fs.ErrNotExist):
		remove()
		return visualMsg{problem: "the editor has left no file; the input is as it was"}
	case err != nil:
		return visualMsg{problem: "take back what the editor wrote: " + err.Error() + "; the input is as it was, and the file is kept: " + file}
	}
	remove()
	return visualMsg{text: text, ok: true}
}

// writeDraft writes a text to a new file that only the person can read, in a folder of its own: editors put other files beside
// it. The state folder is out of the reach of agents that are confined; without one it is the folder for temporary files.
func writeDraft(stateDir, text string) (string, error) {
	if stateDir != "" {
		if err := os.MkdirAll(stateDir, 0o700); err != nil {
			return "", err
		}
	}
	dir, err := os.MkdirTemp(stateDir, "chat-input-")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, draftName)
	if text != "" {
		text += "\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		_ = os.RemoveAll(dir)
		return "", err
	}
	return file, nil
}

// readDraft reads what an editor left. A link is refused: where the folder is in an agent's reach, it would lead to a file that
// the agent may not read, and the person would send that.
func readDraft(file string) (string, error) {
	is, err := os.Lstat(file)
	if err != nil {
		return "", err
	}
	if !is.Mode().IsRegular() {
		return "", errors.New("it is no file any more")
	}
	data, err := regular.ReadIf(file, maxInput+len("\n"), func(now fs.FileInfo) error {
		if !os.SameFile(is, now) {
			return errors.New("it is another file now")
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		return "", errors.New("it is not UTF-8")
	}
	text := strings.TrimRight(typed(string(data)), "\n")
	if len(text) > maxInput {
		return "", fmt.Errorf("it is longer than %d bytes", maxInput)
	}
	return text, nil
}
