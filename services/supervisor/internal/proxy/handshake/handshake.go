// Package handshake queries the description of an agent: it starts the agent, sends initialize, reads the answer, and
// ends the agent. It opens no session and calls no handler.
//
// The commands doctor and login use it. It knows how the process of an agent is run, and the contents of initialize.
// Package link is for agents that run longer.
package handshake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
)

const (
	// maxLine limits the bytes of a line that is read before the answer.
	maxLine = 16 << 20
	// stopTimeout limits the time that the agent may take to end after the exchange.
	stopTimeout = 15 * time.Second
	// endTimeout limits the time that an agent may take to exit after it closed its output, so that its exit can be
	// reported.
	endTimeout = 2 * time.Second
	// maxSkipped limits the number of messages before the answer.
	maxSkipped = 1000
)

// Answer is the description that an agent sends of itself.
type Answer struct {
	// Name and Version are empty if the agent does not send them.
	Name, Version string
	// Protocol is the version of ACP that the agent speaks, or 0 if it does not send one.
	Protocol int
	// Capabilities is the raw member agentCapabilities (ACP 2: capabilities), or nil if it is missing.
	Capabilities []byte
	// AuthMethods are the ways to log in.
	AuthMethods []AuthMethod
	// Took is the time from the start of the process to the answer.
	Took time.Duration
	// Walls are the confinements that the agent was started with.
	Walls proc.Restrictions
}

// AuthMethod is a way to log in.
type AuthMethod struct {
	// ID is the argument of authenticate. Type is "agent", "terminal", "env_var", or another text that the agent sent.
	ID, Type string
	// Name and Description are shown to users.
	Name, Description string
	// Args and Env are added to the command line and the environment of the agent, if Type is "terminal".
	Args, Env []string
}

// Unanswered is the error of an agent that did not answer initialize before the context of Ask ended.
type Unanswered struct {
	// Waited is the time that Ask waited.
	Waited time.Duration
	// StderrLine is the last line of the agent's standard error, or empty.
	StderrLine string
	// Dropped is the beginning of the first line of output that is not a message, or empty.
	Dropped string
	// Cause is the error of the context.
	Cause error
}

// Error returns the message for users.
func (u *Unanswered) Error() string {
	said := ""
	if u.StderrLine != "" {
		said = " (its last error output: " + u.StderrLine + ")"
	}
	if waited := u.Waited.Round(100 * time.Millisecond); errors.Is(u.Cause, context.DeadlineExceeded) {
		said = fmt.Sprintf("it did not answer initialize within %v", waited) + said
	} else {
		said = fmt.Sprintf("the wait for its answer to initialize was interrupted after %v", waited) + said
	}
	return said + jsonrpc.DroppedNote(u.Dropped)
}

// Unwrap returns the cause.
func (u *Unanswered) Unwrap() error { return u.Cause }

// Query starts an agent, sends it initialize, and ends it. The clientInfo names acphost in the given version, as a
// client that can run the agent on a terminal to log in. ctx limits the time to the answer. When Ask returns, no
// process of the agent is left, or the error says so. If the agent exited without an answer, the error wraps an
// agent.Exit. If ctx ended before the answer, it wraps an *Unanswered.
func Query(ctx context.Context, spec agent.Spec, version string) (answer *Answer, err error) {
	began := time.Now()
	p, err := agent.Start(spec)
	if err != nil {
		return nil, err
	}
	replies := make(chan reply, 1)
	x := &exchange{p: p}
	go func() {
		defer close(replies)
		defer panics.Recover(nil, "reading an agent's answer to initialize", func(err error) { replies <- reply{err: err} })
		replies <- x.run(version)
		_, _ = io.Copy(io.Discard, p.Stdout()) // unread output would block the exit of the agent
		_ = p.Stdout().Close()
	}()
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if stopErr := p.Stop(stop); stopErr != nil {
			_ = p.Stdout().Close()
			err = errors.Join(err, stopErr)
		}
		for range replies { // wait for the goroutine that reads
		}
	}()
	select {
	case r := <-replies:
		if r.err != nil {
			return nil, x.explain(r)
		}
		r.answer.Took, r.answer.Walls = time.Since(began), p.Restrictions()
		return r.answer, nil
	case <-ctx.Done():
		u := &Unanswered{Waited: time.Since(began), Dropped: x.firstDropped(), Cause: context.Cause(ctx)}
		if tail := p.StderrTail(); len(tail) > 0 {
			u.StderrLine = tail[len(tail)-1]
		}
		return nil, u
	}
}

// reply is the result of the exchange. closed says that the agent closed its output. code is the code of the error that
// the agent answered with.
type reply struct {
	answer *Answer
	closed bool
	code   int64
	err    error
}

// exchange is one initialize request and its answer.
type exchange struct {
	p       *agent.Process
	dropped atomic.Pointer[string] // the beginning of the first line that is not a message
}

