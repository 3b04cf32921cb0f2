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
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/tui/jobcontrol"
)

// The user's own editor ($VISUAL, $EDITOR) for the input. It gets the terminal, no policy decides about it, and most
// editors can run commands: it is opened after a confirmation by a code, as !COMMAND. Its text returns to the input and
// is not sent.

// defaultEditor is the editor if the environment has none.
const defaultEditor = "vi"

// draftName is the name of the file. Editors use its extension to detect the language.
const draftName = "message.md"

// loan is the terminal while an editor may use it.
type loan struct {
	ctx      context.Context // the chat's context: the editor ends with it
	borrower jobcontrol.Runner
	lent     atomic.Bool
	lost     chan error // the terminal is lost to another job
}

func newLoan(ctx context.Context) *loan { return &loan{ctx: ctx, lost: make(chan error, 1)} }

// visual is an open editor.
type visual struct {
	m     *model
	words []string // the command of the editor

	text string // the text of the input
	end  visualMsg
}

// visualMsg is the result of an editor.
type visualMsg struct {
	text    string
	ok      bool   // the text is valid
	problem string // a message for the user
	harmed  bool   // the editor may have left the screen in disorder
}

// editorOf returns the command of the user's editor in words. If it is more than plain words, it is a command for a
// shell.
func editorOf(env []string) []string {
	line := cmp.Or(strings.TrimSpace(valueOf(env, "VISUAL")), strings.TrimSpace(valueOf(env, "EDITOR")), defaultEditor)
	if strings.ContainsAny(line, "|&;<>()$`\\\"'*?[#~=%{\n") {
		return []string{"/bin/sh", "-c", line + ` "$@"`, "sh"}
	}
	return strings.Fields(line)
}

// editorName returns the name of the editor for display.
func editorName(env []string) string {
	words := editorOf(env)
	if len(words) == 4 && words[0] == "/bin/sh" {
		return "your editor"
	}
	return safetext.Line(filepath.Base(words[0]))
}

// editVisually opens the input in the user's editor after a confirmation.
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

func (msg visualMsg) apply(m *model) tea.Cmd {
	m.away = false
	m.ignoreResponse() // the last keys were for the editor
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

// Run implements tea.ExecCommand. Bubble Tea calls it from the goroutine of the model: the screen is not drawn, and
// messages of the supervisor wait.
func (v *visual) Run() error {
	l := v.m.loan
	l.lent.Store(true)
	defer l.lent.Store(false)
	v.text = v.m.edit.Text()
	var err error
	if v.end, err = v.edit(l); err != nil {
		l.lost <- err
		select {} // otherwise the program would acquire the terminal, which belongs to another job
	}
	return nil
}

// SetStdin implements tea.ExecCommand.
func (v *visual) SetStdin(io.Reader) {}

// SetStdout implements tea.ExecCommand.
func (v *visual) SetStdout(io.Writer) {}

// SetStderr implements tea.ExecCommand.
func (v *visual) SetStderr(io.Writer) {}

// edit runs the editor. It returns an error if the terminal was lost.
func (v *visual) edit(l *loan) (visualMsg, error) {
	o := v.m.o
	file, cmd, problem := v.prepare(o)
	if problem != "" {
		return visualMsg{problem: problem}, nil
	}
	before, _ := term.GetState(o.Output.Fd())
	ended, err := l.borrower.Run(l.ctx, o.Input, cmd, o.Stop)
	if errors.Is(err, jobcontrol.ErrBackground) {
		_ = os.RemoveAll(filepath.Dir(file)) // the chat ends, and cannot show an error
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

// prepare writes the file and finds the editor. problem is the reason if that fails.
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

// undo resets the modes of a terminal after an editor was killed: the alternate screen, the mouse, bracketed paste,
// keypads, an invisible cursor, colours.
const undo = "\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[?1l\x1b>\x1b[<u\x1b[>4m\x1b[?25h\x1b[0m"

// command returns the command of the editor with a file.
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

// lookPath finds a program in the PATH of env, which may differ from this process's.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return exec.LookPath(name)
	}
	for _, dir := range filepath.SplitList(valueOf(env, "PATH")) {
		if !filepath.IsAbs(dir) { // agents write in the working directory
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no folder of PATH has it")
}

// left reads the file after the editor has ended. It removes the file unless text would be lost.
func (v *visual) left(file string, ended jobcontrol.Result, err error) visualMsg {
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

// writeDraft writes a text to a new file that only the user can read, in a new folder, because editors create other
// files beside it. Confined agents cannot access the state folder. Without one, the file is in the folder for temporary
// files.
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

// readDraft reads the file after editing. It rejects a symbolic link: if an agent can write to the folder, a link could
// lead to a file that the agent must not read, and the user would send its content.
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
