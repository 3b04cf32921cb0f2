package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// handPrefix is the word for a puppet that has a hand; the rest is the socket.
const handPrefix = "hand:"

// Hand is an agent's process that runs command lines by itself, without asking its client.
type Hand struct {
	t    testing.TB
	conn *net.UnixConn
	out  *json.Encoder
	in   *json.Decoder
}

// line is an order for a hand: a line for the shell, and the folder to run it in.
type line struct{ Line, Dir string }

// lineEnd is a hand's answer. Status is the exit status; if the shell could not be started it is 126, and Output is the
// reason.
type lineEnd struct {
	Status int
	Output string
}

// WithHand returns the word for FixtureWith by which the agent has a hand, and the function that waits for it.
func (p *Place) WithHand(t testing.TB) (how string, await func() *Hand) {
	t.Helper()
	side := p.NewStage(t)
	return handPrefix + side.Path, func() *Hand {
		t.Helper()
		conn, in, _ := side.Accept(t)
		return &Hand{t: t, conn: conn, out: json.NewEncoder(conn), in: json.NewDecoder(in)}
	}
}

// Run has the agent's process run a line, and waits for its end.
func (h *Hand) Run(text, dir string) (status int, output string) {
	h.t.Helper()
	var end lineEnd
	err := errors.Join(h.conn.SetDeadline(time.Now().Add(2*testkit.Timeout())), h.out.Encode(line{text, dir}), h.in.Decode(&end))
	if err != nil {
		h.t.Fatalf("the agent's own %q did not end: %v", text, err)
	}
	return end.Status, end.Output
}

// serveHand runs in the agent's process until the test hangs up.
func serveHand(socket string) error {
	conn, err := wire.Enter(socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	for {
		var l line
		if in.Decode(&l) != nil {
			return nil
		}
		if err := out.Encode(runLine(l)); err != nil {
			return err
		}
	}
}

func runLine(l line) lineEnd {
	var output bytes.Buffer
	cmd := exec.Command("/bin/sh", "-c", l.Line) // #nosec G204 -- the test's own line
	cmd.Dir, cmd.Stdout, cmd.Stderr = l.Dir, &output, &output
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return lineEnd{Status: 126, Output: err.Error()}
	}
	return lineEnd{Status: cmd.ProcessState.ExitCode(), Output: strings.ToValidUTF8(output.String(), "?")}
}
