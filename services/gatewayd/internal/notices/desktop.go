package notices

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// endTimeout is how long a killed program may take to close its output.
const endTimeout = time.Second

// desktop is a Channel.
type desktop struct {
	program string
	args    func(title, body string) []string
}

// NewDesktop returns the Channel that shows notices on the desktop of gatewayd's user: with notify-send on Linux, with
// osascript on macOS.
func NewDesktop() (Channel, error) { return newDesktop(runtime.GOOS) }

func newDesktop(system string) (Channel, error) {
	d, from := &desktop{"notify-send", linux}, `it is in Debian's libnotify-bin and Fedora's libnotify`
	switch system {
	case "linux":
	case "darwin":
		d, from = &desktop{"osascript", darwin}, "it is part of macOS"
	default:
		return nil, errors.New("there are notices on the desktop on Linux and macOS alone: give --notices-ntfy")
	}
	path, err := exec.LookPath(d.program)
	if err != nil {
		return nil, fmt.Errorf("look for %s, which shows notices; %s: %w", d.program, from, err)
	}
	d.program = path
	return d, nil
}

// markup escapes markup in a notice's text, so that an agent cannot add links or images.
var markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// linux returns the arguments of notify-send. Arguments after "--" are never options.
func linux(title, body string) []string {
	return []string{"--app-name=acphost", "--", title, markup.Replace(body)}
}

// darwin returns the arguments of osascript. The script is constant: the texts are data. Arguments after the title are
// never options, since the title is not an option.
func darwin(title, body string) []string {
	return []string{"-e", "on run argv", "-e", "display notification (item 2 of argv) with title (item 1 of argv)", "-e", "end run", title, body}
}

func (d *desktop) String() string { return "the desktop" }

// Send implements Channel.
func (d *desktop) Send(ctx context.Context, n Notice) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, d.program, d.args(n.Title, n.body()+"\n"+n.Link)...)
	cmd.WaitDelay = endTimeout
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %q (gatewayd has to run in the session of the desktop)", d.program, err, singleLine(string(out), maxDetails))
	}
	return nil
}
