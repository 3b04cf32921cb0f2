package pod

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
)

// TestGateway_ServesAgentOfPod: the gateway of deploy/gateway serves the agent of deploy/kubernetes. The harness has
// neither Services nor names, so the gateway is a container of the agent's Pod here and reaches the supervisor at
// 127.0.0.1.
func TestGateway_ServesAgentOfPod(t *testing.T) {
	var token string
	r := launch(t, []string{"/opt/agent/demoagent"}, func(m *Manifest, files map[string]map[string]string, dir string) {
		keys := filepath.Join(dir, "gateway")
		acphost := func(args ...string) string {
			cmd := exec.CommandContext(testkit.Context(t), filepath.Join(bin, "acphost"), args...)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("acphost %q: %v", args, err)
			}
			return strings.TrimSpace(string(out))
		}
		if err := os.Mkdir(keys, 0o700); err != nil {
			t.Fatal(err)
		}
		acphost("certs", "init", filepath.Join(keys, "keys"), "--host", "acphost-gateway")
		if out, err := exec.Command("cp", "-R", filepath.Join(dir, "keys", "callers", "gateway"), filepath.Join(keys, "keys", "gateway")).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		token = acphost("tokens", "create", "--file", filepath.Join(keys, "keys", "tokens.json"), "--role", "operator")
		kustomization, err := os.ReadFile("../../deploy/gateway/kustomization.yaml")
		if err == nil {
			err = os.WriteFile(filepath.Join(keys, "kustomization.yaml"), kustomization, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		more, err := LoadFiles(keys)
		if err != nil {
			t.Fatal(err)
		}
		for name, of := range more {
			files[name] = of
		}
		gateway, err := Load("../../deploy/gateway/gateway.yaml")
		if err != nil {
			t.Fatal(err)
		}
		c := gateway.Spec.Containers[0]
		c.SecurityContext.RunAsUser, c.SecurityContext.RunAsGroup = gateway.Spec.SecurityContext.RunAsUser, gateway.Spec.SecurityContext.RunAsGroup
		c.Args[slices.Index(c.Args, "--supervisor=agent:7443")] = "--supervisor=127.0.0.1:7443"
		renamed := map[string]string{}
		for _, v := range gateway.Spec.Volumes {
			renamed[v.Name] = "gateway-" + v.Name
			v.Name = renamed[v.Name]
			m.Spec.Volumes = append(m.Spec.Volumes, v)
		}
		for i := range c.VolumeMounts {
			c.VolumeMounts[i].Name = renamed[c.VolumeMounts[i].Name]
		}
		m.Spec.Containers = append(m.Spec.Containers, c)
	})
	r.agent()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return r.Dial(ctx, network, "127.0.0.1:7480")
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // as a kubelet does it
	}}
	get := func(path, bearer string) (int, string) {
		req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, "https://acphost-gateway"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if bearer != "" {
			req.Header.Set("Authorization", "Bearer "+bearer)
		}
		res, err := client.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(text)
	}
	if status, text := get("/agents", token); status != http.StatusOK || !strings.Contains(text, "demoagent") {
		t.Errorf("/agents: %d %s, want the agent of the Pod", status, text)
	}
	if status, text := get("/agents", ""); status != http.StatusUnauthorized {
		t.Errorf("/agents without a token: %d %s", status, text)
	}
	// A gateway finds a restarted supervisor. The duration of the restart depends on the machine, so the gateway may be
	// unready for too short a time to observe.
	r.Container("agent").Kill()
	r.Container("agent").Ready()
	r.eventually("the supervisor is back", func() bool { status, _ := get("/readyz", ""); return status == http.StatusOK })
	if n := r.Container("gatewayd").Starts(); n != 1 {
		t.Errorf("gatewayd was started %d times, want 1", n)
	}
}
