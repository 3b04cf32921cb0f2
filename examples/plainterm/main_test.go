package main

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/sdk/conformance"
	"github.com/acphost/acphost/sdk/handlertest"
)

func TestMain(m *testing.M) {
	killGrace = 400 * time.Millisecond // each case that ends a stubborn command waits for it
	goleak.VerifyTestMain(m)
}

func TestConformance(t *testing.T) {
	handlertest.Run(t, conformance.KindTerminal, newHandler(), func(s *conformance.Suite) { s.NoTTY = true })
}

func TestReleaseScope_EndsCommandsOfScope(t *testing.T) {
	s := &terminals{}
	defer s.releaseScope("")
	run := func(scope string) *terminal {
		t.Helper()
		started, err := s.start(scope, command{argv: []string{"sleep", "1000"}, program: "/bin/sleep", dir: "/"}, 100)
		if err != nil {
			t.Fatal(err)
		}
		return started
	}
	ours, theirs := run("ours"), run("theirs")
	s.releaseScope("ours")
	if ours.exit().GetSignal() != "SIGKILL" || theirs.exit() != nil {
		t.Errorf("the command of the scope: %v; another one's: %v", ours.exit(), theirs.exit())
	}
	if _, err := s.find("ours", ours.info.GetTerminalId(), true); status.Code(err) != codes.NotFound {
		t.Errorf("the terminal of the scope: %v", err)
	}
	if _, err := s.find("theirs", theirs.info.GetTerminalId(), false); err != nil {
		t.Errorf("another one's: %v", err)
	}
}

func TestEnvironment_OmitsSecretsOfHandler(t *testing.T) {
	t.Setenv("SOME_TOKEN", "secret")
	env, err := environment(&terminalv1.CreateRequest{Env: []*terminalv1.EnvVariable{{Name: "A", Value: "b"}}}, "/")
	if err != nil || !slices.Contains(env, "A=b") || slices.Contains(env, "SOME_TOKEN=secret") {
		t.Errorf("environment = %q, %v", env, err)
	}
}
