package link

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
)

// slowPolicy decides permission requests when a test says so, and anything else at once.
type slowPolicy struct {
	mu    sync.Mutex
	gates map[string]chan permissionv1.Verdict // by the tool's title
	asked chan string
}

func newSlowPolicy() *slowPolicy {
	return &slowPolicy{gates: map[string]chan permissionv1.Verdict{}, asked: make(chan string, 1024)}
}

func (s *slowPolicy) gate(title string) chan permissionv1.Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gates[title] == nil {
		s.gates[title] = make(chan permissionv1.Verdict, 1)
	}
	return s.gates[title]
}

func (s *slowPolicy) decide(ctx context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
	v := gate.Ask
	if a.GetDoor() == permissionv1.Door_DOOR_REQUEST && !a.GetDone() {
		s.asked <- a.GetTitle()
		select {
		case v = <-s.gate(a.GetTitle()):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &permissionv1.DecideResponse{Verdict: v}, nil
}

// The frames of a test about order. Each contains its session and its number.
var numbered = []string{
	`{"method":"session/update","params":{"sessionId":"%[1]s","update":{"sessionUpdate":"agent_message_chunk","_n":"#%[2]d;"}}}`,
	`{"method":"session/update","params":{"sessionId":"%[1]s","update":{"sessionUpdate":"tool_call","toolCallId":"t%[2]d","title":"#%[2]d;","content":[]}}}`,
	`{"method":"session/update","params":{"sessionId":"%[1]s","update":{"sessionUpdate":"tool_call_update","toolCallId":"u%[2]d","title":"#%[2]d;","status":"completed"}}}`,
	`{"id":"r%[2]d","method":"_z/ask","params":{"sessionId":"%[1]s","n":"#%[2]d;"}}`,
	`{"method":"_z/notify","params":{"sessionId":"%[1]s","n":"#%[2]d;"}}`,
	`{"id":"e%[2]d","method":"elicitation/create","params":{"sessionId":"%[1]s","mode":"form","message":"#%[2]d;"}}`,
	numberedAsk,
	`{"id":"x%[2]d","method":"_x/y","params":{"sessionId":"%[1]s","n":"#%[2]d;"}}`, // the gate asks about it
}

const (
	numberedAsk = `{"id":"q%[2]d","method":"session/request_permission","params":{"sessionId":"%[1]s","toolCall":{"toolCallId":"q%[2]d","title":"#%[2]d;","kind":"edit"},"options":` + options + `}}`
	askKind     = 6
	gatedKind   = 7
)

var number = regexp.MustCompile(`#(\d+);`)

func TestOrder_KeptDuringDecisions(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			policy := newSlowPolicy()
			r, _ := watchedRig(t)
			r.handler.decide = policy.decide
			r.open(`{}`)
			sessions := []string{"s", "b", "free"}
			for _, id := range sessions[1:] {
				r.client.send(`{"id":"n","method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`)
				r.agent.next()
				r.agent.send(`{"id":"n","result":{"sessionId":"` + id + `"}}`)
				r.client.next()
			}
			for _, id := range sessions {
				r.client.send(fmt.Sprintf(`{"id":"p-%[1]s","method":"session/prompt","params":{"sessionId":"%[1]s","prompt":[]}}`, id))
				r.agent.next()
			}
			const frames = 120
			var sent []string
			want := map[string][]int{} // by session, in order
			verdict := map[int]permissionv1.Verdict{}
			var asks []int
			for n := range frames {
				id, kind := sessions[random.IntN(len(sessions))], random.IntN(len(numbered))
				if id == "free" && kind >= askKind {
					kind = 0
				}
				sent = append(sent, fmt.Sprintf(numbered[kind], id, n))
				switch kind {
				case askKind:
					asks = append(asks, n)
					if verdict[n] = gate.Ask; random.IntN(3) == 0 {
						verdict[n] = gate.Deny
						continue
					}
				case gatedKind:
					continue
				}
				want[id] = append(want[id], n)
			}
			for i, id := range sessions { // answers to the client follow all earlier messages
				sent = append(sent, fmt.Sprintf(`{"id":"p-%s","result":{"stopReason":"end_turn","n":"#%d;"}}`, id, frames+i))
				want[id] = append(want[id], frames+i)
			}
			go func() {
				for _, line := range sent {
					r.agent.send(line)
				}
			}()
			go func() { // the agent continues to read
				for {
					if _, err := r.agent.out.ReadString('\n'); err != nil {
						return
					}
				}
			}()
			got := map[string][]int{}
			read := func() {
				m := number.FindStringSubmatch(r.client.next())
				if m == nil { // from acphost itself
					return
				}
				n, _ := strconv.Atoi(m[1])
				for id, ns := range want {
					if slices.Contains(ns, n) {
						got[id] = append(got[id], n)
					}
				}
			}
			for len(got["free"]) < len(want["free"]) { // although no request of the other sessions is decided
				read()
			}
			for range asks {
				<-policy.asked
			}
			random.Shuffle(len(asks), func(i, j int) { asks[i], asks[j] = asks[j], asks[i] })
			for _, n := range asks {
				policy.gate(fmt.Sprintf("#%d;", n)) <- verdict[n]
			}
			for len(got["s"]) < len(want["s"]) || len(got["b"]) < len(want["b"]) {
				read()
			}
			for _, id := range sessions {
				if !slices.Equal(got[id], want[id]) {
					t.Errorf("session %s:\n got %v\nwant %v", id, got[id], want[id])
				}
			}
			testkit.Eventually(t, "no session is held, and no room is lost", func() bool {
				r.order.room.mu.Lock()
				defer r.order.room.mu.Unlock()
				return r.order.deep.Load() == 0 && r.order.room.free == r.order.room.total
			})
		})
	}
}

