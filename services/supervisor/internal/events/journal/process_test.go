package journal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

// childRole is the variable that selects what the test binary does with the folder in its first argument.
const childRole = "ACPHOST_JOURNAL_TEST_CHILD"

// child is another supervisor. It returns the exit status.
func child(role string) int {
	var err error
	switch role {
	case "write":
		err = writeAsChild(os.Args[1], os.Args[2])
	case "forever":
		err = writeForever(os.Args[1])
	case "fill":
		err = fillAsChild(os.Args[1])
	default:
		err = fmt.Errorf("there is no role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func asChild(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(testkit.Self(t), args...)
	cmd.Env = append(os.Environ(), childRole+"="+role)
	return cmd
}

const childFrames = 2000

func writeAsChild(dir, name string) error {
	j, err := Open(Options{Dir: dir, Agent: name, Content: true, MaxQueued: 256 << 20})
	if err != nil {
		return err
	}
	openSession(j, "1", "1") // all have the same id
	for i := range childFrames {
		send(j, frame.AgentToClient, update("1", name+"-"+strconv.Itoa(i)))
	}
	return j.Close()
}

func TestJournal_FolderSharedBySupervisors(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	var cmds []*exec.Cmd
	for i := range 4 {
		cmd := asChild(t, "write", dir, fmt.Sprint("agent", i))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	all, err := Parts(dir, "1")
	if err != nil || len(all) != 4 {
		t.Fatalf("%d sessions, %v", len(all), err)
	}
	for _, s := range all {
		n := 0
		for e, err := range Read(s.Path) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Method == "session/update" {
				if !strings.Contains(string(e.Frame), fmt.Sprintf(`"%s-%d"`, s.Header.Agent, n)) {
					t.Fatalf("%s: line %d is %s", s.Header.Agent, n, e.Frame)
				}
				n++
			}
		}
		if n != childFrames || Live(s.Path) {
			t.Errorf("%s: %d lines, being written: %v", s.Header.Agent, n, Live(s.Path))
		}
	}
}

// writeForever writes frames of very different sizes until it is killed, and prints how many it has passed on.
func writeForever(dir string) error {
	j, err := Open(Options{Dir: dir, Agent: "forever", Content: true})
	if err != nil {
		return err
	}
	openSession(j, "1", "s")
	for i := 0; ; i++ {
		send(j, frame.AgentToClient, update("s", fmt.Sprintf("%d-%s", i, strings.Repeat("x", i*7919%300_000))))
		if i == 20 {
			if err := j.Flush(context.Background()); err != nil { // the file is there
				return err
			}
			fmt.Println("going")
		}
	}
}

func TestJournal_ReadableAfterKill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	for round := range 6 {
		cmd := asChild(t, "forever", dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(round*7) * time.Millisecond) // where it is hit is left to chance
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
	}
	if _, err := Mend(dir); err != nil {
		t.Fatal(err)
	}
	files, err := Files(dir, false)
	if err != nil || len(files) != 6 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		next := 0
		for e, err := range Read(f) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Method == "session/update" {
				if !strings.Contains(string(e.Frame[:min(len(e.Frame), 300)]), fmt.Sprintf(`"text":"%d-`, next)) {
					t.Fatalf("%s: frame %d is %.200s", f, next, e.Frame)
				}
				next++
			}
			if e.Dropped > 0 {
				next += int(e.Dropped)
			}
		}
		if !whole(f) {
			t.Errorf("%s is torn", f)
		}
	}
}

// fillAsChild writes until the disk is full, continues, and checks that the missing frames are recorded once there is
// room.
func fillAsChild(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	var failing []string // the goroutine's that writes, until Close
	j, err := Open(Options{Dir: dir, Agent: "fill", Content: true, Failing: func(file string, err error) {
		failing = append(failing, fmt.Sprint(file != "", " ", errors.Is(err, syscall.EFBIG)))
	}})
	if err != nil {
		return err
	}
	openSession(j, "1", "s")
	settle := func() {
		testkit.Poll(func() bool { return held(j.queue) == 0 })
	}
	send(j, frame.AgentToClient, update("s", "fits"))
	settle()
	files, err := Files(dir, false)
	if err != nil || len(files) != 1 {
		return fmt.Errorf("%d files: %w", len(files), err)
	}
	info, err := os.Stat(files[0])
	if err != nil {
		return err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	high := limit.Cur
	limit.Cur = uint64(info.Size()) + 100 // a part of a line fits
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	for range 5 {
		send(j, frame.AgentToClient, update("s", "does not fit"))
		settle()
	}
	if now, err := os.Stat(files[0]); err != nil || now.Size() != info.Size() {
		return fmt.Errorf("%d bytes were left behind: %w", now.Size()-info.Size(), err)
	}
	limit.Cur = high
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	time.Sleep(retryAfter) // it is not tried again before
	send(j, frame.AgentToClient, update("s", "fits again"))
	if err := j.Close(); err != nil {
		return err
	}
	if len(failing) != 1 || failing[0] != "true true" {
		return fmt.Errorf("it received %q, want once that there is no room", failing)
	}
	return nil
}

func TestJournal_FullDiskIsReported(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	if out, err := asChild(t, "fill", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var got []string
	for _, e := range entries(t, dir, "s")[3:] {
		if e.Dropped > 0 {
			got = append(got, fmt.Sprintf("%d/%d lost: %s", e.Dropped, e.Bytes, e.Why))
		} else {
			got = append(got, string(e.Message()))
		}
	}
	size := 5 * (len(update("s", "does not fit")) + 1)
	want := []string{update("s", "fits"), fmt.Sprintf("5/%d lost: it could not be written: file too large", size), update("s", "fits again")}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
