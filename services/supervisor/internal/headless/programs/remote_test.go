package programs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// afar is a client elsewhere, as a test plays it.
type afar struct {
	t      *testing.T
	toUs   *io.PipeWriter // what it sends
	fromUs *bufio.Reader
	cut    context.CancelFunc
	opened chan *supervisorv1.Agent
	err    chan error
}

// withBot has an agent for clients elsewhere.
func withBot(o *Options) {
	o.GatewayAgents = map[string]*supervisorv1.StartAgentRequest{"bot": {Command: []string{"/opt/bot", "--acp"}}}
}

// openAfar opens an agent as a client elsewhere does.
func (r *rig) openAfar(name string) *afar {
	r.t.Helper()
	in, toUs := io.Pipe()
	fromUs, out := io.Pipe()
	ctx, cancel := context.WithCancel(r.t.Context())
	c := &afar{t: r.t, toUs: toUs, fromUs: bufio.NewReader(fromUs), cut: cancel, opened: make(chan *supervisorv1.Agent, 1), err: make(chan error, 1)}
	go func() {
		err := r.OpenAgent(ctx, &supervisorv1.GatewayOpen{Agent: name}, in, out, func(a *supervisorv1.Agent) error {
			c.opened <- a
			return nil
		})
		_ = in.CloseWithError(io.ErrClosedPipe) // as a stream does whose call is over
		_ = out.Close()
		c.err <- err
	}()
	r.t.Cleanup(func() { cancel(); _ = toUs.Close(); _ = fromUs.Close() })
	return c
}

func (c *afar) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.toUs, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *afar) want(line string) {
	c.t.Helper()
	got, err := c.fromUs.ReadString('\n')
	if err != nil || got != line+"\n" {
		c.t.Fatalf("got  %q (%v)\nwant %q", got, err, line)
	}
}

