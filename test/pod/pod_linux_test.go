package pod

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/test/gemini"
)

// works has the agent write a file, read it, and run a command, and expects all of it to be done where it should be.
func (r *running) works(agent *supervisorv1.Agent, session, name string) {
	r.t.Helper()
	path := "/workspace/" + name
	if message, how := r.prompt(agent, session, "/write "+path+" text of "+name); how != "end_turn" {
		r.t.Errorf("writing ended with %s: %q", how, message)
	}
	if text, err := os.ReadFile(filepath.Join(r.workspace, name)); err != nil || !strings.Contains(string(text), "text of "+name) {
		r.t.Errorf("the file holds %q (%v)", text, err)
	}
	if message, how := r.prompt(agent, session, "/read "+path); how != "end_turn" || !strings.Contains(message, "text of "+name) {
		r.t.Errorf("reading ended with %s: %q", how, message)
	}
	if message, how := r.prompt(agent, session, "/run cat "+name+" && id -u"); how != "end_turn" || !strings.Contains(message, "text of "+name) || !strings.Contains(message, r.user) {
		r.t.Errorf("the command ended with %s: %q", how, message)
	}
}

func TestPod_RunsWholeTurns(t *testing.T) {
	// The agent's own processes try what the walls around them are for, before it speaks ACP.
	script := `exec 2>/dev/null
		for key in /keys/*/*.key; do cat $key && echo "read $key"; done
		for dir in /programs /run/acphost /etc/acphost /workspace /keys /state /; do touch $dir/x && echo "wrote $dir"; done
		cat /etc/acphost/policy.yaml && echo "read the policy"
		for made in /state/*; do cat $made && echo "read $made"; echo x >> $made && echo "changed $made"; rm -r $made && echo "removed $made"; done
		mv /keys /kept && echo "moved the keys"
		exec /opt/agent/demoagent`
	r := launch(t, []string{"/bin/sh", "-c", "(" + strings.ReplaceAll(script, "\n\t\texec /opt/agent/demoagent", ") >/home/agent/tried 2>&1; exec /opt/agent/demoagent")}, nil)
	a := r.agent()
	r.works(a, r.open(a), "a.txt")
	if tried, err := os.ReadFile(filepath.Join(r.Volume("home"), "tried")); err != nil || len(tried) > 0 {
		t.Errorf("the agent could do more than it should: %s (%v)", tried, err)
	}
	// A caller's role counts.
	if _, err := r.caller("viewer").Sessions.NewSession(r.ctx, &supervisorv1.NewSessionRequest{AgentId: a.GetId(), Cwd: "/workspace"}); err == nil {
		t.Error("a viewer opened a session")
	}
	// The processes of handlers are not processes of the agent: each container has its own.
	for _, name := range []string{"fsd", "termd", "permd", "agent"} {
		if out, err := r.Container(name).Exec(r.ctx, "/usr/bin/id").CombinedOutput(); name == "fsd" && err == nil {
			t.Errorf("an image from scratch has /usr/bin/id: %s", out)
		}
	}
}

func TestPod_RestartsKilledContainers(t *testing.T) {
	r := launch(t, []string{"/opt/agent/demoagent"}, nil)
	a := r.agent()
	session := r.open(a)
	r.works(a, session, "before.txt")
	for _, name := range []string{"fsd", "termd", "permd"} {
		r.Container(name).Kill()
		r.Container(name).Ready()
		r.connected(3)
		r.works(a, session, "after-"+name)
	}
	r.Container("agent").Kill()
	r.Container("agent").Ready()
	r.Client = r.caller("operator")
	a = r.agent()
	r.works(a, r.open(a), "after-agent")
	for _, name := range []string{"fsd", "termd", "permd", "agent"} {
		if n := r.Container(name).Starts(); n != 2 {
			t.Errorf("%s was started %d times, want 2", name, n)
		}
	}
}

