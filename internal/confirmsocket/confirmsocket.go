// Package confirmsocket is the socket on which a person confirms, on a gateway's machine, that a browser may sign in.
// The gateway listens, and "acphost console" calls.
//
// An agent can run as the same user as the gateway, so three independent checks keep it out, as for a supervisor's
// control socket: the socket is abstract, which an agent's Landlock domain cannot reach; the gateway rejects a caller
// with more seccomp filters than its own; and it rejects a caller that is a descendant of an agent, a handler or a
// supervisor. It rejects callers of other users, except root.
//
// The caller checks the listener in the same way, because an agent can listen under such a name, too.
//
// The package knows sockets and the processes at their ends. It must not know sign-ins.
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
	// prefix begins the names of these sockets. The user id and the process id of the listener follow.
	prefix = "@acphost-gatewayd/"
	// maxMessage is the limit of a request and of an answer, in bytes.
	maxMessage = 1 << 20
	// readTimeout limits the time for reading a request, and sendTimeout the time for writing an answer.
	readTimeout, sendTimeout = 5 * time.Second, 5 * time.Second
	// maxCalls is the limit of concurrent calls.
	maxCalls = 32
)

// ErrUnsupported means that the system has no sockets that agents cannot reach.
var ErrUnsupported = errors.New("this system has no sockets that agents can be kept from: sign in with a token")

// Request is a person's request to a gateway: List, End, or an action for Code. Code alone asks for the browser that
// shows it.
type Request struct {
	// Code is the code that the browser shows.
	Code string `json:"code,omitempty"`
	// Confirm signs in the browser that shows Code.
	Confirm *Confirm `json:"confirm,omitempty"`
	// List requests the browsers that are signed in.
	List bool `json:"list,omitempty"`
	// End signs out the session with this id.
	End string `json:"end,omitempty"`
}

// Confirm has the role and the lifetime of a sign-in.
type Confirm struct {
	// Role is viewer, approver or operator.
	Role string `json:"role"`
	// Seconds is the lifetime of the sign-in.
	Seconds int `json:"seconds"`
}

// Answer is a gateway's answer.
type Answer struct {
	// Error is the reason for a failure. Empty after a success.
	Error string `json:"error,omitempty"`
	// Known, with Error, means that this gateway issued the code, so that no other gateway has to be asked.
	Known bool `json:"known,omitempty"`
	// Browser is the browser that shows the code.
	Browser *Browser `json:"browser,omitempty"`
	// Session is the session that the confirmation created.
	Session *Session `json:"session,omitempty"`
	// Sessions are the browsers that are signed in.
	Sessions []Session `json:"sessions,omitempty"`
}

// Browser describes a browser. All of it except the address is the browser's own claim.
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

// Handler answers a request. ctx ends when the caller disconnects.
type Handler func(ctx context.Context, r Request) Answer

// Serve answers callers until ctx ends, and then waits for its calls. It calls refused with the reason for each caller
// that it rejects.
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
		default: // the active calls wait for people: new callers try again later
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

// answer reads one request from a connection and answers it.
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
	// The caller sends nothing more, so this read ends when the caller disconnects.
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

// mayCall returns an error unless the caller is a person who runs as this user or as root.
func mayCall(c peer.Peer) error {
	if !c.Known || c.PID <= 0 || c.Process == nil {
		return errors.New("the caller cannot be identified: call from the container that gatewayd runs in")
	}
	if c.UID != os.Geteuid() && c.UID != 0 {
		return fmt.Errorf("this is for user %d, as whom gatewayd runs, and for root: you are user %d", os.Geteuid(), c.UID)
	}
	return noAgent(c)
}

// noAgent returns an error for a process that an agent or a handler started.
func noAgent(c peer.Peer) error {
	switch why, err := peer.NoPerson(c, os.Getpid()); {
	case err != nil:
		return fmt.Errorf("cannot determine whether the other end is an agent: %w", err)
	case why != "":
		return fmt.Errorf("this is for people, not for agents, handlers and what they start: %s", why)
	}
	return nil
}

// Call sends a request to the gateway that listens at a name, and waits for the answer until ctx ends. It accepts a
// listener of this user only (root: of any user), and rejects one that an agent started.
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
	// The gateway sends a rejection before it reads the request. Then this write may fail, and the read below succeeds.
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

// mayServe returns an error for a server that was not started by a person.
func mayServe(c peer.Peer) error {
	if !c.Known || c.PID <= 0 || c.Process == nil {
		return errors.New("the listening process cannot be identified")
	}
	if me := os.Geteuid(); c.UID != me && c.UID != 0 && me != 0 {
		return fmt.Errorf("user %d listens, and you are user %d", c.UID, me)
	}
	if from, err := peer.FromAgent(c.PID); err != nil || from {
		return errors.Join(errors.New("the listening process is an agent, or cannot be identified"), err)
	}
	return c.Process.Alive()
}

// parse returns the names in the kernel's list of unix sockets.
func parse(list string, user int) []string {
	var names []string
	own := fmt.Sprintf("%s%d/", prefix, user)
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			continue
		}
		// The flag SO_ACCEPTCON marks a listening socket.
		name := fields[len(fields)-1]
		if fields[3] == "00010000" && (strings.HasPrefix(name, own) || user == 0 && strings.HasPrefix(name, prefix)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