func TestRemoteClient_TalksToItsAgent(t *testing.T) {
	odd := func(a *scripted, m message) {
		a.say(`{"jsonrpc":"2.0",  "method":"session/update","params":{"sessionId":"s1","x":1.50e0,"update":{"sessionUpdate":"z"}}}`)
		a.answer(m, `{"stopReason" : "end_turn"}`)
	}
	r := newRig(t, map[string]part{"session/prompt": odd}, withBot)
	c := r.openAfar("") // there is only one
	a := <-c.opened
	if a.GetId() != "bot-1" || a.GetState() != running || a.GetPid() == 0 {
		t.Errorf("the agent is %v", a)
	}
	c.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":1}}`)
	c.want(`{"jsonrpc":"2.0","id":"i","result":` + everything + `}`)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`)
	c.want(`{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s1"}}`)
	c.send(`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s1","prompt":[]}}`)
	c.want(`{"jsonrpc":"2.0",  "method":"session/update","params":{"sessionId":"s1","x":1.50e0,"update":{"sessionUpdate":"z"}}}`)
	c.want(`{"jsonrpc":"2.0","id":2,"result":{"stopReason" : "end_turn"}}`)

	shown, err := r.GetAgent("bot-1")
	if err != nil || shown.GetInfo().GetName() != "scripted" || fmt.Sprint(shown.GetSessionIds()) != "[s1]" {
		t.Errorf("the agent is shown as %v (%v)", shown, err)
	}
	if all := r.ListAgents(); len(all) != 1 || all[0].GetId() != "bot-1" {
		t.Errorf("there are the agents %v", all)
	}
	_, err = r.NewSession(t.Context(), &supervisorv1.NewSessionRequest{AgentId: "bot-1", Cwd: "/w"})
	wantFault(t, err, fault.Precondition, noKind, "belongs to the client")

	_ = c.toUs.Close()
	if err := <-c.err; err != nil {
		t.Errorf("after the client has closed its side: %v", err)
	}
	if all := r.ListAgents(); len(all) != 0 {
		t.Errorf("an agent is left: %v", all)
	}
}

func TestRemoteClient_HasOwnAgent(t *testing.T) {
	r := newRig(t, nil, withBot, func(o *Options) { o.MaxAgents = 2 })
	first, second := r.openAfar("bot"), r.openAfar("bot")
	a, b := <-first.opened, <-second.opened
	if a.GetId() == b.GetId() {
		t.Errorf("both have agent %s", a.GetId())
	}
	wantFault(t, <-r.openAfar("bot").err, fault.Exhausted, noKind, "serve.max_agents")
	first.cut()
	if err := <-first.err; !errors.Is(err, context.Canceled) {
		t.Errorf("a stream that was cut ended with %v", err)
	}
	<-r.openAfar("bot").opened // there is room again
}

func TestOpenAgent_RejectsUnconfigured(t *testing.T) {
	none := newRig(t, nil)
	wantFault(t, <-none.openAfar("bot").err, fault.NotFound, noKind, "serve.gateway_agents")
	two := newRig(t, nil, withBot, func(o *Options) { o.GatewayAgents["other"] = &supervisorv1.StartAgentRequest{Command: []string{"/x"}} })
	wantFault(t, <-two.openAfar("").err, fault.Invalid, noKind, "bot, other")
	wantFault(t, <-two.openAfar("/bin/sh").err, fault.NotFound, noKind, "bot, other")
}

func TestOpenAgent_StreamHasReasonOfEnd(t *testing.T) {
	dies := func(a *scripted, _ message) { a.crash() }
	r := newRig(t, map[string]part{"session/prompt": dies, "session/list": ignore}, withBot)
	open := func() (*afar, *supervisorv1.Agent) {
		c := r.openAfar("bot")
		a := <-c.opened
		c.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`)
		c.want(`{"jsonrpc":"2.0","id":0,"result":` + everything + `}`)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`)
		c.want(`{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s1"}}`)
		return c, a
	}
	c, a := open()
	watched := make(chan []string, 1)
	watching := make(chan struct{})
	go func() {
		var received []string
		s := r.hub.Subscribe(a.GetId(), "")
		close(watching)
		defer s.Close()
		for {
			e, err := s.Next(t.Context())
			if err != nil {
				break
			}
			received = append(received, words(e))
			if e.GetAgent().GetState() == stopped {
				break
			}
		}
		watched <- received
	}()
	<-watching
	c.send(`{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"sessionId":"s1","prompt":[]}}`)
	if line, err := c.fromUs.ReadString('\n'); err != nil || !strings.Contains(line, `"id":7,"error"`) {
		t.Errorf("the open request was answered with %q (%v), want an error", line, err)
	}
	wantFault(t, <-c.err, fault.OfAgent, crashedKind, `agent "bot-1": it exited with status 3`)
	if received := strings.Join(<-watched, ", "); !strings.HasSuffix(received, "closed the agent is gone, STOPPED") {
		t.Errorf("watchers received %q", received)
	}

	c, a = open()
	ended, err := r.StopAgent(t.Context(), a.GetId())
	if err != nil || ended.GetState() != stopped {
		t.Errorf("stopping it returned %v, %v", ended, err)
	}
	wantFault(t, <-c.err, fault.OfAgent, stoppedKind, "was stopped")

	c, _ = open()
	r.Registry.Close()
	wantFault(t, <-c.err, fault.Stopping, noKind, "the supervisor is stopping")
	wantFault(t, <-r.openAfar("bot").err, fault.Precondition, noKind, "begins nothing new")
}

func TestOpenAgent_ReportsStartError(t *testing.T) {
	r := newRig(t, nil, withBot)
	r.cast = func(int, Spec) (map[string]part, error) { return nil, errors.New("no memory") }
	wantFault(t, <-r.openAfar("bot").err, fault.OfAgent, spawnKind, `start agent "bot": no memory`)
	if all := r.ListAgents(); len(all) != 0 {
		t.Errorf("an agent is left: %v", all)
	}
}

