// Package confirmsocket is the socket by which a person confirms, on a gateway's machine, that a browser may sign in: the
// gateway listens, and "acphost console" calls.
//
// An agent can run as the same user as the gateway, so three things that do not depend on one another keep it away, as they do
// from a supervisor's control socket: the socket is an abstract one, which an agent's Landlock domain cannot reach; a caller with
// more seccomp filters than the gateway is refused; and so is one below an agent, a handler or a supervisor. Callers of other
// users are refused, except root.
//
// Who calls takes the same look at who listens, because an agent can listen under such a name, too.
//
// The package knows sockets and who is at their ends. It must not know what a sign-in is.
package confirmsocket

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/peer"
)

const (
	// prefix begins the names of these sockets; the number of the user that listens, and the process's, follow.
	prefix = "@acphost-gatewayd/"
	// maxMessage bounds a request and an answer, in bytes.
	maxMessage = 1 << 20
	// readTimeout is how long a caller may take to say what it wants, and sendTimeout to read the answer.
	readTimeout, sendTimeout = 5 * time.Second, 5 * time.Second
	// maxCalls bounds the calls at once.
	maxCalls = 32
)

// ErrUnsupported says that the system has no sockets that agents can be kept from.
var ErrUnsupported = errors.New("this system has no sockets that agents can be kept from: sign in with a token")

// Request is what a person wants of a gateway: List, End, or something about Code. Code alone asks which browser shows it.
type Request struct {
	// Code is what the browser shows.
	Code string `json:"code,omitempty"`
	// Confirm lets the browser in that shows Code.
	Confirm *Confirm `json:"confirm,omitempty"`
	// List asks for those who are signed in.
	List bool `json:"list,omitempty"`
	// End signs out the one with this id.
	End string `json:"end,omitempty"`
}

// Confirm says as what a browser is let in.
type Confirm struct {
	// Role is viewer, approver or operator.
	Role string `json:"role"`
	// Seconds is how long it stays signed in.
	Seconds int `json:"seconds"`
}

// Answer is what a gateway answers.
type Answer struct {
	// Error is why not; empty: there is none.
	Error string `json:"error,omitempty"`
	// Known, with Error: this gateway knows the code that was asked about, so that no other one does.
	Known bool `json:"known,omitempty"`
	// Browser is the one that shows the code.
	Browser *Browser `json:"browser,omitempty"`
	// Session is the one that was confirmed and came in.
	Session *Session `json:"session,omitempty"`
	// Sessions are those who are signed in.
	Sessions []Session `json:"sessions,omitempty"`
}

// Browser is what is known of a browser. It says both itself, but for the address.
type Browser struct {
	Address string `json:"address"`
	Agent   string `json:"agent"`
}

// Session is a browser that is signed in.
type Session struct {
	ID      string    `json:"id"`
	Role    string    `json:"role"`
	How     string    `json:"how"` // "code", or the token's id
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	Browser Browser   `json:"browser"`
}

// Handler answers a request. ctx ends when the caller goes away.
type Handler func(ctx context.Context, r Request) Answer

// Serve answers callers until ctx ends, and then waits for its calls. name is what the socket is called, for logs; refused is
// told of each caller that was refused.
func Serve(ctx context.Context, l net.Listener, handle Handler, refused func(why error)) {
	var calls sync.WaitGroup
	defer calls.Wait()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	room := make(chan struct{}, maxCalls)
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		select {
		case room <- struct{}{}:
		default: // those who came wait for people: whoever comes then tries again
			_ = conn.Close()
			continue
		}
		calls.Go(func() {
			defer func() { _ = conn.Close(); <-room }()
			defer panics.Recover(nil, "answering a caller that confirms a browser", refused)
			answer(ctx, conn, handle, refused)
		})
	}
}