func TestOrder_OwnQuestionFollowsEarlierMessages(t *testing.T) {
	for name, call := range map[string]string{
		"a call for the front":   `{"id":1,"method":"_x/y","params":{"sessionId":"s"}}`,
		"a call for a handler":   fmt.Sprintf(writeCall, 1, 1),
		"a call that may pass":   `{"id":1,"method":"_x/pass","params":{"sessionId":"s"}}`,
		"another question":       strings.Replace(askedEdit, `"id":7`, `"id":8`, 1),
		"a question that waited": fmt.Sprintf(numberedAsk, "s", 2),
	} {
		t.Run(name, func(t *testing.T) {
			policy := newSlowPolicy()
			r, d := watchedRig(t)
			calls := make(chan struct{}, 1)
			r.handler.decide = func(ctx context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
				switch {
				case a.GetKind() == "_x/pass":
					calls <- struct{}{}
					return &permissionv1.DecideResponse{Verdict: gate.Allow}, nil
				case a.GetTitle() == "#1;" || a.GetTitle() == "#2;":
					return policy.decide(ctx, a)
				}
				calls <- struct{}{}
				return &permissionv1.DecideResponse{Verdict: gate.Ask}, nil
			}
			r.open(`{}`)
			first, update := fmt.Sprintf(numberedAsk, "s", 1), fmt.Sprintf(numbered[0], "s", 3)
			r.agent.send(first, update, call, `{"method":"_marker"}`)
			r.client.want(`{"method":"_marker"}`)
			if <-policy.asked; strings.Contains(call, "#2;") {
				<-policy.asked
				policy.gate("#2;") <- gate.Ask
			} else {
				<-calls
			}
			r.agent.send(`{"method":"_marker"}`)
			r.client.want(`{"method":"_marker"}`)
			policy.gate("#1;") <- gate.Ask
			r.client.want(first)
			r.client.want(update)
			if m := parse(t, r.client.next()); m.Method == "" {
				t.Errorf("then came %+v", m)
			}
			d.question()
		})
	}
}

func TestOrder_StopsReadingAgentOverLimit(t *testing.T) {
	policy := newSlowPolicy()
	r, _ := watchedRig(t, func(o *Options) { o.Limits = Limits{MaxMessage: 1 << 20, MaxQueuedMem: 1 << 20} })
	r.handler.decide = policy.decide
	r.open(`{}`)
	question := fmt.Sprintf(numberedAsk, "s", 0)
	r.agent.send(question)
	<-policy.asked
	const updates = 4096
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for n := range updates {
			r.agent.send(fmt.Sprintf(numbered[0], "s", n+1) + strings.Repeat(" ", 1000))
		}
	}()
	testkit.Eventually(t, "room runs out", func() bool {
		r.order.room.mu.Lock()
		defer r.order.room.mu.Unlock()
		return len(r.order.room.turns) > 0
	})
	select {
	case <-sent:
		t.Error("all was read")
	default:
	}
	r.client.send(`{"method":"_marker"}`) // the client is read meanwhile
	r.agent.want(`{"method":"_marker"}`)
	policy.gate("#0;") <- gate.Ask
	r.client.want(question)
	for n := range updates {
		if got := number.FindStringSubmatch(r.client.next()); len(got) == 0 || got[1] != strconv.Itoa(n+1) {
			t.Fatalf("update %d is %q", n+1, got)
		}
	}
	<-sent
}

func TestOrder_HeldMessagesSurviveAgentEnd(t *testing.T) {
	policy := newSlowPolicy()
	r, _ := watchedRig(t)
	r.handler.decide = policy.decide
	r.open(`{}`)
	update := fmt.Sprintf(numbered[0], "s", 1)
	r.agent.send(fmt.Sprintf(numberedAsk, "s", 0), update)
	<-policy.asked
	testkit.Eventually(t, "the update is kept", func() bool {
		r.order.mu.Lock()
		defer r.order.mu.Unlock()
		return len(r.order.lines["s"]) == 2
	})
	_ = r.agent.in.Close()
	r.client.want(update)
	r.ended <- r.end() // for the clean-up
}
