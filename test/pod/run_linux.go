package pod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Cluster has the objects outside of a Pod.
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

// startPause starts the process that holds the network and the host name, which the containers share.
func (p *Pod) startPause() {
	p.t.Helper()
	p.pause, p.pausePID = p.bubble(nil, []string{
		"--unshare-net", "--unshare-ipc", "--unshare-uts", "--hostname", p.name, "--die-with-parent", "--dev-bind", "/", "/",
	}, []string{"sleep", "infinity"}, io.Discard)
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
