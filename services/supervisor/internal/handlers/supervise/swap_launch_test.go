package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/testkit"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/launch"
)

// The behavior of the test binary as a handler, by its environment.
const (
	envAnswer = "SWAP_TEST_ANSWER" // what it answers
	envDone   = "SWAP_TEST_DONE"   // the file in which it notes the calls that it did
	envHang   = "SWAP_TEST_HANG"   // the pipe to which it writes that it hangs in Configure, where it stays
)

func playConfigure(ctx context.Context, _ *pluginv1.ConfigureRequest) ([]string, error) {
	if pipe := os.Getenv(envHang); pipe != "" {
		if err := os.WriteFile(pipe, fmt.Appendln(nil, os.Getpid()), 0); err != nil {
			return nil, err
		}
		<-ctx.Done()
	}
	return nil, nil
}

// played answers reads with its name. A path under /hang is a pipe to which it writes that it hangs.
type played struct {
	fsv1.UnimplementedFileSystemServiceServer
}

func (played) ReadTextFile(ctx context.Context, req *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
	if pipe, hangs := strings.CutPrefix(req.GetPath(), "/hang"); hangs {
		if err := os.WriteFile(pipe, []byte("hanging\n"), 0); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if name := os.Getenv(envDone); name != "" {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if _, err := f.WriteString(req.GetPath() + "\n"); err != nil {
			return nil, err
		}
	}
	return &fsv1.ReadTextFileResponse{Content: os.Getenv(envAnswer) + " " + req.GetPath()}, nil
}

// real is a spec for a copy of the test binary's program.
func real(program string, env ...string) launch.Spec {
	return launch.Spec{
		Name: "fs", Command: []string{program}, Env: append(env, "GORACE=atexit_sleep_ms=0"), StopGrace: 2 * time.Second,
	}
}

func read(ctx context.Context, h *Handler, path string) (string, error) {
	conn, err := h.Conn()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, testkit.Timeout())
	defer cancel()
	answer, err := fsv1.NewFileSystemServiceClient(conn).ReadTextFile(ctx, &fsv1.ReadTextFileRequest{Path: path})
	return answer.GetContent(), err
}

// pipe is a named pipe, and what is written to it first.
func pipe(t *testing.T) (name string, first <-chan string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		data, _ := os.ReadFile(name)
		got <- strings.TrimSpace(string(data))
	}()
	return name, got
}

// gone fails the test if a former child of this process is alive.
func gone(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is left: %v", pid, err)
	}
}

func TestSwap_RealHandler(t *testing.T) {
	h, program := realHandler(t)
	old := int(h.Status().GetPid())
	if forced, err := h.Swap(t.Context(), Swap{Spec: real(program, envAnswer+"=new")}); err != nil || forced != 0 {
		t.Fatalf("swap: %d forced, %v", forced, err)
	}
	gone(t, old)
	if got, err := read(t.Context(), h, "/x"); err != nil || got != "new /x" {
		t.Errorf("read %q, %v", got, err)
	}
	before, digest := h.Status(), h.Digest()
	if err := h.Restart(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	gone(t, int(before.GetPid()))
	if now := h.Status(); now.GetPid() == before.GetPid() || h.Digest() != digest || now.GetRestarts() != 0 {
		t.Errorf("status = %v, want another process of the same program", now)
	}
}

func TestSwap_FailedRealSwapLeavesNothing(t *testing.T) {
	h, program := realHandler(t)
	old := h.Status()
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho it is broken >&2\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("x", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	wrongDigest := real(program)
	wrongDigest.SHA256 = strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		spec launch.Spec
		why  string
	}{
		"not there":                {real("/no/such/program"), "no such file"},
		"ends at once":             {real(script), "it is broken"},
		"another digest":           {wrongDigest, "sha256"},
		"no listener at the other": {launch.Spec{Name: "fs", Address: "unix:///no/such/socket", SecretFile: secret}, "dial"},
	} {
		if _, err := h.Swap(t.Context(), Swap{Spec: c.spec}); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", name, err, c.why)
		}
	}
	if now := h.Status(); now.GetPid() != old.GetPid() || now.GetState() != Ready || now.GetRestarts() != 0 {
		t.Errorf("status = %v, want all as it was", now)
	}
	h.Digest()
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexit 0\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	var swapped *SwappedError
	if err := h.Restart(t.Context(), nil); !errors.As(err, &swapped) || len(swapped.Got) != 64 {
		t.Errorf("restart of a replaced program: %v, want a SwappedError", err)
	}
}

func TestSwap_NewProcessKilledKeepsOld(t *testing.T) {
	h, program := realHandler(t)
	old := h.Status()
	name, first := pipe(t)
	failed := make(chan error, 1)
	go func() {
		_, err := h.Swap(t.Context(), Swap{Spec: real(program, envHang+"="+name)})
		failed <- err
	}()
	pid, err := strconv.Atoi(<-first)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "SIGKILL") {
		t.Errorf("swap: %v, want that it was killed", err)
	}
	gone(t, pid)
	if now := h.Status(); now.GetPid() != old.GetPid() || now.GetState() != Ready {
		t.Errorf("status = %v, want the old one", now)
	}
}

