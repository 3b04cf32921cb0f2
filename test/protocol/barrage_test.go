package protocol_test

import (
	"bytes"
	"flag"
	"fmt"
	"os/exec"
	"testing"

	"github.com/acphost/acphost/test/barrage"
	"github.com/acphost/acphost/test/e2e"
)

var (
	barrageFrames = flag.Int("frames", 4000, "how many messages the barrage through the binaries has")
	barrageSeed   = flag.Uint64("seed", 1, "what that barrage begins with")
)

// barrageRules decide by folders, as a barrage wants it.
const barrageRules = `
version: 1
rules:
  - {id: allowed, effect: allow, path: ["${root}/allow/**"]}
  - {id: denied, effect: deny, path: ["${root}/deny/**"]}
  - {id: sleeping, effect: allow, on: [terminal.create], command: ["sleep"]}
`

// TestBarrage_ThroughBinaries has a client and an agent process exchange random valid and broken messages through
// "acphost run", with its daemons and a policy.
func TestBarrage_ThroughBinaries(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	for n := range 10 {
		name := fmt.Sprint("f", n)
		p.File(t, "allow/"+name, name)
	}
	flags := p.Policy(t, barrageRules, "limits: {max_message_bytes: 600000}\n")
	st := p.Stage(t)
	args := append(append([]string{"run"}, flags...), append([]string{"--"}, st.Command...)...)
	cmd := exec.Command(e2e.Program("acphost"), args...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr = p.Work, p.Env(), &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // if there was no barrage
	conn, agentIn, _ := st.Accept(t)
	stats, err := barrage.Run(barrage.Options{
		Seed: *barrageSeed, Frames: *barrageFrames, Root: p.Work, MaxMessage: 600_000, Gated: "fs/delete_file",
		Client: barrage.End{W: in, R: out}, Agent: barrage.End{W: conn, R: agentIn},
		Wait: func() { _ = cmd.Wait() },
	})
	t.Logf("%+v", stats)
	if err != nil {
		t.Errorf("%v\nstandard error:\n%s", err, &stderr)
	}
}