// Another caller prompts the agent of a remote client: the client receives the updates and not the response, and may
// prompt again after the response.
func TestRemoteClient_PromptOfOtherCaller(t *testing.T) {
	begun, goOn := make(chan struct{}), make(chan bool)
	r := newRig(t, map[string]part{"session/prompt": func(a *scripted, m message) {
		begun <- struct{}{}
		if !<-goOn {
			return // it never answers
		}
		a.say(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"z"}}}`)
		a.answer(m, `{"stopReason":"end_turn"}`)
	}}, withBot)
	c := r.openAfar("")
	a := <-c.opened
	c.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":1}}`)
	c.want(`{"jsonrpc":"2.0","id":"i","result":` + everything + `}`)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`)
	c.want(`{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s1"}}`)
	const prompt, update = `{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s1","prompt":[]}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"z"}}}`

	done := make(chan []string, 1)
	other := func() {
		events, err := r.prompt("s1", "hi")
		if err != nil {
			t.Error(err)
		}
		done <- events
	}
	go other()
	<-begun
	c.send(prompt)
	c.want(`{"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"session/prompt: another client's turn is under way: wait for its end, or cancel it"}}`)
	_, err := r.prompt("s1", "me too")
	wantFault(t, err, fault.Precondition, noKind, "has a turn under way")
	goOn <- true
	c.want(update)
	if events := <-done; len(events) == 0 || events[len(events)-1] != "ended end_turn" {
		t.Errorf("the caller received %q", events)
	}

	c.send(prompt)
	<-begun
	_, err = r.prompt("s1", "now?")
	wantFault(t, err, fault.Precondition, noKind, "has a turn under way")
	goOn <- true
	c.want(update)
	c.want(`{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}`)

	// The client's own prompts may overlap.
	c.send(prompt)
	<-begun
	c.send(strings.Replace(prompt, `"id":2`, `"id":3`, 1))
	goOn <- true
	c.want(update)
	c.want(`{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}`)
	<-begun
	goOn <- true
	c.want(update)
	c.want(`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`)

	// With the client, its agent ends, and the turn.
	go other()
	<-begun
	goOn <- false
	c.cut()
	<-c.err
	if events := <-done; len(events) == 0 || !strings.HasPrefix(events[len(events)-1], "failed") {
		t.Errorf("with agent %s gone, the caller received %q", a.GetId(), events)
	}
}

// If a client and other callers prompt an agent at the same instant, one turn starts. The other prompts are rejected,
// and their text is not sent to the agent.
func TestRemoteClient_ConcurrentPromptsRunOneTurn(t *testing.T) {
	begun, goOn := make(chan struct{}, 100), make(chan struct{})
	r := newRig(t, map[string]part{"session/prompt": func(a *scripted, m message) {
		begun <- struct{}{}
		go func() { // the agent reads on, and would take another prompt
			<-goOn
			a.answer(m, `{"stopReason":"end_turn"}`)
		}()
	}}, withBot)
	c := r.openAfar("")
	<-c.opened
	c.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":1}}`)
	c.want(`{"jsonrpc":"2.0","id":"i","result":` + everything + `}`)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`)
	c.want(`{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s1"}}`)
	const others, refusal = 2, "another client's turn is under way"
	for round := range 200 {
		refused, ended := make(chan string, others+1), make(chan string, others+1)
		for range others {
			go func() {
				events, err := r.prompt("s1", "hi")
				switch {
				case err == nil && len(events) > 0 && events[len(events)-1] == "ended end_turn":
					ended <- "somebody else"
				case err != nil && strings.Contains(err.Error(), "has a turn under way"):
					refused <- "somebody else"
				default:
					refused <- fmt.Sprintf("another caller received %q (%v)", events, err)
				}
			}()
		}
		go func() {
			_, _ = fmt.Fprintf(c.toUs, `{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"sessionId":"s1","prompt":[]}}`+"\n", 100+round)
			switch line, err := c.fromUs.ReadString('\n'); {
			case strings.Contains(line, "end_turn"):
				ended <- "the client"
			case strings.Contains(line, refusal):
				refused <- "the client"
			default:
				refused <- fmt.Sprintf("the client received %q (%v)", line, err)
			}
		}()
		<-begun
		for range others {
			select {
			case who := <-refused:
				if who != "the client" && who != "somebody else" {
					t.Fatal(who)
				}
			case <-begun:
				t.Fatalf("round %d: two prompts of a session reached the agent", round)
			}
		}
		goOn <- struct{}{}
		<-ended
	}
}
