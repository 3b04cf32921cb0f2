package grant

import (
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestConnect_GrantNamesOneMachine(t *testing.T) {
	for _, c := range []struct {
		host, path string
		action     string
		want       string
	}{
		{"api.example.com:443", "", "connect", ""},
		{"[2001:db8::1]:443", "", "connect", ""},
		{"db.example:5432 (10.0.0.7, fd00::1)", "", "connect", ""},
		{"", "", "connect", "names a machine"},
		{"api.example.com", "", "connect", "names a machine"},
		{"api.example.com:443 and more", "", "connect", "names a machine"},
		{"*.example.com:443", "", "connect", "names a machine"},
		{"api.example.com:443", "/w/a", "connect", "no path"},
		{"api.example.com:443", "/w/a", "read", "only a grant to connect"},
	} {
		g := given(Where{SessionID: "s"}, supervisorv1.GrantScope_GRANT_SCOPE_SESSION)
		g.Action, g.Host, g.Path = c.action, c.host, c.path
		s, err := Open(Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Add(Where{Scope: "s"}, g)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s of %q, %q: got %v, want %q", c.action, c.host, c.path, err, c.want)
		}
	}
}

func TestConnect_UnclearAddressIsNotGranted(t *testing.T) {
	w := Where{Scope: "s", Workspace: "/w"}
	odd := &permissionv1.Action{Kind: "net.connect", Endpoint: &permissionv1.Endpoint{Host: "127.1", Port: 80}}
	if _, err := Exactly(odd, w, supervisorv1.GrantScope_GRANT_SCOPE_SESSION); err == nil {
		t.Error("an address that is read in several ways is remembered")
	}
	unparsed := &permissionv1.Action{Kind: "net.connect", Unparsed: "x", Endpoint: &permissionv1.Endpoint{Host: "a.example", Port: 80}}
	if _, err := Exactly(unparsed, w, supervisorv1.GrantScope_GRANT_SCOPE_SESSION); err == nil {
		t.Error("what is not understood is remembered")
	}
}

func TestOffer_RemembersMachinesOnTheInternetInTheProject(t *testing.T) {
	w := Where{Scope: "s", SessionID: "s", Workspace: "/w", Agent: "a"}
	for name, tt := range map[string]struct {
		host  string
		addrs []string
		want  supervisorv1.GrantScope
	}{
		"a name":                      {"api.example", nil, supervisorv1.GrantScope_GRANT_SCOPE_WORKSPACE},
		"a name with its address":     {"api.example", []string{"1.1.1.1"}, supervisorv1.GrantScope_GRANT_SCOPE_WORKSPACE},
		"a name in the local network": {"api.example", []string{"10.0.0.7"}, supervisorv1.GrantScope_GRANT_SCOPE_SESSION},
		"this machine by name":        {"localhost", nil, supervisorv1.GrantScope_GRANT_SCOPE_SESSION},
		"this machine":                {"127.0.0.1", []string{"127.0.0.1"}, supervisorv1.GrantScope_GRANT_SCOPE_SESSION},
	} {
		t.Run(name, func(t *testing.T) {
			a := &permissionv1.Action{Kind: "net.connect", Endpoint: &permissionv1.Endpoint{Host: tt.host, Port: 443, Addresses: tt.addrs}}
			for answer, o := range map[string]Offer{"yes": Widest(a, w), "no": Refusal(a, w)} {
				if len(o.Grants) != 1 || o.Grants[0].GetScope() != tt.want || o.Grants[0].GetRefuse() != (answer == "no") {
					t.Errorf("%s: got %v (%s), want the scope %v", answer, o.Grants, o.Text, tt.want)
				}
			}
		})
	}
}
