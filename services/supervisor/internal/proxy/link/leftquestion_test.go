package link

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/testkit"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
)

// The frames of an agent whose permission requests name a command only in words.
const (
	wordsReport  = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"0:t","title":"Bash","kind":"execute","status":"pending","content":[]}}}`
	wordsOptions = `[{"optionId":"approve_once","name":"Approve once","kind":"allow_once"},{"optionId":"approve_always","name":"Approve for this session","kind":"allow_always"},{"optionId":"reject","name":"Reject","kind":"reject_once"}]`
	wordsRequest = `{"jsonrpc":"2.0","id":%d,"method":"session/request_permission","params":{"sessionId":"s","options":` + wordsOptions +
		`,"toolCall":{"toolCallId":"0:t","title":"Bash","content":[{"type":"content","content":{"type":"text","text":"Requesting approval to Running: touch x"}}]}}}`
	wordsCall  = `{"jsonrpc":"2.0","id":%d,"method":"terminal/create","params":{"sessionId":"s","command":"/bin/bash","args":["-c","%s"],"env":[{"name":"NO_COLOR","value":"1"},{"name":"TERM","value":"dumb"}],"cwd":"/w"}}`
	toldToGoOn = `{"jsonrpc":"2.0","id":%d,"result":{"outcome":{"outcome":"selected","optionId":"approve_once"}}}`
)

// verdicts is a policy with one verdict for permission requests and another for calls.
func verdicts(request, call *permissionv1.DecideResponse) func(context.Context, *permissionv1.Action) (*permissionv1.DecideResponse, error) {
	return func(_ context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		if a.GetDoor() == permissionv1.Door_DOOR_CALL {
			return call, nil
		}
		return request, nil
	}
}

var (
	asks   = &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ASK}
	allows = &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ALLOW}
	denies = &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_DENY, Rule: "never", Reason: "because"}
)

// wordsRig is a rig whose gate decides about files and terminals, for an agent that was started by a preset with terminal tools. It records
// each decision.
func wordsRig(t *testing.T, change ...func(*Options)) (*rig, func() []*supervisorv1.AuditRecord) {
	t.Helper()
	var mu sync.Mutex
	var records []*supervisorv1.AuditRecord
	var r *rig
	dial := func() (grpc.ClientConnInterface, error) { return r.opts.Conn("permission") }
	r = newRig(t, append([]func(*Options){func(o *Options) {
		o.TerminalTools = &TerminalTools{Versions: []string{"1"}, Titles: []string{"Bash"}}
		o.Gate = gate.New(gate.Options{
			Chain: []gate.Policy{{Name: "permission", Conn: dial}}, Enforced: true, Methods: []string{"fs/*", "terminal/create"}, Logger: o.Logger,
			Decided: func(rec *supervisorv1.AuditRecord) {
				mu.Lock()
				defer mu.Unlock()
				records = append(records, rec)
			},
		})
	}}, change...)...)
	return r, func() []*supervisorv1.AuditRecord {
		mu.Lock()
		defer mu.Unlock()
		return records
	}
}

// nextQuestion reads acphost's tool call and the question after it from the client, and returns the question.
func (r *rig) nextQuestion() line {
	r.t.Helper()
	for {
		if m := parse(r.t, r.client.next()); m.Method == "session/request_permission" {
			return m
		}
	}
}

func TestLeftToCall_AsksOnceAboutCall(t *testing.T) {
	r, records := wordsRig(t)
	r.handler.decide = verdicts(asks, asks)
	r.open(`{}`)
	r.agent.send(wordsReport, fmt.Sprintf(wordsRequest, 1))
	r.agent.want(fmt.Sprintf(toldToGoOn, 1))
	r.client.want(wordsReport)
	r.agent.send(fmt.Sprintf(wordsCall, 2, "cd '/w' && touch x"))
	shown := r.client.next()
	for _, want := range []string{"&& touch x", `acphost has not checked it: \"Bash: Requesting approval to Running: touch x\"`} {
		if !strings.Contains(shown, want) {
			t.Errorf("the question shows %s, want %s in it", shown, want)
		}
	}
	r.client.send(choose(r.nextQuestion().ID, "allow_once"))
	r.agent.want(`{"jsonrpc":"2.0","id":2,"result":{"terminalId":"acphost-1"}}`)
	got := records()
	if len(got) != 2 || got[0].GetOutcome() != gate.OutcomeLeft || got[0].GetAnsweredBy() != gate.ByAcphost || got[0].GetOption() != "" ||
		got[1].GetOutcome() != "allowed" || got[1].GetAnsweredBy() != gate.ByClient {
		t.Errorf("the records are %v", got)
	}
}

