package launch_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/testkit"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"github.com/acphost/acphost/sdk/launch"
)

func TestStart_ReturnsReadyChild(t *testing.T) {
	i := start(t, spec("handler"))
	d, err := pluginv1.NewPluginServiceClient(i).Describe(t.Context(), &pluginv1.DescribeRequest{})
	if err != nil {
		t.Fatalf("Describe: %v", err)
	}
	if d.GetName() != "test" || d.GetVersion() != "1.0" || len(d.GetServices()) != 1 {
		t.Errorf("Describe = %v", d)
	}
	if err := i.Ping(t.Context()); err != nil {
		t.Errorf("Ping: %v", err)
	}
	binary, err := os.ReadFile(self()[0])
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(binary)
	if got, want := i.Digest(), hex.EncodeToString(sum[:]); got != want {
		t.Errorf("Digest = %s, want %s", got, want)
	}
	if !i.MutualTLS() || i.Sidecar() || !alive(i.PID()) || i.Err() != nil {
		t.Errorf("MutualTLS %v, Sidecar %v, PID %d alive %v, Err %v",
			i.MutualTLS(), i.Sidecar(), i.PID(), alive(i.PID()), i.Err())
	}
}

func TestDigest_ProgramSwappedBeforeMeasurementIsKilled(t *testing.T) {
	program := filepath.Join(t.TempDir(), "handler")
	data, err := os.ReadFile(self()[0])
	if err == nil {
		err = os.WriteFile(program, data, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := spec("handler")
	s.Command = []string{program}
	i := start(t, s)
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	if got := i.Digest(); got != "" {
		t.Errorf("Digest = %s, want none", got)
	}
	within(t, i.Done(), "Done")
	if err := i.Err(); err == nil || !strings.Contains(err.Error(), "its program vanished") {
		t.Errorf("Err = %v, want that the program is not there any more", err)
	}
}

func TestDigest_EmptyAfterStop(t *testing.T) {
	i := start(t, spec("handler"))
	if err := i.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := i.Digest(); got != "" {
		t.Errorf("Digest = %s, want none", got)
	}
}

// TestStart_CallsGoPluginServerOverTLS: handlers that do not use this SDK have the keys that go-plugin generates.
func TestStart_CallsGoPluginServerOverTLS(t *testing.T) {
	i := start(t, spec("go-plugin"))
	if got, err := callEcho(t.Context(), i, "hello"); err != nil || got != "hello" || !i.MutualTLS() {
		t.Errorf("got %q, %v, mutual TLS %v", got, err, i.MutualTLS())
	}
}

func TestStop_LeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", testkit.ShortDir(t))
	i, err := launch.Start(t.Context(), spec("handler"))
	if err != nil {
		t.Fatal(err)
	}
	if entries := ls(t, os.TempDir()); len(entries) != 1 {
		t.Errorf("while it runs the temporary folder holds %v, want one folder", entries)
	}
	began := time.Now()
	if err := i.Stop(t.Context()); err != nil {
		t.Fatalf("Stop: %v", err)
	}
	if took := time.Since(began); took > testkit.Scale(4*time.Second) { // TERM comes after 5 s
		t.Errorf("Stop took %s: the end of stdin alone should do", took)
	}
	within(t, i.Done(), "Done")
	if alive(i.PID()) {
		t.Error("the process lives on")
	}
	if i.Err() != nil {
		t.Errorf("Err = %v, want nil after Stop", i.Err())
	}
	if entries := ls(t, os.TempDir()); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
	if _, err := callEcho(t.Context(), i, "x"); status.Code(err) != codes.Unavailable {
		t.Errorf("a call after Stop: %v, want UNAVAILABLE", err)
	}
	if err := i.Stop(t.Context()); err != nil {
		t.Errorf("Stop again: %v", err)
	}
}

func TestStop_EndsFrozenProcess(t *testing.T) {
	i := start(t, spec("handler"))
	testkit.Freeze(t, i.PID())
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := i.Stop(ctx); err != nil {
		t.Fatalf("Stop: %v", err)
	}
	if took := time.Since(began); took > testkit.Scale(4*time.Second) {
		t.Errorf("Stop took %s with a deadline of 300ms", took)
	}
	if alive(i.PID()) {
		t.Error("the process lives on")
	}
}

func TestStop_KillsStubbornProcess(t *testing.T) {
	s := spec("stubborn")
	s.StopGrace = 200 * time.Millisecond
	i := start(t, s)
	began := time.Now()
	if err := i.Stop(t.Context()); err != nil {
		t.Fatalf("Stop: %v", err)
	}
	if took := time.Since(began); took < 400*time.Millisecond || took > testkit.Scale(10*time.Second) {
		t.Errorf("Stop took %s, want two times the grace of 200ms and little more", took)
	}
}

func TestChild_DiesWithHost(t *testing.T) {
	t.Setenv("TMPDIR", testkit.ShortDir(t))
	pid := killedHost(t, "handler")
	if !testkit.Poll(func() bool { return !alive(pid) }) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		t.Error("the handler outlives its host, which was killed")
	}
	if entries := ls(t, os.TempDir()); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestChild_ReleasesAfterHostIsKilled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "closed")
	pid := killedHost(t, "lastwords:"+file)
	if !testkit.Poll(func() bool { return !alive(pid) }) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		t.Error("the handler outlives its host, which was killed")
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the handler was not closed: %v", err)
	}
}

