package pod

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/test/wire"
)

// Shared by the tests of this package: the programs, the unpacked images and "enter".
var (
	bin, work string
	shared    Cluster
	prepared  = sync.OnceValue(prepare)
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if work, err = os.MkdirTemp("", "acphost-pod-"); err == nil {
			err = os.Chmod(work, 0o755)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(work)
		return wire.RunTests(m)
	}())
}

// prepare unpacks the images of "make images", which lie beside the programs, and makes the image of the agent: the
// programs and libraries of this machine, the demo's agent, and Gemini CLI.
func prepare() error {
	if bin = os.Getenv("ACPHOST_BIN"); bin == "" {
		return fmt.Errorf("the containers need programs and images: run \"make pod\"")
	}
	shared = Cluster{Images: map[string]*Image{}, Enter: filepath.Join(work, "enter")}
	if err := wire.Build("../..", work, "./test/pod/enter"); err != nil {
		return err
	}
	for _, name := range []string{"acphost", "fsd", "permd", "gatewayd"} {
		image, err := Unpack(filepath.Join(bin, "images", name+".oci.tar"), filepath.Join(work, name))
		if err != nil {
			return fmt.Errorf("%w; \"make images\" makes the images", err)
		}
		shared.Images[name] = image
	}
	agent := &Image{
		Root: filepath.Join(work, "agent"), Env: []string{"PATH=/opt/agent:/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"},
		Binds: [][2]string{{"/usr", "/usr"}},
	}
	for _, dir := range []string{"etc", "tmp", "home/agent", "home/tools", "opt/agent", "opt/peers", "opt/python", "usr", "proc", "dev", "run"} {
		if err := os.MkdirAll(filepath.Join(agent.Root, dir), 0o755); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"etc/passwd": "root:x:0:0::/:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/sh\ntools:x:2001:2001::/home/tools:/bin/sh\n",
		"etc/group":  "root:x:0:\nagent:x:1000:\ntools:x:2001:\n", "etc/hosts": "127.0.0.1 localhost\n",
	} {
		if err := os.WriteFile(filepath.Join(agent.Root, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib64"} {
		if to, err := os.Readlink(dir); err == nil {
			if err := os.Symlink(to, filepath.Join(agent.Root, dir)); err != nil {
				return err
			}
		} else if _, err := os.Stat(dir); err == nil {
			agent.Binds = append(agent.Binds, [2]string{dir, dir})
		}
	}
	peers, err := filepath.Abs("../peers")
	if err != nil {
		return err
	}
	python := filepath.Join(work, "python")
	if out, err := exec.Command("cp", "-R", "../../examples/python", python).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the handlers in Python: %w %s", err, out)
	}
	agent.Binds = append(agent.Binds, [2]string{bin, "/opt/agent"}, [2]string{peers, "/opt/peers"}, [2]string{python, "/opt/python"})
	// Node may be elsewhere than in /usr.
	if node, err := exec.LookPath("node"); err == nil {
		if node, err = filepath.EvalSymlinks(node); err == nil && !strings.HasPrefix(node, "/usr/") {
			if err := os.MkdirAll(filepath.Join(agent.Root, "opt/node"), 0o755); err != nil {
				return err
			}
			agent.Binds = append(agent.Binds, [2]string{filepath.Dir(node), "/opt/node"})
			agent.Env[0] += ":/opt/node"
		}
	}
	shared.Images["agent"] = agent
	return nil
}

// pods is where the manifests are.
const pods = "../../deploy/kubernetes"

// running is the Pod of deploy/kubernetes, and what a caller needs.
type running struct {
	*Pod
	*client.Client
	t    testing.TB
	keys string
	ctx  context.Context
	// workspace is the folder of the workspace on this machine, and user the user that runs commands.
	workspace, user string
	last            string // the agent's last message
}

// launch starts the Pod of deploy/kubernetes with an agent. change, if not nil, changes the manifest and its files
// first.
func launch(t testing.TB, agent []string, change func(m *Manifest, files map[string]map[string]string, dir string)) *running {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("containers of several users are started by root alone: run this as root")
	}
	if err := prepared(); err != nil {
		t.Fatal(err)
	}
	m, err := Load(filepath.Join(pods, "agent.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir() // a kustomization needs its keys below it
	if out, err := exec.Command("cp", "-R", pods+"/.", dir).CombinedOutput(); err != nil {
		t.Fatalf("copy the manifests: %v %s", err, out)
	}
	keys := filepath.Join(dir, "keys")
	make := exec.Command(filepath.Join(dir, "keys.sh"))
	make.Env = append(os.Environ(), "ACPHOST="+filepath.Join(bin, "acphost"))
	if out, err := make.CombinedOutput(); err != nil {
		t.Fatalf("make the keys: %v %s", err, out)
	}
	files, err := LoadFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Spec.Containers {
		if c := &m.Spec.Containers[i]; c.Name == "agent" {
			c.Args = slices.Concat(c.Args[:slices.Index(c.Args, "--")+1], agent)
		}
	}
	if change != nil {
		change(m, files, dir)
	}
	cluster := shared
	cluster.Files = files
	r := &running{t: t, keys: keys, user: "2001"}
	r.ctx = testkit.Context(t)
	r.Pod = Start(t, m, cluster)
	r.workspace = r.Volume("workspace")
	r.Client = r.caller("operator")
	return r
}

// caller connects to the supervisor with the key of a role.
func (r *running) caller(role string) *client.Client {
	r.t.Helper()
	dir := filepath.Join(r.keys, "callers", role)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key"))
	if err != nil {
		r.t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		r.t.Fatal(err)
	}
	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM(text)
	conn, err := grpc.NewClient("passthrough:///127.0.0.1:7443",
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: authority, ServerName: "localhost"})),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return r.Dial(ctx, "tcp", address) }))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	return client.New(conn)
}

