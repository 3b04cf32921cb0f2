package gate

import (
	"context"
	"log/slog"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/hosts"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/policy/grant"
)

// reaches is a connection of the proxy to a port of a machine.
func reaches(host string, port uint32, addresses ...string) *permissionv1.Action {
	return &permissionv1.Action{
		Kind: "net.connect", Door: permissionv1.Door_DOOR_KERNEL, SessionId: "s", Agent: "a", Roots: []string{"/w"}, ResolvedRoots: []string{"/w"},
		Endpoint: &permissionv1.Endpoint{Host: host, Port: port, Addresses: addresses},
	}
}

// says answers with a verdict, and with whether a rule names addresses.
func says(v permissionv1.Verdict, names bool) *permissionv1.DecideResponse {
	return &permissionv1.DecideResponse{Verdict: v, Rule: "r", Grantable: true, NamesAddresses: names}
}

func answersWith(said *permissionv1.DecideResponse) policy {
	return func(context.Context) (*permissionv1.DecideResponse, error) { return proto.CloneOf(said), nil }
}

func parsed(t *testing.T, patterns ...string) (list []hosts.Pattern) {
	t.Helper()
	for _, text := range patterns {
		p, err := hosts.ParsePattern(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

func TestDecide_Machines(t *testing.T) {
	const public, private = "1.1.1.1", "10.0.0.7"
	own := hosts.Known{Needed: parsed(t, "api.example:443", "localhost:11434"), Unneeded: parsed(t, "metrics.example:443")}
	for name, c := range map[string]struct {
		said    *permissionv1.DecideResponse
		action  *permissionv1.Action
		want    permissionv1.Verdict
		rule    string
		special bool
	}{
		"allowed by its name":                            {says(Allow, false), reaches("x.example", 443, public), Allow, "r", false},
		"allowed before it is looked up":                 {says(Allow, false), reaches("x.example", 443), Allow, "r", false},
		"allowed by name, and it leads into the network": {says(Allow, false), reaches("x.example", 443, public, private), Ask, RuleAddress, false},
		"allowed by its address":                         {says(Allow, true), reaches("x.example", 443, private), Allow, "r", true},
		"asked about":                                    {says(Ask, false), reaches("x.example", 443, public), Ask, "r", false},
		"denied":                                         {says(Deny, false), reaches("x.example", 443, public), Deny, "r", false},
		"keys of a cloud":                                {says(Allow, true), reaches("x.example", 80, "169.254.169.254"), Deny, RuleMetadata, false},
		"keys of a cloud, in IPv6":                       {says(Allow, true), reaches("::ffff:169.254.169.254", 80), Deny, RuleMetadata, false},
		"the agent needs it, and it is asked about":      {says(Ask, false), reaches("api.example", 443, public), Allow, RuleAgentHosts, true},
		"the agent needs it on another port":             {says(Ask, false), reaches("api.example", 80, public), Ask, "r", false},
		"the agent needs it, and a policy denies it":     {says(Deny, false), reaches("api.example", 443, public), Deny, "r", false},
		"the agent needs it, and it leads elsewhere":     {says(Ask, false), reaches("api.example", 443, private), Ask, "r", false},
		"the agent works without it":                     {says(Ask, false), reaches("metrics.example", 443), Deny, RuleAgentHosts, false},
		"the agent works without it, and it is allowed":  {says(Allow, false), reaches("metrics.example", 443, public), Allow, "r", false},
		"the agent needs this machine":                   {says(Ask, false), reaches("localhost", 11434, "127.0.0.1", "::1"), Allow, RuleAgentHosts, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := gateWith(true, answersWith(c.said))
			d := decide(t, g, Request{Action: c.action, Scope: "s", Turn: 1, Proxied: true, Machines: own})
			if d.Verdict != c.want || d.Rule != c.rule || d.Special() != c.special {
				t.Errorf("got %v by %q (special %t): %s; want %v by %q (special %t)", d.Verdict, d.Rule, d.Special(), d.Reason, c.want, c.rule, c.special)
			}
		})
	}
}

func TestDecide_MachinesWithoutPolicy(t *testing.T) {
	for _, g := range []*Gate{gateWith(false, answersWith(says(Allow, false))), gateWith(false, answers(Ask)), New(Options{Logger: slog.New(slog.DiscardHandler)})} {
		for _, c := range []struct {
			action *permissionv1.Action
			want   permissionv1.Verdict
		}{
			{reaches("x.example", 443), Allow},
			{reaches("x.example", 443, "1.1.1.1"), Allow},
			{reaches("x.example", 443, "127.0.0.1"), Deny},
			{reaches("x.example", 443, "169.254.169.254"), Deny},
			{reaches("localhost", 11434, "127.0.0.1"), Allow},
		} {
			d := decide(t, g, Request{Action: c.action, Scope: "s", Proxied: true, Machines: hosts.Known{Needed: parsed(t, "localhost:11434")}})
			if d.Verdict != c.want {
				t.Errorf("%v: got %v by %q, want %v", c.action.GetEndpoint(), d.Verdict, d.Rule, c.want)
			}
		}
	}
}

func TestDecide_ClosedOverridesPolicy(t *testing.T) {
	for _, active := range []bool{true, false} {
		d := decide(t, gateWith(active, answers(Allow)), Request{Action: reaches("1.1.1.1", 443), Closed: "there is no network", Covered: true})
		if d.Verdict != Deny || d.Rule != RuleNetwork || d.Reason != "there is no network" {
			t.Errorf("got %v by %q: %s", d.Verdict, d.Rule, d.Reason)
		}
	}
}

func TestDecide_AnswerCoversShownAddresses(t *testing.T) {
	grants, err := grant.Open(grant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := gateWith(true, answersWith(says(Ask, false)))
	g.opts.Grants = grants
	try := func(turn uint64, a *permissionv1.Action) *Decision {
		t.Helper()
		return decide(t, g, Request{Action: a, Scope: "s", Turn: turn, Proxied: true})
	}
	expect := func(what string, d *Decision, want permissionv1.Verdict, special bool) {
		t.Helper()
		if d.Verdict != want || d.Special() != special {
			t.Errorf("%s: got %v (special %t) by %s, want %v (special %t)", what, d.Verdict, d.Special(), d.By, want, special)
		}
	}
	asked := try(1, reaches("x.example", 443))
	expect("the first try", asked, Ask, false)
	if err := g.Record(asked, Outcome{Allowed: true, By: ByClient, Option: acp.AllowOnce}); err != nil {
		t.Fatal(err)
	}
	expect("the next try", try(1, reaches("x.example", 443)), Allow, true)
	expect("with its address", try(1, reaches("x.example", 443, "1.1.1.1")), Allow, true)
	expect("leading to this machine", try(1, reaches("x.example", 443, "1.1.1.1", "127.0.0.1")), Ask, false)
	expect("another port", try(1, reaches("x.example", 80)), Ask, false)
	expect("another machine", try(1, reaches("y.example", 443)), Ask, false)
	expect("in the next turn", try(2, reaches("x.example", 443)), Ask, false)

	asked = try(2, reaches("x.example", 443, "127.0.0.1"))
	if asked.Always.Text != "connecting to x.example:443 (127.0.0.1) in this session" {
		t.Errorf("always is %q", asked.Always.Text)
	}
	if err := g.Record(asked, Outcome{Allowed: true, By: ByClient, Option: acp.AllowAlways}); err != nil {
		t.Fatal(err)
	}
	expect("for the session", try(3, reaches("x.example", 443, "127.0.0.1")), Allow, true)
	expect("for the session, leading elsewhere", try(3, reaches("x.example", 443, "10.0.0.1")), Ask, false)
	expect("for the session, before it is looked up", try(3, reaches("x.example", 443)), Ask, false)
	list := grants.List()
	if len(list) != 1 || grant.Reach(list[0]) != "connecting to x.example:443 (127.0.0.1)" {
		t.Fatalf("got %v", list)
	}
	if _, err := grants.Revoke(list[0].GetId()); err != nil {
		t.Fatal(err)
	}
	expect("once it was taken back", try(3, reaches("x.example", 443, "127.0.0.1")), Ask, false)
	asked = try(3, reaches("z.example", 443))
	if err := g.Record(asked, Outcome{By: ByClient, Option: acp.RejectAlways}); err != nil {
		t.Fatal(err)
	}
	expect("refused for the session", try(4, reaches("z.example", 443)), Deny, false)
}

func TestDecide_StrictestPolicyNamesAddresses(t *testing.T) {
	g := gateWith(true, answersWith(says(Allow, true)))
	for name, c := range map[string]struct {
		other *permissionv1.DecideResponse
		want  permissionv1.Verdict
	}{
		"both name it": {says(Allow, true), Allow},
		"one does not": {says(Allow, false), Ask},
	} {
		g.opts.Chain = append(g.opts.Chain[:1:1], gateWith(true, answersWith(c.other)).opts.Chain...)
		if d := decide(t, g, Request{Action: reaches("10.0.0.7", 22), Scope: "s", Proxied: true}); d.Verdict != c.want {
			t.Errorf("%s: got %v by %q", name, d.Verdict, d.Rule)
		}
	}
}

func TestDecide_AllowedFetchCoversConnection(t *testing.T) {
	g := gateWith(true, answersWith(says(Ask, false)))
	fetch := func(url string) *permissionv1.Action {
		return &permissionv1.Action{
			Kind: "tool.fetch", Door: permissionv1.Door_DOOR_REQUEST, SessionId: "s", Agent: "a", Roots: []string{"/w"}, ResolvedRoots: []string{"/w"},
			ToolCallId: url, Title: "Fetch " + url, RawInput: `{"url":"` + url + `"}`,
		}
	}
	answer := func(url string, allowed bool) {
		t.Helper()
		asked := decide(t, g, Request{Action: fetch(url), Scope: "s", Turn: 1})
		option := acp.RejectOnce
		if allowed {
			option = acp.AllowOnce
		}
		if err := g.Record(asked, Outcome{Allowed: allowed, By: ByClient, Option: option}); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, turn uint64, a *permissionv1.Action, want permissionv1.Verdict) {
		t.Helper()
		if d := decide(t, g, Request{Action: a, Scope: "s", Turn: turn, Proxied: true}); d.Verdict != want {
			t.Errorf("%s: got %v by %s, want %v", what, d.Verdict, d.By, want)
		}
	}
	answer("https://x.example/a", true)
	answer("https://z.example/a", false)
	expect("before it is looked up", 1, reaches("x.example", 443), Allow)
	expect("with its address", 1, reaches("x.example", 443, "1.1.1.1"), Allow)
	expect("leading into the network", 1, reaches("x.example", 443, "10.0.0.7"), Ask)
	expect("another machine", 1, reaches("y.example", 443), Ask)
	expect("one that was refused", 1, reaches("z.example", 443), Deny)
	expect("in the next turn", 2, reaches("x.example", 443), Ask)

	said := Allow // a rule lets it fetch, and names no machine
	g = gateWith(true, func(context.Context) (*permissionv1.DecideResponse, error) { return says(said, false), nil })
	if d := decide(t, g, Request{Action: fetch("https://x.example/a"), Scope: "s", Turn: 1}); g.Record(d, Outcome{Allowed: true}) != nil || d.Verdict != Allow {
		t.Errorf("a rule's answer is %v", d.Verdict)
	}
	said = Ask
	expect("allowed to fetch by a rule", 1, reaches("x.example", 443), Ask)
}