func TestSwap_OldProcessKilledEndsDrain(t *testing.T) {
	program := copyOfSelf(t)
	replaced := make(chan struct{}, 16)
	var mu sync.Mutex // for pids
	pids := map[int64]bool{}
	h := New(Options{Name: "fs", Spec: real(program), OnChange: func(s *supervisorv1.HandlerStatus) {
		mu.Lock()
		defer mu.Unlock()
		if pid := s.GetPid(); pid != 0 && !pids[pid] {
			if pids[pid] = true; len(pids) == 2 {
				replaced <- struct{}{}
			}
		}
	}})
	keep(t, h)
	name, first := pipe(t)
	answer := make(chan error, 2)
	go func() {
		_, err := read(t.Context(), h, "/hang"+name)
		answer <- err
	}()
	if got := <-first; got != "hanging" {
		t.Fatalf("the call returns %q", got)
	}
	old := int(h.Status().GetPid())
	type result struct {
		forced int
		err    error
	}
	swapped := make(chan result, 1)
	go func() {
		forced, err := h.Swap(t.Context(), Swap{Spec: real(program, envAnswer+"=new")})
		swapped <- result{forced, err}
	}()
	<-replaced
	if got, err := read(t.Context(), h, "/x"); err != nil || got != "new /x" {
		t.Errorf("while the old one drains: %q, %v", got, err)
	}
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := <-swapped; got.err != nil || got.forced != 1 {
		t.Errorf("swap: %+v, want one call forced", got)
	}
	if err := <-answer; status.Code(err) != codes.Unavailable {
		t.Errorf("the call: %v, want UNAVAILABLE", err)
	}
	gone(t, old)
}

// TestSwap_CallsAreAnsweredOnceUnderKills makes calls all the time while the handler is swapped ten times and
// killed five.
func TestSwap_CallsAreAnsweredOnceUnderKills(t *testing.T) {
	program := copyOfSelf(t)
	done := filepath.Join(t.TempDir(), "done")
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	spec := func(n int) launch.Spec { return real(program, envDone+"="+done, fmt.Sprintf("%s=%d", envAnswer, n)) }
	h := New(Options{Name: "fs", Spec: spec(0)})
	keep(t, h)

	var kills atomic.Int64 // odd while errors are to be expected: from a kill until it is ready again
	var stop atomic.Bool
	var mu sync.Mutex
	asked, answered := 0, map[string]bool{}
	var callers sync.WaitGroup
	for c := range 6 {
		callers.Go(func() {
			for i := 0; !stop.Load(); i++ {
				path := fmt.Sprintf("/%d/%d", c, i)
				before := kills.Load()
				got, err := read(t.Context(), h, path)
				excused := before%2 == 1 || kills.Load() != before
				if err != nil {
					_ = h.Ready(t.Context()) // rather than to ask a million times
				}
				mu.Lock()
				asked++
				if err == nil {
					answered[path] = true
				}
				mu.Unlock()
				switch {
				case err == nil && !strings.HasSuffix(got, " "+path):
					t.Errorf("asked for %s, got %q", path, got)
				case err != nil && status.Code(err) != codes.Unavailable:
					t.Errorf("%s: %v, want UNAVAILABLE", path, err)
				case err != nil && !excused:
					t.Errorf("%s failed though nothing was killed: %v", path, err)
				}
			}
		})
	}
	var pids []int
	for n := 1; n <= 10; n++ {
		pids = append(pids, int(h.Status().GetPid()))
		forced, err := h.Swap(t.Context(), Swap{Spec: spec(n)})
		if err != nil || forced != 0 {
			t.Errorf("swap %d: %d forced, %v", n, forced, err)
		}
		if n%2 == 0 {
			kills.Add(1)
			conn, err := h.Conn()
			if err != nil {
				t.Fatal(err)
			}
			inst := instanceOf(conn)
			if err := syscall.Kill(inst.PID(), syscall.SIGKILL); err != nil {
				t.Error(err)
			}
			<-inst.Done()
			if err := h.Ready(deadline(t)); err != nil {
				t.Fatal(err)
			}
			kills.Add(1)
		}
	}
	stop.Store(true)
	callers.Wait()
	for _, pid := range pids {
		gone(t, pid)
	}
	did := map[string]int{}
	data, err := os.ReadFile(done)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		did[strings.TrimSuffix(line, "\n")]++
	}
	for path, n := range did {
		if n != 1 {
			t.Errorf("%s was done %d times", path, n)
		}
	}
	for path := range answered {
		if did[path] != 1 {
			t.Errorf("%s was answered and done %d times", path, did[path])
		}
	}
	if len(answered) < 100 {
		t.Errorf("only %d of %d calls were answered: no load", len(answered), asked)
	}
	t.Logf("%d calls, %d answered, %d done", asked, len(answered), len(did))
}

func copyOfSelf(t *testing.T) (program string) {
	t.Helper()
	self := testkit.Self(t)
	program = filepath.Join(t.TempDir(), "handler")
	if err := os.Link(self, program); err != nil {
		copyFile(t, self, program)
	}
	return program
}

// keep starts a handler, waits for it, and stops it at the test's end.
func keep(t *testing.T, h *Handler) {
	t.Helper()
	h.Start(t.Context())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout())
		defer cancel()
		if err := h.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := h.Ready(deadline(t)); err != nil {
		t.Fatal(err)
	}
}
