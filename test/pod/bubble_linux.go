package pod

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
)

// bubble is a command under bubblewrap.
type bubble struct {
	cmd  *exec.Cmd
	over chan struct{} // closed when it has ended
}

// bubble starts a command under bubblewrap, and returns the process id of what runs inside.
func (p *Pod) bubble(before, args, command []string, log io.Writer) (*bubble, int) {
	p.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Close()
	line := slices.Concat(before, []string{"bwrap", "--info-fd", "3"}, args, []string{"--"}, command)
	b := &bubble{cmd: exec.Command(line[0], line[1:]...), over: make(chan struct{})}
	b.cmd.ExtraFiles, b.cmd.Stdout, b.cmd.Stderr = []*os.File{w}, log, log
	started := make(chan error)
	go b.run(started)
	err = <-started
	_ = w.Close()
	if err != nil {
		p.t.Fatalf("start a container: %v", err)
	}
	var info struct {
		PID int `json:"child-pid"`
	}
	if err := json.NewDecoder(r).Decode(&info); err != nil {
		<-b.over
		p.t.Fatalf("start a container: bubblewrap ended without saying its process id: %v\n%s\n%s", err, b.cmd.ProcessState, log)
	}
	return b, info.PID
}

// run starts the command and waits for its end, on a thread that stays as long: with --die-with-parent, bubblewrap dies
// with the thread that started it, and a thread ends when a goroutine that is bound to it does (see inNetwork).
func (b *bubble) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(b.over)
	err := b.cmd.Start()
	started <- err
	if err == nil {
		_ = b.cmd.Wait()
	}
}

// inPod is how a command begins that runs in the Pod's network.
func (p *Pod) inPod() []string {
	return []string{"nsenter", "--target", strconv.Itoa(p.pausePID), "--net", "--ipc", "--uts", "--"}
}