// If the walls decide about commands, a rule that asks only because the request names no command does not count for the
// call.
func TestLeftToCall_AsksNothingAboutContainedCalls(t *testing.T) {
	unclear := &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ASK, Rule: "unclear"}
	contained := &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ALLOW, Contained: true}
	for _, asks := range []bool{false, true} {
		t.Run(fmt.Sprintf("a rule asks about requests with commands %t", asks), func(t *testing.T) {
			r, _ := wordsRig(t)
			r.handler.decide = func(_ context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
				if a.GetCommand() == nil || asks && a.GetDoor() == permissionv1.Door_DOOR_REQUEST {
					return unclear, nil
				}
				return contained, nil
			}
			r.open(`{}`)
			r.agent.send(wordsReport, fmt.Sprintf(wordsRequest, 1))
			r.agent.want(fmt.Sprintf(toldToGoOn, 1))
			r.client.want(wordsReport)
			r.agent.send(fmt.Sprintf(wordsCall, 2, "cd '/w' && touch x"))
			if asks {
				r.client.send(choose(r.nextQuestion().ID, "allow_once"))
			}
			r.agent.want(`{"jsonrpc":"2.0","id":2,"result":{"terminalId":"acphost-1"}}`)
		})
	}
}

func TestLeftToCall_AllowsNothing(t *testing.T) {
	t.Run("a call that the policy denies", func(t *testing.T) {
		r, _ := wordsRig(t)
		r.handler.decide = verdicts(asks, denies)
		r.open(`{}`)
		r.agent.send(fmt.Sprintf(wordsRequest, 1))
		r.agent.want(fmt.Sprintf(toldToGoOn, 1))
		r.agent.send(fmt.Sprintf(wordsCall, 2, "touch x"))
		r.agent.wantError("2", -32603, "denied")
	})
	t.Run("any command", func(t *testing.T) {
		r, _ := wordsRig(t)
		r.handler.decide = verdicts(asks, asks)
		r.open(`{}`)
		for id := 1; id < 6; id += 2 { // the same one again, too
			r.agent.send(fmt.Sprintf(wordsRequest, id))
			r.agent.want(fmt.Sprintf(toldToGoOn, id))
			r.agent.send(fmt.Sprintf(wordsCall, id+1, "touch x"))
			r.client.send(choose(r.nextQuestion().ID, "reject_once"))
			r.agent.wantError(fmt.Sprint(id+1), -32603, "rejected")
			r.client.next() // its tool call has failed
		}
	})
	t.Run("a write", func(t *testing.T) {
		r, _ := wordsRig(t)
		r.handler.decide = verdicts(asks, asks)
		r.open(`{}`)
		r.agent.send(fmt.Sprintf(wordsRequest, 1))
		r.agent.want(fmt.Sprintf(toldToGoOn, 1))
		r.agent.send(fmt.Sprintf(writeCall, 2, 1))
		if shown := r.client.next(); strings.Contains(shown, "not checked") {
			t.Errorf("words about a command are shown beside a write: %s", shown)
		}
		r.client.send(choose(r.nextQuestion().ID, "reject_once"))
		r.agent.wantError("2", -32603, "rejected")
	})
	t.Run("a call that a rule about requests asks about", func(t *testing.T) {
		r, _ := wordsRig(t)
		r.handler.decide = verdicts(&permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ASK, Rule: "by-tool", Reason: "it names the tool"}, allows)
		r.open(`{}`)
		r.agent.send(fmt.Sprintf(wordsRequest, 1))
		r.agent.want(fmt.Sprintf(toldToGoOn, 1))
		r.agent.send(fmt.Sprintf(wordsCall, 2, "touch x"))
		if shown := r.client.next(); !strings.Contains(shown, "it names the tool (rule by-tool)") {
			t.Errorf("the question shows %s", shown)
		}
		r.client.send(choose(r.nextQuestion().ID, "allow_once"))
		r.agent.want(`{"jsonrpc":"2.0","id":2,"result":{"terminalId":"acphost-1"}}`)
		r.client.next()
		r.agent.send(fmt.Sprintf(wordsCall, 3, "touch y")) // without a permission request
		r.agent.want(`{"jsonrpc":"2.0","id":3,"result":{"terminalId":"acphost-1"}}`)
	})
	t.Run("what the agent did by itself", func(t *testing.T) {
		r, _ := wordsRig(t)
		r.handler.decide = verdicts(asks, asks)
		r.open(`{}`)
		r.agent.send(fmt.Sprintf(wordsRequest, 1))
		r.agent.want(fmt.Sprintf(toldToGoOn, 1))
		r.agent.send(strings.Replace(wordsReport, `"pending"`, `"completed","rawInput":{"command":"touch x"}`, 1))
		r.client.next()
		testkit.Eventually(t, "the command is reported as not asked about", func() bool { return r.opts.Gate.Counters().GetUnasked()["ask"] == 1 })
	})
}

