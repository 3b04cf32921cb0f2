package policy_test

import (
	"slices"
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

// The inline tests of the rules state what they match.
const hostRules = `version: 1
rules:
  - id: registries
    effect: allow
    host: ["*.npmjs.org:443", "api.Anthropic.com.", "b\u00fccher.example"]
    tests:
      match:
        - {host: registry.npmjs.org}
        - {host: "a.b.npmjs.org:443"}
        - {host: API.anthropic.com}
        - {host: api.anthropic.com, addresses: [160.79.104.10, "2607:6bc0::10"]}
        - {host: xn--bcher-kva.example}
      not_match:
        - {host: npmjs.org}
        - {host: "registry.npmjs.org:80"}
        - {host: registry.npmjs.org.evil.example}
        - {host: evilnpmjs.org}
        - {host: api.anthropic.com, addresses: [160.79.104.10, 127.0.0.1]}
        - {host: api.anthropic.com, addresses: ["::ffff:10.0.0.1"]}
        - {host: api.anthropic.com, addresses: ["64:ff9b::7f00:1"]}
        - {host: 160.79.104.10}
        - {command: curl https://api.anthropic.com}
  - id: own-network
    effect: allow
    host: ["10.0.0.0/8:5432", localhost, "[fd00::/8]:22", db.example]
    tests:
      match:
        - {host: "10.1.2.3:5432"}
        - {host: "anything.example:5432", addresses: [10.1.2.3]}
        - {host: "localhost:3000", addresses: [127.0.0.1, "::1"]}
        - {host: "127.0.0.1:3000"}
        - {host: "[fd00::1]:22"}
        - {host: db.example}
        - {host: "db.example:5432", addresses: [10.0.0.1]}
      not_match:
        - {host: "10.1.2.3:22"}
        - {host: "anything.example:5432", addresses: [10.1.2.3, 11.0.0.1]}
        - {host: "localhost:3000", addresses: [169.254.169.254]}
        - {host: db.example, addresses: [10.0.0.1]}
        - {host: db.example, addresses: [192.168.0.1]}
  - id: web
    effect: allow
    on: [net.connect]
    when: action.endpoint.port == 8443u
    tests:
      match:
        - {host: "example.org:8443"}
      not_match:
        - {host: "example.org:8443", addresses: [127.0.0.1]}
        - {host: "example.org:443"}
  - id: never
    effect: deny
    host: ["*.evil.example", "198.51.100.0/24"]
    tests:
      match:
        - {host: "x.evil.example:1"}
        - {host: good.example, addresses: [203.0.113.1, 198.51.100.7]}
        - {host: 198.51.100.7}
      not_match:
        - {host: evil.example}
        - {host: good.example}
        - {path: /x}
  - id: ask-me
    effect: ask
    host: ["*:22"]
`

func TestHost_Rules(t *testing.T) {
	const allow, ask, deny = permissionv1.Verdict_VERDICT_ALLOW, permissionv1.Verdict_VERDICT_ASK, permissionv1.Verdict_VERDICT_DENY
	parts := []policy.Part{{Policy: parse(t, hostRules), Name: "rules"}}
	connect := func(host string, port uint32, addresses ...string) *permissionv1.Action {
		return &permissionv1.Action{Kind: "net.connect", Endpoint: &permissionv1.Endpoint{Host: host, Port: port, Addresses: addresses}}
	}
	for name, c := range map[string]struct {
		a     *permissionv1.Action
		want  permissionv1.Verdict
		names bool
		why   string
	}{
		"a public machine":                {connect("registry.npmjs.org", 443, "104.16.0.1"), allow, true, "rule registries allows this"},
		"one that leads to a private one": {connect("registry.npmjs.org", 443, "192.168.0.1"), ask, false, "this host is not on the policy's list"},
		"an address that a rule names":    {connect("localhost", 80, "127.0.0.1"), allow, true, "rule own-network allows this"},
		"a denied address":                {connect("registry.npmjs.org", 443, "198.51.100.1"), deny, false, "rule never forbids this"},
		"deny before allow":               {connect("a.evil.example", 8443), deny, false, "rule never forbids this"},
		"asked by port":                   {connect("registry.npmjs.org", 22), ask, false, "rule ask-me asks about this"},
		"no machine":                      {&permissionv1.Action{Kind: "net.connect"}, ask, false, "which host this connects to"},
		"a machine that cannot be read":   {connect("0x7f.1", 443), ask, false, "which host this connects to"},
		"an address that cannot be read":  {connect("registry.npmjs.org", 443, "127.1"), ask, false, "which host this connects to"},
	} {
		t.Run(name, func(t *testing.T) {
			d := policy.Decide(parts, c.a)
			if d.GetVerdict() != c.want || d.GetNamesAddresses() != c.names || !strings.Contains(d.GetReason(), c.why) {
				t.Errorf("got %v, want %v, %v, %q", d, c.want, c.names, c.why)
			}
		})
	}
	explained := policy.Explain(parts, connect("registry.npmjs.org", 443, "127.0.0.1"))
	if got := explained.GetConsidered()[0].GetWhy(); got != "host registry.npmjs.org has the address 127.0.0.1, which is not on the internet, and the rule does not name it" {
		t.Errorf("got %q", got)
	}
	if got := explained.GetConsidered()[3].GetWhy(); got != "host is registry.npmjs.org:443 (127.0.0.1), the rule is for *.evil.example, 198.51.100.0/24" {
		t.Errorf("got %q", got)
	}
}

func TestHost_RejectsMistakes(t *testing.T) {
	for rule, want := range map[string]string{
		"host: [\"https://a.example/\"]":                      "expected a machine like api.example.com",
		"host: [\"10.0.0.1/8\"]":                              "expected 10.0.0.0/8",
		"host: [\"127.1\"]":                                   "four decimal numbers",
		"host: [\"a.*\"]":                                     "a star is allowed only at the beginning",
		"host: [a], tests: {match: [{host: \"a:0\"}]}":        "expected a machine like",
		"host: [a], tests: {match: [{addresses: [\"::1\"]}]}": "expected a host beside addresses",
		"on: [net.conect]":                                    "expected a pattern that some kind of action matches (net.connect)",
	} {
		if _, err := policy.Parse("r.yaml", []byte("version: 1\nrules: [{id: x, effect: allow, "+rule+"}]\n"), policy.Surroundings{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", rule, err, want)
		}
	}
}

func TestHost_WarnsOfMetadataServices(t *testing.T) {
	for rule, warned := range map[string]bool{
		"effect: allow, host: [\"169.254.169.254:80\"]": true,
		"effect: ask, host: [\"fd00:ec2::254\"]":        true,
		"effect: deny, host: [169.254.169.254]":         false,
		"effect: allow, host: [\"169.254.0.0/16\"]":     false,
		"effect: allow, host: [10.0.0.1]":               false,
	} {
		found := policy.Check("p.yaml", []byte("version: 1\nrules: [{id: a, "+rule+"}]\n"), policy.Surroundings{}).GetFindings()
		got := slices.ContainsFunc(found, func(f *permissionv1.Finding) bool { return strings.Contains(f.GetMessage(), "keys of a machine") })
		if got != warned {
			t.Errorf("%s: got %v", rule, found)
		}
	}
}
