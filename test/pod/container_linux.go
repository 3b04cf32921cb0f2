package pod

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/testkit"
)

// Running is a container of a Pod. It is started again whenever it ends, if its Pod requires that.
type Running struct {
	pod  *Pod
	spec Container
	log  buffer

	mu       sync.Mutex
	pid      int // of its process 1, as this machine sees it; 0: none runs
	inside   *bubble
	begun    int           // how often it was started
	changed  chan struct{} // closed when pid changes
	ending   bool
	over     chan struct{} // closed when it runs no more and is not started again
	status   int           // the exit status of the last one
	ready    bool
	stopAsks context.CancelFunc
}

func (r *Running) restarts(status int) bool {
	if r.spec.Sidecar() {
		return true
	}
	always := slices.ContainsFunc(r.pod.spec.Containers, func(c Container) bool { return c.Name == r.spec.Name })
	switch r.pod.spec.RestartPolicy {
	case "", "Always":
		return always
	case "OnFailure":
		return always && status != 0
	}
	return false
}

func (r *Running) keep() {
	defer close(r.over)
	for {
		r.mu.Lock()
		inside := r.inside
		r.mu.Unlock()
		<-inside.over
		r.mu.Lock()
		r.pid, r.status, r.ready = 0, inside.cmd.ProcessState.ExitCode(), false
		r.tell()
		ending := r.ending
		r.mu.Unlock()
		if ending || !r.restarts(r.status) {
			return
		}
		time.Sleep(restartPause)
		r.mu.Lock()
		ending = r.ending
		r.mu.Unlock()
		if ending {
			return
		}
		r.start()
	}
}

// tell wakes the goroutines that wait for a change; r.mu is held.
func (r *Running) tell() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// start starts the container once.
func (r *Running) start() {
	p := r.pod
	r.mu.Lock()
	c, number := r.spec, r.begun
	r.mu.Unlock()
	image := p.image(&c)
	root := filepath.Join(p.dir, "containers", c.Name, strconv.Itoa(number))
	args, err := p.arguments(&c, image, root)
	if err != nil {
		p.t.Errorf("start the container %s: %v", c.Name, err)
		return
	}
	command := slices.Concat(c.Command, c.Args)
	if len(c.Command) == 0 {
		command = slices.Concat(image.Entrypoint, c.Args)
		if len(c.Args) == 0 {
			command = slices.Concat(image.Entrypoint, image.Cmd)
		}
	}
	inside, pid := p.bubble(p.inPod(), args, slices.Concat(r.enter(&c, image), command), &r.log)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inside, r.pid = inside, pid
	r.begun++
	r.tell()
}

// enter is the command that changes a process of the container from root's rights to those of the manifest.
func (r *Running) enter(c *Container, image *Image) []string {
	of := r.pod.spec.SecurityContext
	uid, gid, _ := strings.Cut(image.User, ":")
	if uid == "" {
		uid = "0"
	}
	if gid == "" {
		gid = "0"
	}
	for _, s := range []SecurityContext{of, c.SecurityContext} {
		if s.RunAsUser != nil {
			uid = strconv.Itoa(*s.RunAsUser)
		}
		if s.RunAsGroup != nil {
			gid = strconv.Itoa(*s.RunAsGroup)
		}
	}
	groups := slices.Clone(of.SupplementalGroups)
	if of.FSGroup != nil {
		groups = append(groups, *of.FSGroup)
	}
	kept := slices.Clone(usualCapabilities)
	for _, name := range c.SecurityContext.Capabilities.Drop {
		if name == "ALL" {
			kept = nil
		}
		kept = slices.DeleteFunc(kept, func(n int) bool { return n == capabilities[name] })
	}
	for _, name := range c.SecurityContext.Capabilities.Add {
		n, ok := capabilities[name]
		if !ok {
			r.pod.t.Fatalf("the capability %s is not known to the harness", name)
		}
		kept = append(kept, n)
	}
	closed := c.SecurityContext.AllowPrivilegeEscalation != nil && !*c.SecurityContext.AllowPrivilegeEscalation
	dir := c.WorkingDir
	if dir == "" {
		dir = image.WorkingDir
	}
	if dir == "" {
		dir = "/"
	}
	for _, s := range []SecurityContext{of, c.SecurityContext} {
		if s.RunAsNonRoot != nil && *s.RunAsNonRoot && uid == "0" {
			r.pod.t.Fatalf("the container %s must not run as root, and would", c.Name)
		}
	}
	return []string{"/.enter", uid, gid, list(groups), list(kept), strconv.FormatBool(closed), dir}
}

func list(numbers []int) string {
	if len(numbers) == 0 {
		return "-"
	}
	var text []string
	for _, n := range numbers {
		text = append(text, strconv.Itoa(n))
	}
	return strings.Join(text, ",")
}