// agent waits for the Pod's agent.
func (r *running) agent() *supervisorv1.Agent {
	r.t.Helper()
	for {
		list, err := r.Agents.ListAgents(r.ctx, &supervisorv1.ListAgentsRequest{})
		if err != nil {
			r.t.Fatalf("list the agents: %v", err)
		}
		if len(list.GetAgents()) == 1 && list.GetAgents()[0].GetState() == supervisorv1.AgentState_AGENT_STATE_RUNNING {
			return list.GetAgents()[0]
		}
		select {
		case <-r.ctx.Done():
			r.t.Fatalf("there is no agent: %v", list)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// open opens a session in the workspace.
func (r *running) open(agent *supervisorv1.Agent) string {
	r.t.Helper()
	s, err := r.Sessions.NewSession(r.ctx, &supervisorv1.NewSessionRequest{AgentId: agent.GetId(), Cwd: "/workspace"})
	if err != nil {
		r.t.Fatalf("open a session: %v", err)
	}
	return s.GetSession().GetSessionId()
}

// prompt has a turn, and returns the agent's message and how the turn ended.
func (r *running) prompt(agent *supervisorv1.Agent, session, text string) (message, how string) {
	r.t.Helper()
	defer func() { r.last = message + ": " + how }()
	turn, err := r.Prompt(r.ctx, &supervisorv1.PromptRequest{AgentId: agent.GetId(), SessionId: session, Prompt: []*supervisorv1.ContentBlock{client.Text(text)}})
	if err != nil {
		return "", err.Error()
	}
	var words strings.Builder
	for e, err := range turn.Events() {
		if err != nil {
			return words.String(), err.Error()
		}
		if os.Getenv("POD_LOG") != "" {
			fmt.Fprintln(os.Stderr, time.Now().Format("05.000"), e)
		}
		words.WriteString(e.GetAgentMessage().GetContent().GetText().GetText())
	}
	end, err := turn.End()
	if err != nil {
		return words.String(), err.Error()
	}
	return words.String(), end.GetStopReason()
}