// killedHost starts a host of a handler that plays r, kills the host, and returns the handler's pid.
func killedHost(t *testing.T, r string) (pid int) {
	t.Helper()
	host := exec.Command(self()[0])
	host.Env = append(os.Environ(), role+"=host:"+r)
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	pid = readPID(t, out)
	if !alive(pid) {
		t.Error("the handler does not run")
	}
	_ = host.Process.Kill()
	_ = host.Wait()
	return pid
}

func TestExit_ReportsStatusAndLastLine(t *testing.T) {
	i := start(t, spec("handler"))
	_, err := callEcho(t.Context(), i, "exit 3")
	if status.Code(err) != codes.Unavailable {
		t.Errorf("the call in flight: %v, want UNAVAILABLE", err)
	}
	within(t, i.Done(), "Done")
	if got, want := i.Err(), "exited with status 3: cannot go on: the disk is gone"; got == nil || got.Error() != want {
		t.Errorf("Err = %v, want %s", got, want)
	}
	if _, err := callEcho(t.Context(), i, "x"); status.Code(err) != codes.Unavailable {
		t.Errorf("a later call: %v, want UNAVAILABLE", err)
	}
}

func TestExit_ReportsSignal(t *testing.T) {
	i := start(t, spec("handler"))
	hanging := make(chan error, 1)
	go func() {
		_, err := callEcho(context.Background(), i, "hang")
		hanging <- err
	}()
	if err := syscall.Kill(i.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	within(t, i.Done(), "Done")
	if got := i.Err(); got == nil || !strings.HasPrefix(got.Error(), "was killed by SIGKILL") {
		t.Errorf("Err = %v", got)
	}
	if err := <-hanging; status.Code(err) != codes.Unavailable {
		t.Errorf("the call in flight: %v, want UNAVAILABLE", err)
	}
}

func TestCall_PanicIsError(t *testing.T) {
	log := &sink{}
	s := spec("handler")
	s.Logger = log.logger()
	i := start(t, s)
	if _, err := callEcho(t.Context(), i, "panic"); status.Code(err) != codes.Internal {
		t.Errorf("the call: %v, want INTERNAL", err)
	}
	testkit.Eventually(t, "the panic is logged with its stack at ERROR", func() bool {
		return slices.ContainsFunc(log.records(t), func(r map[string]any) bool {
			stack, _ := r["stack"].(string)
			return r["level"] == "ERROR" && r["handler"] == "test" && strings.Contains(stack, "goroutine ")
		})
	})
	if got, err := callEcho(t.Context(), i, "still here"); err != nil || got != "still here" {
		t.Errorf("the next call: %q, %v", got, err)
	}
}

func TestCall_Passes64MiBBothWays(t *testing.T) {
	i := start(t, spec("handler"))
	text := strings.Repeat("0123456789abcdef", 64<<20/16)
	got, err := callEcho(t.Context(), i, text)
	if err != nil {
		t.Fatalf("64 MiB: %v", err)
	}
	if got != text {
		t.Errorf("64 MiB returned changed (%d bytes)", len(got))
	}
	_, err = callEcho(t.Context(), i, text+strings.Repeat("x", 2<<20))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("66 MiB: %v, want RESOURCE_EXHAUSTED", err)
	}
}

