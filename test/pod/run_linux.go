package pod

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/testkit"
)

// Cluster is what there is besides a Pod.
type Cluster struct {
	Images map[string]*Image            // by the last element of an image's name, without its tag
	Files  map[string]map[string]string // the files of ConfigMaps and Secrets, by name
	Enter  string                       // the program "enter"; it needs no library
}

// Pod is a Pod that runs.
type Pod struct {
	t        testing.TB
	cluster  Cluster
	spec     Spec
	name     string
	dir      string
	pause    *bubble
	pausePID int
	all      []*Running // in the order of their start
}

// Running is a container of a Pod. It is started again whenever it ends, if its Pod says so.
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

// restartPause is how long a container that ended waits before it starts again. A kubelet waits ten seconds and more.
const restartPause = 100 * time.Millisecond

// crashes is how often a container may end before it is ready.
const crashes = 20

// Start starts a Pod and returns when all of its containers are ready, or fails the test. The Pod ends with the test.
func Start(t testing.TB, m *Manifest, c Cluster) *Pod {
	t.Helper()
	p := &Pod{t: t, cluster: c, spec: m.Spec, name: m.Metadata.Name, dir: t.TempDir()}
	if err := os.Chmod(p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if p.spec.ShareProcessNamespace {
		t.Fatal("shareProcessNamespace is not known to the harness")
	}
	for _, v := range p.spec.Volumes {
		if err := p.makeVolume(v); err != nil {
			t.Fatalf("make the volume %s: %v", v.Name, err)
		}
	}
	p.startPause()
	t.Cleanup(p.Delete)
	for _, c := range p.spec.InitContainers {
		r := p.run(c)
		if c.Sidecar() {
			r.await(c.StartupProbe, "started")
			continue
		}
		<-r.over
		if r.status != 0 {
			t.Fatalf("the init container %s ended with %d:\n%s", c.Name, r.status, r.Log())
		}
	}
	var mains []*Running
	for _, c := range p.spec.Containers {
		mains = append(mains, p.run(c))
	}
	for _, r := range mains {
		r.await(r.spec.StartupProbe, "started")
	}
	for _, r := range p.all {
		if r.spec.Sidecar() || slices.Contains(mains, r) {
			r.await(r.spec.ReadinessProbe, "ready")
			r.keepAsking()
		}
	}
	return p
}

// Volume is the folder, or the file, of a volume on this machine.
func (p *Pod) Volume(name string) string {
	for _, v := range p.spec.Volumes {
		if v.Name == name && v.HostPath != nil {
			return v.HostPath.Path
		}
	}
	return filepath.Join(p.dir, "volumes", name)
}

// makeVolume makes a volume as a kubelet does: fsGroup owns it, and may read the files of ConfigMaps and Secrets.
func (p *Pod) makeVolume(v Volume) error {
	dir := p.Volume(v.Name)
	if v.HostPath != nil {
		_, err := os.Stat(dir)
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if v.Owner != nil {
		return errors.Join(os.Chown(dir, v.Owner.UID, v.Owner.GID), os.Chmod(dir, v.Owner.Mode))
	}
	if v.EmptyDir != nil || v.Claim != nil {
		group, mode := 0, fs.FileMode(0o777)
		if g := p.spec.SecurityContext.FSGroup; g != nil {
			group, mode = *g, mode|fs.ModeSetgid
		}
		return errors.Join(os.Chown(dir, 0, group), os.Chmod(dir, mode))
	}
	return p.fill(v)
}

// fill writes the files of a ConfigMap or of a Secret: into a folder of their own, to which a link is then changed, so that a
// reader sees all old files or all new ones.
func (p *Pod) fill(v Volume) error {
	files := v.ConfigMap
	if files == nil {
		files = v.Secret
	}
	if files == nil {
		return errors.New("its kind is not known to the harness")
	}
	name := files.Name + files.SecretName
	data, ok := p.cluster.Files[name]
	if !ok && !files.Optional {
		return fmt.Errorf("there is no ConfigMap or Secret %s", name)
	}
	items := files.Items
	if items == nil {
		for key := range data {
			items = append(items, struct {
				Key, Path string
				Mode      *int
			}{Key: key, Path: key})
		}
	}
	dir := p.Volume(v.Name)
	now := "..data_" + strconv.FormatInt(time.Now().UnixNano(), 36)
	if err := os.Mkdir(filepath.Join(dir, now), 0o755); err != nil {
		return err
	}
	for _, item := range items {
		text, ok := data[item.Key]
		if !ok {
			return fmt.Errorf("%s has no %s", name, item.Key)
		}
		mode := 0o644
		for _, m := range []*int{files.DefaultMode, item.Mode} {
			if m != nil {
				mode = *m
			}
		}
		group := 0
		if g := p.spec.SecurityContext.FSGroup; g != nil {
			group, mode = *g, mode|0o440
		}
		at := filepath.Join(dir, now, item.Path)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if err = errors.Join(err, os.WriteFile(at, []byte(text), 0o600)); err != nil {
			return err
		}
		if err := errors.Join(os.Chown(at, 0, group), os.Chmod(at, fs.FileMode(mode))); err != nil {
			return err
		}
		first, _, _ := strings.Cut(item.Path, "/")
		if err := os.Symlink(filepath.Join("..data", first), filepath.Join(dir, first)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	old, _ := os.Readlink(filepath.Join(dir, "..data"))
	if err := os.Symlink(now, filepath.Join(dir, "..data_tmp")); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		return err
	}
	if old != "" {
		return os.RemoveAll(filepath.Join(dir, old))
	}
	return nil
}

// Change changes a file of a ConfigMap or of a Secret under the running Pod.
func (p *Pod) Change(name, key, text string) {
	p.t.Helper()
	files := map[string]string{}
	for k, v := range p.cluster.Files[name] {
		files[k] = v
	}
	files[key] = text
	all := map[string]map[string]string{}
	for n, f := range p.cluster.Files {
		all[n] = f
	}
	all[name] = files
	p.cluster.Files = all
	for _, v := range p.spec.Volumes {
		if (v.ConfigMap != nil && v.ConfigMap.Name == name) || (v.Secret != nil && v.Secret.SecretName == name) {
			if err := p.fill(v); err != nil {
				p.t.Fatalf("change %s: %v", name, err)
			}
		}
	}
}

// startPause starts the process that holds the network and the host name, which the containers share.
func (p *Pod) startPause() {
	p.t.Helper()
	p.pause, p.pausePID = p.bubble(nil, []string{
		"--unshare-net", "--unshare-ipc", "--unshare-uts", "--hostname", p.name, "--die-with-parent", "--dev-bind", "/", "/",
	}, []string{"sleep", "infinity"}, io.Discard)
}

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

// run starts the command and waits for its end, on a thread that stays as long: with --die-with-parent, bubblewrap dies with the
// thread that started it, and a thread ends when a goroutine that is bound to it does (see inNetwork).
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

func (p *Pod) image(c *Container) *Image {
	name := c.Image[strings.LastIndexByte(c.Image, '/')+1:]
	name, _, _ = strings.Cut(name, "@")
	name, _, _ = strings.Cut(name, ":")
	i := p.cluster.Images[name]
	if i == nil {
		p.t.Fatalf("the container %s has the image %s, which there is not", c.Name, c.Image)
	}
	return i
}

// Container is a container of the Pod.
func (p *Pod) Container(name string) *Running {
	p.t.Helper()
	for _, r := range p.all {
		if r.spec.Name == name {
			return r
		}
	}
	p.t.Fatalf("the Pod has no container %s", name)
	return nil
}

// SetImage changes the image, the command and the arguments of a container, and ends it: it starts again with them.
func (p *Pod) SetImage(name, image string, command, args []string) {
	p.t.Helper()
	r := p.Container(name)
	r.mu.Lock()
	r.spec.Image, r.spec.Command, r.spec.Args = image, command, args
	r.mu.Unlock()
	r.Kill()
}

// run starts a container and keeps it running.
func (p *Pod) run(c Container) *Running {
	p.t.Helper()
	r := &Running{pod: p, spec: c, changed: make(chan struct{}), over: make(chan struct{})}
	r.log.begun = time.Now()
	p.all = append(p.all, r)
	r.start()
	go r.keep()
	return r
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

// tell wakes who waits for a change; r.mu is held.
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

// enter is the command that takes a process of the container from root's rights to those of the manifest.
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

// capabilities are those that manifests name, and usualCapabilities what runtimes give a container that drops none.
var (
	capabilities = map[string]int{
		"CHOWN": unix.CAP_CHOWN, "DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE, "FOWNER": unix.CAP_FOWNER, "FSETID": unix.CAP_FSETID, "KILL": unix.CAP_KILL,
		"SETGID": unix.CAP_SETGID, "SETUID": unix.CAP_SETUID, "SETPCAP": unix.CAP_SETPCAP, "NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE,
		"NET_RAW": unix.CAP_NET_RAW, "SYS_CHROOT": unix.CAP_SYS_CHROOT, "MKNOD": unix.CAP_MKNOD, "AUDIT_WRITE": unix.CAP_AUDIT_WRITE, "SETFCAP": unix.CAP_SETFCAP,
	}
	usualCapabilities = []int{
		unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_SETPCAP,
		unix.CAP_NET_BIND_SERVICE, unix.CAP_NET_RAW, unix.CAP_SYS_CHROOT, unix.CAP_MKNOD, unix.CAP_AUDIT_WRITE, unix.CAP_SETFCAP,
	}
)

// arguments are bubblewrap's, for a container whose files are put into root.
func (p *Pod) arguments(c *Container, image *Image, root string) ([]string, error) {
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		return nil, err
	}
	// Links instead of copies: without readOnlyRootFilesystem, what a container writes into a file of its image would be in the
	// image, so then it is copied.
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

// PID is the process id of the container's process 1, as this machine sees it. It waits for a container that is being started
// again.
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

// Log is what the container has printed.
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

// ask asks a probe once.
func (r *Running) ask(ctx context.Context, probe *Probe) error {
	r.mu.Lock()
	pid := r.pid
	r.mu.Unlock()
	if pid == 0 {
		return errors.New("it does not run")
	}
	// As long as the manifest says, and longer on a machine that is busy with other tests.
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(probe.TimeoutSeconds, 1))*time.Second*(testkit.Timeout()/time.Minute))
	defer cancel()
	if probe.HTTPGet != nil {
		return r.request(ctx, probe)
	}
	out, err := r.execIn(ctx, pid, probe.Exec.Command).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// request requests the page of a probe. As a kubelet, it does not verify the certificate.
func (r *Running) request(ctx context.Context, probe *Probe) error {
	port := probe.HTTPGet.Port
	for _, p := range r.spec.Ports {
		if p["name"] == port {
			port = fmt.Sprint(p["containerPort"])
		}
	}
	transport := &http.Transport{
		DialContext:     r.pod.Dial,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // as a kubelet does it
	}
	defer transport.CloseIdleConnections()
	url := strings.ToLower(cmp.Or(probe.HTTPGet.Scheme, "http")) + "://127.0.0.1:" + port + probe.HTTPGet.Path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	_ = res.Body.Close()
	if res.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s: %s %s", url, res.Status, text)
	}
	return nil
}

// await waits until a probe succeeds. It asks more often than a kubelet, and waits as long at least.
func (r *Running) await(probe *Probe, state string) {
	r.pod.t.Helper()
	if probe == nil {
		return
	}
	patience := max(time.Duration(cmp.Or(probe.FailureThreshold, 3)*cmp.Or(probe.PeriodSeconds, 10))*time.Second, testkit.Timeout())
	ctx, cancel := context.WithTimeout(r.pod.t.Context(), patience)
	defer cancel()
	for {
		err := r.ask(ctx, probe)
		if err == nil {
			r.mu.Lock()
			r.ready = true
			r.mu.Unlock()
			return
		}
		if os.Getenv("POD_LOG") != "" {
			fmt.Fprintln(os.Stderr, err)
		}
		if n := r.Starts(); n > crashes {
			r.pod.t.Fatalf("the container %s ends again and again, and is not %s: %v\n%s", r.spec.Name, state, err, r.Log())
		}
		select {
		case <-ctx.Done():
			r.pod.t.Fatalf("the container %s is not %s: %v\n%s", r.spec.Name, state, err, r.Log())
		case <-r.over:
			r.pod.t.Fatalf("the container %s has ended before it was %s: %v\n%s", r.spec.Name, state, err, r.Log())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Ready waits until the container runs and its probes succeed.
func (r *Running) Ready() {
	r.pod.t.Helper()
	r.PID()
	r.await(r.spec.StartupProbe, "started")
	r.await(r.spec.ReadinessProbe, "ready")
}

// keepAsking asks how the container is for as long as it runs, and kills it if it does not answer, as a kubelet does.
func (r *Running) keepAsking() {
	probe := r.spec.LivenessProbe
	if probe == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.stopAsks = cancel
	go func() {
		failed := 0
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Duration(cmp.Or(probe.PeriodSeconds, 10)) * time.Second):
			}
			r.mu.Lock()
			pid := r.pid
			r.mu.Unlock()
			if pid == 0 || r.ask(ctx, probe) == nil {
				failed = 0
				continue
			}
			if failed++; failed >= cmp.Or(probe.FailureThreshold, 3) && ctx.Err() == nil {
				failed = 0
				fmt.Fprintf(&r.log, "harness: the container does not answer its liveness probe, and is ended\n")
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}()
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

// Delete ends the Pod as a kubelet does: its containers, and then its sidecars, the last one first.
func (p *Pod) Delete() {
	if p.pause == nil {
		return
	}
	grace := 30 * time.Second
	if s := p.spec.TerminationGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	var group sync.WaitGroup
	for _, r := range p.all {
		if !r.spec.Sidecar() {
			group.Go(func() { r.end(grace) })
		}
	}
	group.Wait()
	for _, r := range slices.Backward(p.all) {
		if r.spec.Sidecar() {
			r.end(grace)
		}
	}
	_ = p.pause.cmd.Process.Kill()
	<-p.pause.over
	p.pause = nil
	if p.t.Failed() {
		for _, r := range p.all {
			p.t.Logf("the container %s, started %d times:\n%s", r.spec.Name, r.Starts(), r.Log())
		}
	}
}

// Dial connects to an address in the Pod's network.
func (p *Pod) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	inside := p.inNetwork(func() error {
		var d net.Dialer
		conn, err = d.DialContext(ctx, network, address)
		return err
	})
	return conn, inside
}

// Listen listens on an address in the Pod's network.
func (p *Pod) Listen(ctx context.Context, network, address string) (l net.Listener, err error) {
	inside := p.inNetwork(func() error {
		var c net.ListenConfig
		l, err = c.Listen(ctx, network, address)
		return err
	})
	return l, inside
}

// inNetwork calls f on a thread that is in the Pod's network.
func (p *Pod) inNetwork(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread stays there, and ends with this goroutine
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", p.pausePID))
		if err == nil {
			err = errors.Join(unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET), ns.Close())
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// buffer is what a container prints, each line with the time since the container's first start.
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
