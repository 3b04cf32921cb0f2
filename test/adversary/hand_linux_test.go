package adversary

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/adversary/orders"
	"github.com/acphost/acphost/test/wire"
)

// hand is an attacker's process that does what the test orders.
type hand struct {
	t    testing.TB
	name string // what failures call it
	pid  int
	s    *fixture
	conn *net.UnixConn
	in   *bufio.Reader
}

// hand waits for an attacker that comes to a stage.
func (s *fixture) awaitHand(name string, stage *wire.Stage) *hand {
	s.t.Helper()
	conn, in, pid := stage.Accept(s.t)
	return &hand{t: s.t, name: name, pid: pid, s: s, conn: conn, in: in}
}

// try orders something and returns how each thing that was tried went. The test fails if nothing was.
func (h *hand) try(deed string, args ...string) tries {
	h.t.Helper()
	a, err := h.order(deed, args...)
	if err != nil {
		h.t.Fatalf("%s did not try %s %q: %v", h.name, deed, args, err)
	}
	for _, t := range a {
		h.t.Logf("%s: %s", h.name, t)
	}
	return a
}

// order is try for an attacker that may well not survive it.
func (h *hand) order(deed string, args ...string) (tries, error) {
	line, err := json.Marshal(orders.Order{Do: deed, Args: args})
	if err != nil {
		return nil, err
	}
	if err := h.conn.SetDeadline(time.Now().Add(testkit.Timeout())); err != nil {
		return nil, err
	}
	if _, err := h.conn.Write(append(line, '\n')); err != nil {
		return nil, err
	}
	said, err := h.in.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("it is gone, or does not answer: %w", err)
	}
	var a orders.Answer
	if err := json.Unmarshal(said, &a); err != nil {
		return nil, err
	}
	if a.Failed != "" {
		return nil, errors.New(a.Failed)
	}
	if len(a.Tries) == 0 {
		return nil, errors.New("it tried nothing")
	}
	return a.Tries, nil
}

// refused orders something of which nothing may work.
func (h *hand) refused(deed string, args ...string) tries {
	h.t.Helper()
	all := h.try(deed, args...)
	for _, t := range all {
		if t.Err == "" {
			h.t.Errorf("ATTACK SUCCEEDED: %s: %s", h.name, t)
		}
	}
	return all
}

// spawn starts another attacker from this one; see the attacker's spawn.
func (h *hand) spawn(how string) *hand {
	h.t.Helper()
	stage := h.s.NewStage(h.t)
	h.try("spawn", stage.Path, how)
	return h.s.awaitHand("a "+how+" of "+h.name, stage)
}

// expectEnd waits until the attacker is gone.
func (h *hand) expectEnd() {
	h.t.Helper()
	if err := h.conn.SetReadDeadline(time.Now().Add(testkit.Timeout())); err != nil {
		h.t.Fatal(err)
	}
	_, err := h.in.ReadByte()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		h.t.Errorf("ATTACK SUCCEEDED: %s (process %d) lives on:\n%s", h.name, h.pid, wire.Describe([]int{h.pid}))
		h.leave()
		return
	}
	if err == nil || !(errors.Is(err, io.EOF) || strings.Contains(err.Error(), "reset")) {
		h.t.Errorf("%s: %v", h.name, err)
	}
}

// leave hangs up, which ends an attacker that acphost does not end.
func (h *hand) leave() { _ = h.conn.Close() }

// tries are what was tried.
type tries []orders.Try

// worked are those that nobody refused.
func (a tries) worked() (w tries) {
	for _, t := range a {
		if t.Err == "" {
			w = append(w, t)
		}
	}
	return w
}

// of is the one that tried something.
func (a tries) of(t testing.TB, what string) orders.Try {
	t.Helper()
	for _, one := range a {
		if one.What == what {
			return one
		}
	}
	t.Fatalf("%s was not tried: %v", what, a)
	return orders.Try{}
}
