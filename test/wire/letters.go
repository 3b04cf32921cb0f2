package wire

import (
	"io"
	"os/exec"
	"regexp"

	"github.com/creack/pty"
)

var asksForLetters = regexp.MustCompile(`Type ([a-z]+) to sign`)

// TypeLetters runs an "acphost console CODE" on its own terminal, and types the result of answer for the letters that
// it asks for. It returns the command's output and how it ended.
func TypeLetters(cmd *exec.Cmd, answer func(letters string) string) (shown string, err error) {
	tty, err := pty.Start(cmd)
	if err != nil {
		return "", err
	}
	defer tty.Close()
	var all []byte
	answered := false
	for buffer := make([]byte, 4096); ; {
		n, err := tty.Read(buffer)
		all = append(all, buffer[:n]...)
		if m := asksForLetters.FindSubmatch(all); m != nil && !answered {
			answered = true
			_, _ = io.WriteString(tty, answer(string(m[1]))+"\n") // the end of a command is reported below
		}
		if err != nil {
			break // the terminal has closed
		}
	}
	return string(all), cmd.Wait()
}