// explain returns the error for a missing answer. It includes the exit of the agent if that is the reason.
func (x *exchange) explain(r reply) error {
	if !r.closed {
		return r.err
	}
	select {
	case <-x.p.Done():
		return fmt.Errorf("it ended before it answered initialize: %w%s", x.p.Exit(), jsonrpc.DroppedNote(x.firstDropped()))
	case <-time.After(endTimeout):
		return errors.New("it closed its standard output before it answered initialize, though it still runs" + jsonrpc.DroppedNote(x.firstDropped()))
	}
}

func (x *exchange) firstDropped() string {
	if first := x.dropped.Load(); first != nil {
		return *first
	}
	return ""
}

// run sends initialize and reads messages up to its answer. If the agent rejects version 1 of ACP, run offers version
// 2.
func (x *exchange) run(version string) reply {
	lines := jsonrpc.NewReader(x.p.Stdout(), maxLine)
	r := x.ask(lines, "0", params(version))
	if r.code == acp.CodeUnsupportedVersion {
		return x.ask(lines, "1", params2(version))
	}
	return r
}

// ask sends one initialize and reads messages up to its answer.
func (x *exchange) ask(lines *jsonrpc.Reader, id string, params []byte) reply {
	if _, err := x.p.Stdin().Write(jsonrpc.AppendRequest(nil, []byte(id), acp.MethodInitialize, params)); err != nil {
		return reply{closed: true, err: fmt.Errorf("write initialize: %w", err)}
	}
	var scanner jsonrpc.Scanner
	for range maxSkipped {
		line, err := lines.Next()
		if err != nil {
			_, tooLong := errors.AsType[*jsonrpc.TooLong](err)
			return reply{closed: !tooLong, err: fmt.Errorf("read the answer to initialize: %w", err)}
		}
		var m jsonrpc.Message
		if wrong := scanner.Scan(line, &m); wrong != nil {
			if wrong.Code == jsonrpc.CodeParse {
				if begins := short(string(line)); strings.TrimSpace(begins) != "" {
					x.dropped.CompareAndSwap(nil, &begins)
				}
				continue // some agents print a banner
			}
			return reply{err: fmt.Errorf("it answered initialize with what is no message: %w", wrong)}
		}
		if m.Kind != jsonrpc.KindResponse || jsonrpc.CanonicalID(m.ID) != jsonrpc.CanonicalID([]byte(id)) {
			continue
		}
		if m.Error != nil {
			code, _ := acp.Int(acp.Get(m.Error, "code"), 32)
			return reply{code: code, err: fmt.Errorf("it refused initialize: %s", short(event.Words(m.Error)))}
		}
		return reply{answer: parse(m.Result)}
	}
	return reply{err: fmt.Errorf("it wrote %d lines and no answer to initialize among them%s", maxSkipped, jsonrpc.DroppedNote(x.firstDropped()))}
}

func params(version string) []byte {
	p := []byte(`{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true,` +
		`"auth":{"terminal":true}},"clientInfo":{"name":"acphost","title":"acphost","version":`)
	return append(jsonrpc.AppendString(p, version), "}}"...)
}

func params2(version string) []byte {
	p := []byte(`{"protocolVersion":2,"capabilities":{"auth":{"terminal":{}}},"info":{"name":"acphost","title":"acphost","version":`)
	return append(jsonrpc.AppendString(p, version), "}}"...)
}

// parse reads the result of initialize. Members that cannot be parsed count as missing.
func parse(result []byte) *Answer {
	known := acp.ParseInitialized(result)
	a := &Answer{Name: short(known.Name), Version: short(known.Version), Protocol: known.ProtocolVersion}
	capabilities, method := "agentCapabilities", "id"
	if a.Protocol >= 2 {
		capabilities, method = "capabilities", "methodId"
	}
	if c := acp.Get(result, capabilities); len(c) > 0 && c[0] == '{' {
		a.Capabilities = append([]byte(nil), c...)
	}
	_ = acp.Elements(acp.Get(result, "authMethods"), func(raw []byte) bool {
		m := AuthMethod{ID: text(raw, method), Type: text(raw, "type"), Name: text(raw, "name"), Description: text(raw, "description")}
		m.Type = cmp.Or(m.Type, "agent")
		if args, ok := acp.Strings(acp.Get(raw, "args")); ok {
			m.Args = args
		}
		m.Env = variables(acp.Get(raw, "env"))
		a.AuthMethods = append(a.AuthMethods, m)
		return len(a.AuthMethods) < 32
	})
	return a
}

// variables reads an environment. It is an object or a list of names and values, depending on the version of the
// protocol.
func variables(raw []byte) []string {
	var list []string
	add := func(name string, value []byte) {
		if v, ok := acp.String(value); ok && name != "" {
			list = append(list, name+"="+v)
		}
	}
	if len(raw) > 0 && raw[0] == '[' {
		_ = acp.Elements(raw, func(v []byte) bool {
			name, _ := acp.String(acp.Get(v, "name"))
			add(name, acp.Get(v, "value"))
			return true
		})
		return list
	}
	_ = acp.Members(raw, func(name string, value []byte) bool {
		add(name, value)
		return true
	})
	return list
}

func text(raw []byte, name string) string {
	s, _ := acp.String(acp.Get(raw, name))
	return short(s)
}

// short shortens a text of the agent to one line that can be shown.
func short(s string) string {
	const limit = 300
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return s
}
