//go:build linux || darwin

package prompt

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/muesli/cancelreader"
	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/fd"
	"github.com/acphost/acphost/services/supervisor/internal/tui/jobcontrol"
)

// terminalKeys is a keyboard on a terminal.
type terminalKeys struct {
	file   *os.File
	before unix.Termios
	reader cancelreader.CancelReader
	keys   chan key
	closed chan struct{}
	once   sync.Once
	wg     sync.WaitGroup
}

// openKeyboard sets a terminal to send keys one by one.
func openKeyboard(file *os.File) (keyboard, error) {
	reader, err := cancelreader.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	t := &terminalKeys{file: file, reader: reader, keys: make(chan key), closed: make(chan struct{})}
	if err := fd.On(file, func(fd int) error {
		before, err := unix.IoctlGetTermios(fd, getAttributes)
		if err != nil {
			return err
		}
		t.before = *before
		raw := *before
		// Output is unchanged, and Enter is a line feed. The keys for signals are unchanged, too, for the whole job:
		// the owner of the keyboard catches the signals, and closes it.
		raw.Lflag &^= unix.ICANON | unix.ECHO | unix.IEXTEN
		raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
		return unix.IoctlSetTermios(fd, setAttributesFlush, &raw)
	}); err != nil {
		_ = reader.Close()
		return nil, fmt.Errorf("set the terminal to keys: %w", err)
	}
	t.wg.Go(t.read)
	return t, nil
}

func (t *terminalKeys) Keys() <-chan key { return t.keys }

func (t *terminalKeys) read() {
	var parser keyParser
	buf := make([]byte, 256)
	for {
		n, err := t.reader.Read(buf)
		for _, k := range parser.parse(buf[:n], time.Now()) {
			select {
			case t.keys <- k:
			case <-t.closed:
				return
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, cancelreader.ErrCanceled):
			return
		default:
			select {
			case <-t.closed:
			default:
				close(t.keys)
			}
			return
		}
	}
}

func (t *terminalKeys) Close() {
	t.once.Do(func() {
		close(t.closed)
		t.reader.Cancel()
		t.wg.Wait()
		_ = t.reader.Close()
		if !jobcontrol.Foreground(t.file) {
			return // another job has changed the settings
		}
		_ = fd.On(t.file, func(fd int) error {
			// Set them at once: a terminal that accepts no output would block otherwise.
			err := unix.IoctlSetTermios(fd, setAttributes, &t.before)
			return errors.Join(err, flushInput(fd))
		})
	})
}