func TestEnvironment_InheritsLittle(t *testing.T) {
	t.Setenv("SECRET_API_KEY", "hunter2")
	i := start(t, spec("handler", "GIVEN=yes"))
	env, err := callEcho(t.Context(), i, "env")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(env, "GIVEN=yes\n") || !strings.Contains(env, "PATH=") {
		t.Errorf("the given settings are missing from %q", env)
	}
	for _, never := range []string{"SECRET_API_KEY", "PLUGIN_", launch.CookieKey, "PRIVATE KEY"} {
		if strings.Contains(env, never) {
			t.Errorf("the environment holds %s: %q", never, env)
		}
	}
	initial, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", i.PID()))
	if err != nil {
		t.Skipf("no /proc: %v", err)
	}
	for _, never := range []string{"SECRET_API_KEY", "PRIVATE KEY"} {
		if strings.Contains(string(initial), never) {
			t.Errorf("/proc shows %s in the environment", never)
		}
	}
}

func TestSocket_RejectsOtherCallers(t *testing.T) {
	i := start(t, spec("handler"))
	path := strings.TrimPrefix(i.Address(), "unix://")
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the socket's folder: %v, %v; want mode 0700", info, err)
	}
	if len(path) > 103 {
		t.Errorf("the socket's path %s has %d bytes, more than every platform takes", path, len(path))
	}
	_, err := launch.Start(t.Context(), launch.Spec{Name: "intruder", Address: i.Address()})
	if err == nil {
		t.Fatal("a process of the same user, without the certificate, was served")
	}
}

func TestStart_WithoutTLS(t *testing.T) {
	s := spec("handler")
	s.NoTLS = true
	i := start(t, s)
	if got, err := callEcho(t.Context(), i, "x"); err != nil || got != "x" {
		t.Errorf("Echo = %q, %v", got, err)
	}
	if i.MutualTLS() {
		t.Error("MutualTLS = true")
	}
}

func TestSocket_LongTemporaryFolder(t *testing.T) {
	long := filepath.Join(testkit.ShortDir(t), strings.Repeat("long", 20))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", long)
	i := start(t, spec("handler"))
	if err := i.Ping(t.Context()); err != nil {
		t.Errorf("Ping: %v", err)
	}
}

func TestStart_RejectsOtherDigest(t *testing.T) {
	s := spec("handler")
	s.SHA256 = strings.Repeat("0", 64)
	i, err := launch.Start(t.Context(), s)
	if err == nil {
		_ = i.Stop(t.Context())
		t.Fatal("it was started")
	}
	if !strings.Contains(err.Error(), "not 000000") || !strings.Contains(err.Error(), "was not started") {
		t.Errorf("error = %v", err)
	}
	i = start(t, spec("handler"))
	var mismatch *launch.DigestError
	if !errors.As(err, &mismatch) || mismatch.Got != i.Digest() || mismatch.Want != s.SHA256 || mismatch.Program != s.Command[0] {
		t.Errorf("error = %#v, want a DigestError with the file and both digests", mismatch)
	}
	s.SHA256 = strings.ToUpper(i.Digest())
	for range 2 { // go-plugin's own check fails the second time
		start(t, s)
	}
}

func ls(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