// connected waits until the supervisor is connected to the given number of handlers. Before that, acphost asks about
// files that it cannot examine.
func (r *running) connected(handlers int) {
	r.t.Helper()
	r.eventually("a handler was lost", func() bool {
		list, err := r.State.ListHandlers(r.ctx, &supervisorv1.ListHandlersRequest{})
		ready := 0
		for _, h := range list.GetHandlers() {
			if h.GetState() == supervisorv1.HandlerState_HANDLER_STATE_READY {
				ready++
			}
		}
		return err == nil && ready == handlers
	})
}

// eventually waits until something holds.
func (r *running) eventually(after string, holds func() bool) {
	r.t.Helper()
	for !holds() {
		select {
		case <-r.ctx.Done():
			r.t.Fatalf("it does not work again after %s; the agent sent last %q", after, r.last)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func TestPod_PolicyChangesWhileRunning(t *testing.T) {
	r := launch(t, []string{"/opt/agent/demoagent"}, nil)
	a := r.agent()
	session := r.open(a)
	r.works(a, session, "a.txt")
	was := r.cluster.Files["acphost-policy"]["policy.yaml"]
	r.Change("acphost-policy", "policy.yaml", was+"  - {id: frozen, effect: deny, on: [fs.write], path: [\"**\"], reason: Nothing is written today.}\n")
	r.eventually("the policy became stricter", func() bool {
		message, _ := r.prompt(a, session, "/write /workspace/b.txt x")
		return strings.Contains(message, "Nothing is written today")
	})
	// Looser rules apply when a person changes them.
	r.Change("acphost-policy", "policy.yaml", was)
	r.eventually("the policy became looser", func() bool {
		if out, err := r.Container("agent").Exec(r.ctx, "/programs/acphost", "policy", "reload").CombinedOutput(); err != nil {
			t.Fatalf("acphost policy reload: %v %s", err, out)
		}
		_, err := os.Stat(filepath.Join(r.Volume("workspace"), "c.txt"))
		if err != nil {
			_, _ = r.prompt(a, session, "/write /workspace/c.txt x")
		}
		return err == nil
	})
	// A policy in another language replaces permd.
	python, err := exec.Command("../python.sh").Output()
	if err != nil {
		t.Skipf("the policy in Python needs gRPC for Python: %v", err)
	}
	prepare := exec.Command(filepath.Join(work, "python", "generate.sh"), abs(t, "../../proto"))
	prepare.Env = append(os.Environ(), "PATH="+abs(t, "../../.tools/npm/node_modules/.bin")+":"+os.Getenv("PATH"))
	if out, err := prepare.CombinedOutput(); err != nil {
		t.Fatalf("prepare the policy in Python: %v %s", err, out)
	}
	r.SetImage("permd", "agent", []string{strings.TrimSpace(string(python)), "/opt/python/policy.py"}, []string{
		"--listen=unix:///run/acphost/permd.sock", "--tls-ca=/keys/ca.crt", "--tls-cert=/keys/server.crt", "--tls-key=/keys/server.key",
	})
	r.eventually("another policy took permd's place", func() bool {
		message, _ := r.prompt(a, session, "/read /workspace/.env")
		return strings.Contains(message, "keys and credentials are not for agents")
	})
	if message, how := r.prompt(a, session, "/read /workspace/a.txt"); how != "end_turn" || !strings.Contains(message, "text of a.txt") {
		t.Errorf("reading ended with %s: %q", how, message)
	}
}

func abs(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPod_DeletionEndsTurns(t *testing.T) {
	r := launch(t, []string{"/opt/agent/demoagent"}, nil)
	a := r.agent()
	session := r.open(a)
	turn, err := r.Prompt(r.ctx, &supervisorv1.PromptRequest{AgentId: a.GetId(), SessionId: session, Prompt: []*supervisorv1.ContentBlock{client.Text("slow 20 50")}})
	if err != nil {
		t.Fatal(err)
	}
	begun, ended := make(chan struct{}), make(chan string, 1)
	go func() {
		heard := false
		for e, err := range turn.Events() {
			if err != nil {
				ended <- err.Error()
				return
			}
			if e.GetAgentMessage() != nil && !heard {
				heard = true
				close(begun)
			}
		}
		end, err := turn.End()
		if err != nil {
			ended <- err.Error()
			return
		}
		ended <- end.GetStopReason()
	}()
	<-begun
	deleted := make(chan struct{})
	go func() { defer close(deleted); r.Delete() }()
	if how := <-ended; how != "end_turn" {
		t.Errorf("the turn that was under way ended with %s", how)
	}
	<-deleted
	for _, c := range r.all {
		if strings.Contains(c.Log(), "grace period") {
			t.Errorf("the container %s had to be killed:\n%s", c.spec.Name, c.Log())
		}
	}
}

func TestPod_RunsGemini(t *testing.T) {
	// The CLI asks a model of a script, which listens in the Pod's network.
	var r *running
	const cli = "node_modules/@google/gemini-cli/bundle/gemini.js"
	if _, err := os.Stat(filepath.Join("../peers", cli)); err != nil {
		t.Fatalf("Gemini CLI is not installed; run \"make test-deps\": %v", err)
	}
	settings := "mkdir -p $HOME/.gemini && printf '%s' \"$SETTINGS\" >$HOME/.gemini/settings.json && exec node /opt/peers/" + cli + " --acp"
	r = launch(t, []string{"/bin/sh", "-c", settings}, func(m *Manifest, _ map[string]map[string]string, _ string) {
		for i := range m.Spec.Containers {
			c := &m.Spec.Containers[i]
			for _, v := range append(gemini.Variables("http://127.0.0.1:8099"), "SETTINGS="+gemini.Settings, "ACPHOST_AGENT_NAME=gemini") {
				name, value, _ := strings.Cut(v, "=")
				c.Env = append(c.Env, Variable{Name: name, Value: value})
			}
		}
	})
	listener, err := r.Listen(r.ctx, "tcp", "127.0.0.1:8099")
	if err != nil {
		t.Fatal(err)
	}
	model := gemini.ServeOn(t, listener,
		gemini.Step{Calls: []gemini.Call{{Name: "write_file", Args: map[string]any{"file_path": "/workspace/made.txt", "content": "by Gemini\n"}}}},
		gemini.Step{Text: "It is written."})
	a := r.agent()
	session := r.open(a)
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	go r.allowAll(ctx)
	if message, how := r.prompt(a, session, "Please write made.txt."); how != "end_turn" || !strings.Contains(message, "It is written.") {
		t.Errorf("the turn ended with %s: %q; the model was asked what it does not know: %q", how, message, model.Strange())
	}
	if text, err := os.ReadFile(filepath.Join(r.Volume("workspace"), "made.txt")); err != nil || string(text) != "by Gemini\n" {
		t.Errorf("the file holds %q (%v)", text, err)
	}
	if out, err := r.Container("agent").Exec(r.ctx, "/programs/acphost", "audit", "query", "--json").Output(); err != nil || !strings.Contains(string(out), "made.txt") {
		t.Errorf("the record of decisions does not contain the file: %v %s", err, out)
	}
}

// allowAll answers every question with what allows it once.
func (r *running) allowAll(ctx context.Context) {
	asked, err := r.WatchApprovals(ctx, &supervisorv1.WatchApprovalsRequest{})
	if err != nil {
		return
	}
	for q, err := range asked {
		if err != nil {
			return
		}
		a := q.GetAsked()
		for _, o := range a.GetPermission().GetOptions() {
			if o.GetKind() == "allow_once" {
				_, _ = r.Answer(ctx, a.GetId(), "test", client.Choose(o.GetOptionId()))
			}
		}
	}
}