func TestLeftToCall_AsksAboutOtherRequests(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(*Options)
		request string
	}{
		// An agent chooses the name and the version that it reports.
		"no preset":              {func(o *Options) { o.TerminalTools, o.AgentName = nil, "kimi-code" }, ""},
		"another version":        {func(o *Options) { o.TerminalTools.Versions = []string{"2"} }, ""},
		"terminals not decided":  {func(o *Options) { o.Gate = nil }, ""},
		"another tool":           {nil, strings.Replace(wordsRequest, `"Bash"`, `"mcp__x__Bash"`, 1)},
		"a tool that edits":      {nil, strings.Replace(wordsRequest, `"content":[`, `"kind":"edit","content":[{"type":"diff","path":"/w/f","oldText":null,"newText":"x"},`, 1)},
		"no option allows once":  {nil, strings.Replace(wordsRequest, `"allow_once"`, `"allow_always"`, 1)},
		"an option that rejects": {nil, strings.Replace(wordsRequest, `"name":"Approve once"`, `"name":"Reject"`, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			var r *rig
			r, _ = wordsRig(t, func(o *Options) {
				if tt.change != nil {
					tt.change(o)
				}
				if o.Gate == nil {
					dial := func() (grpc.ClientConnInterface, error) { return r.opts.Conn("permission") }
					o.Gate = gate.New(gate.Options{Chain: []gate.Policy{{Name: "permission", Conn: dial}}, Enforced: true, Methods: []string{"fs/*"}, Logger: o.Logger})
				}
			})
			r.handler.decide = verdicts(asks, asks)
			r.open(`{}`)
			if tt.request == "" {
				tt.request = wordsRequest
			}
			r.agent.send(fmt.Sprintf(tt.request, 1))
			if m := r.nextQuestion(); string(m.ID) != "1" {
				t.Errorf("the client was asked %s", m.ID)
			}
		})
	}
	t.Run("a request that the policy denies", func(t *testing.T) {
		r, _ := wordsRig(t)
		r.handler.decide = verdicts(denies, asks)
		r.open(`{}`)
		r.agent.send(fmt.Sprintf(wordsRequest, 1))
		r.agent.want(`{"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"selected","optionId":"reject"}}}`)
	})
	t.Run("more requests than wait for their calls", func(t *testing.T) {
		r, _ := wordsRig(t)
		r.handler.decide = verdicts(asks, asks)
		r.open(`{}`)
		for id := range 16 {
			r.agent.send(fmt.Sprintf(wordsRequest, id))
			r.agent.want(fmt.Sprintf(toldToGoOn, id))
		}
		r.agent.send(fmt.Sprintf(wordsRequest, 16))
		if m := r.nextQuestion(); string(m.ID) != "16" {
			t.Errorf("the client was asked %s", m.ID)
		}
	})
}

// Droid's input and its title state how risky its model considers the command.
func TestDroid_IsAskedOnce(t *testing.T) {
	r, _ := wordsRig(t, func(o *Options) { o.TerminalTools = nil })
	r.handler.decide = verdicts(asks, asks)
	r.open(`{}`)
	r.reported.Store(&acp.Initialized{Name: "@factory/cli", Version: "0.215.0"})
	request := func(id int, more string) {
		r.agent.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"session/request_permission","params":{"sessionId":"s","options":%s,"toolCall":{"toolCallId":"t%d","title":"%stouch x%s (medium)",`+
			`"kind":"execute","rawInput":{"summary":"Make x","command":"touch x","timeout":60,"riskLevel":"medium","riskLevelReason":"It makes a file."%s}}}}`, id, wordsOptions, id, "`", "`", more))
		r.client.send(choose(r.nextQuestion().ID, "approve_once"))
		r.agent.next()
	}
	call := func(id int) {
		r.agent.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"terminal/create","params":{"sessionId":"s","command":"touch x","cwd":"/w","outputByteLimit":1048576}}`, id))
	}
	request(1, "")
	call(2)
	r.agent.want(`{"jsonrpc":"2.0","id":2,"result":{"terminalId":"acphost-1"}}`)
	request(3, `,"fireAndForget":true`) // Droid runs that by itself: the answer is one about something else
	call(4)
	r.client.send(choose(r.nextQuestion().ID, "reject_once"))
	r.agent.wantError("4", -32603, "rejected")
}