// answer answers the one request of a connection.
func answer(ctx context.Context, conn net.Conn, handle Handler, refused func(error)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })()
	caller, err := peer.Of(conn)
	if err == nil {
		defer caller.Close()
		err = mayCall(caller)
	}
	if err != nil {
		refused(err)
		send(conn, Answer{Error: err.Error()})
		return
	}
	var r Request
	_ = conn.SetReadDeadline(time.Now().Add(readTimeout))
	line, err := bufio.NewReader(io.LimitReader(conn, maxMessage)).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil {
		send(conn, Answer{Error: "the request cannot be read: use acphost and gatewayd of the same version"})
		return
	}
	// The caller says nothing more: what ends this read is its end.
	_ = conn.SetReadDeadline(time.Time{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer panics.Recover(nil, "waiting for a caller to go", func(error) { cancel() })
		_, _ = conn.Read(make([]byte, 1))
		cancel()
	}()
	send(conn, handle(ctx, r))
	cancel()
	<-gone
}

func send(conn net.Conn, a Answer) {
	_ = conn.SetWriteDeadline(time.Now().Add(sendTimeout))
	text, err := json.Marshal(a)
	if err == nil {
		_, _ = conn.Write(append(text, '\n'))
	}
}

// mayCall refuses a caller that is no person of this user.
func mayCall(c peer.Peer) error {
	if !c.Known || c.PID <= 0 || c.Process == nil {
		return errors.New("who calls cannot be told: call from the container that gatewayd runs in")
	}
	if c.UID != os.Geteuid() && c.UID != 0 {
		return fmt.Errorf("this is for user %d, as whom gatewayd runs, and for root: you are user %d", os.Geteuid(), c.UID)
	}
	return noAgent(c)
}

// noAgent refuses what an agent or a handler has started.
func noAgent(c peer.Peer) error {
	switch why, err := peer.NoPerson(c, os.Getpid()); {
	case err != nil:
		return fmt.Errorf("it cannot be told whether an agent is at the other end: %w", err)
	case why != "":
		return fmt.Errorf("this is for people, not for agents, handlers and what they start: %s", why)
	}
	return nil
}

// Call sends a request to the gateway that listens at a name, and waits for the answer until ctx ends. It calls nobody but a
// program of this user or, if this is root, of anybody; and no agent.
func Call(ctx context.Context, name string, r Request) (Answer, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", name)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	server, err := peer.Of(conn)
	if err == nil {
		defer server.Close()
		err = mayServe(server)
	}
	if err != nil {
		return Answer{}, err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return Answer{}, err
	}
	// Whoever is refused is told so before it has asked: then writing fails, and reading does not.
	_, _ = conn.Write(append(text, '\n'))
	line, err := bufio.NewReader(io.LimitReader(conn, maxMessage)).ReadBytes('\n')
	var a Answer
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	switch {
	case ctx.Err() != nil:
		return Answer{}, ctx.Err()
	case err != nil:
		return Answer{}, fmt.Errorf("gatewayd does not answer: %w", err)
	case a.Error != "":
		return a, errors.New(a.Error)
	}
	return a, nil
}

// mayServe refuses a server that is not a gateway which a person started.
func mayServe(c peer.Peer) error {
	if !c.Known || c.PID <= 0 || c.Process == nil {
		return errors.New("who listens cannot be told")
	}
	if me := os.Geteuid(); c.UID != me && c.UID != 0 && me != 0 {
		return fmt.Errorf("user %d listens, and you are user %d", c.UID, me)
	}
	if from, err := peer.FromAgent(c.PID); err != nil || from {
		return errors.Join(errors.New("an agent listens, or it cannot be told who does"), err)
	}
	return c.Process.Alive()
}

// parse reads the names out of the kernel's list of unix sockets.
func parse(list string, user int) []string {
	var names []string
	own := fmt.Sprintf("%s%d/", prefix, user)
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			continue
		}
		// A socket that listens has the flag of one that accepts (SO_ACCEPTCON).
		name := fields[len(fields)-1]
		if fields[3] == "00010000" && (strings.HasPrefix(name, own) || user == 0 && strings.HasPrefix(name, prefix)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