// arguments are bubblewrap's, for a container whose files are put into root.
func (p *Pod) arguments(c *Container, image *Image, root string) ([]string, error) {
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		return nil, err
	}
	// Links instead of copies: without readOnlyRootFilesystem, what a container writes into a file of its image would
	// be in the image, so then it is copied.
	how := "-al"
	if !c.SecurityContext.ReadOnlyRootFilesystem {
		how = "-a"
	}
	if out, err := exec.Command("cp", how, image.Root, root).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copy the image: %w %s", err, out)
	}
	args := []string{"--unshare-pid", "--as-pid-1", "--die-with-parent", "--new-session", "--clearenv", "--bind", root, "/"}
	for _, b := range image.Binds {
		args = append(args, "--ro-bind", b[0], b[1])
	}
	args = append(args, "--proc", "/proc", "--dev", "/dev", "--ro-bind", p.cluster.Enter, "/.enter")
	for _, m := range c.VolumeMounts {
		how := "--bind"
		if m.ReadOnly || slices.ContainsFunc(p.spec.Volumes, func(v Volume) bool { return v.Name == m.Name && (v.ConfigMap != nil || v.Secret != nil) }) {
			how = "--ro-bind"
		}
		from := p.Volume(m.Name)
		if _, err := os.Stat(from); err != nil {
			return nil, fmt.Errorf("mount the volume %s: %w", m.Name, err)
		}
		if m.SubPath != "" {
			var err error
			if from, err = subPath(from, m.SubPath); err != nil {
				return nil, err
			}
		}
		// Bubblewrap would make the way there, for root alone.
		if err := mountPoint(from, filepath.Join(root, m.MountPath)); err != nil {
			return nil, err
		}
		args = append(args, how, from, m.MountPath)
	}
	if c.SecurityContext.ReadOnlyRootFilesystem {
		args = append(args, "--remount-ro", "/")
	}
	env := slices.Clone(image.Env)
	for _, v := range c.Env {
		value := v.Value
		if v.ValueFrom != nil {
			switch path := v.ValueFrom.FieldRef.FieldPath; path {
			case "metadata.name":
				value = p.name
			default:
				return nil, fmt.Errorf("the field %s is not known to the harness", path)
			}
		}
		env = append(env, v.Name+"="+value)
	}
	env = append(env, "HOSTNAME="+p.name)
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		args = append(args, "--setenv", name, value)
	}
	return args, nil
}

// mountPoint makes what a folder, or a file, is mounted on.
func mountPoint(from, at string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.MkdirAll(at, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// subPath is a folder in a volume, which is made as the volume's own was.
func subPath(volume, name string) (string, error) {
	dir := filepath.Join(volume, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	info, err := os.Stat(volume)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, errors.Join(os.Chown(dir, 0, int(info.Sys().(*syscall.Stat_t).Gid)), os.Chmod(dir, info.Mode()))
}

// PID is the process id of the container's process 1 on this machine. It waits for a container that is being restarted.
func (r *Running) PID() int {
	r.pod.t.Helper()
	deadline := testkit.After()
	for {
		r.mu.Lock()
		pid, changed := r.pid, r.changed
		r.mu.Unlock()
		if pid != 0 {
			return pid
		}
		select {
		case <-changed:
		case <-r.over:
			r.pod.t.Fatalf("the container %s has ended:\n%s", r.spec.Name, r.Log())
		case <-deadline:
			r.pod.t.Fatalf("the container %s does not start:\n%s", r.spec.Name, r.Log())
		}
	}
}

// Starts is how often the container was started.
func (r *Running) Starts() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun
}

// Log is the output of the container.
func (r *Running) Log() string { return r.log.String() }

// Kill kills the container's process 1, and with it all that the container is. It returns when that has ended.
func (r *Running) Kill() {
	r.pod.t.Helper()
	r.PID()
	r.mu.Lock()
	pid, changed := r.pid, r.changed
	r.mu.Unlock()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		r.pod.t.Fatalf("kill the container %s: %v", r.spec.Name, err)
	}
	<-changed
}

// Exec is a command in the container, as its user, as "kubectl exec" runs one.
func (r *Running) Exec(ctx context.Context, command ...string) *exec.Cmd {
	r.pod.t.Helper()
	return r.execIn(ctx, r.PID(), command)
}

func (r *Running) execIn(ctx context.Context, pid int, command []string) *exec.Cmd {
	r.mu.Lock()
	c := r.spec
	r.mu.Unlock()
	image := r.pod.image(&c)
	args := slices.Concat([]string{"--target", strconv.Itoa(pid), "--mount", "--pid", "--net", "--ipc", "--uts", "--"}, r.enter(&c, image), command)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.Env = slices.Clone(image.Env)
	for _, v := range c.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	return cmd
}

// end ends a container as a kubelet does: preStop, TERM, and after the grace period KILL.
func (r *Running) end(grace time.Duration) {
	r.mu.Lock()
	r.ending = true
	pid := r.pid
	r.mu.Unlock()
	if r.stopAsks != nil {
		r.stopAsks()
	}
	deadline := time.NewTimer(grace)
	defer deadline.Stop()
	if pre := r.spec.Lifecycle.PreStop; pre != nil && pid != 0 {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		_ = r.execIn(ctx, pid, pre.Exec.Command).Run()
		cancel()
	}
	if pid != 0 {
		_ = unix.Kill(pid, unix.SIGTERM)
	}
	select {
	case <-r.over:
	case <-deadline.C:
		fmt.Fprintf(&r.log, "harness: the grace period of %v is over\n", grace)
		for over := false; !over; { // one that was being started when this began has another number
			r.mu.Lock()
			pid, changed := r.pid, r.changed
			r.mu.Unlock()
			if pid != 0 {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
			select {
			case <-r.over:
				over = true
			case <-changed:
			}
		}
	}
}

// buffer is the output of a container, each line with the time since the container's first start.
type buffer struct {
	mu    sync.Mutex
	text  bytes.Buffer
	begun time.Time
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.text.Len() == 0 || b.text.Bytes()[b.text.Len()-1] == '\n' {
		fmt.Fprintf(&b.text, "%7.3f ", time.Since(b.begun).Seconds())
	}
	if os.Getenv("POD_LOG") != "" {
		os.Stderr.Write(p)
	}
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
