package host

import (
	"context"
	"net"
	"slices"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/sandbox/egress"
)

func TestProxy_EndsWithAgent(t *testing.T) {
	p, err := egress.Start(egress.Options{Decide: func(context.Context, egress.Target) egress.Decision { return egress.Decision{} }})
	if err != nil {
		t.Fatal(err)
	}
	w, agent := &agentProxy{proxy: p}, make(chan struct{})
	w.until(agent)
	open, err := net.Dial("tcp", w.address())
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	close(agent)
	w.wait(t.Context())
	if conn, err := net.Dial("tcp", w.address()); err == nil {
		_ = conn.Close()
		t.Error("the proxy listens though its agent has ended")
	}
	if _, err := open.Read(make([]byte, 1)); err == nil {
		t.Error("a connection is open though the agent has ended")
	}
	var none *agentProxy // an agent without one
	none.until(agent)
	none.wait(t.Context())
	none.close()
	if none.address() != "" {
		t.Errorf("it is at %s", none.address())
	}
}

func TestReplaced_ReplacesVariables(t *testing.T) {
	env := []string{"A=1", "HTTPS_PROXY=http://other", "NO_PROXY=*", "B=2", "HTTPS_PROXY=x"}
	got := replaced(env, []string{"HTTPS_PROXY=http://p", "NO_PROXY="})
	if want := []string{"A=1", "B=2", "HTTPS_PROXY=http://p", "NO_PROXY="}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if env[1] != "HTTPS_PROXY=http://other" {
		t.Errorf("the environment that was given is %q now", env)
	}
}
