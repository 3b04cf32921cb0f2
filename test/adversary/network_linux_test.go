package adversary

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// site is a server on the loopback interface that says its name.
func site(t *testing.T, name string) (port string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, name+" for "+r.Host) }))
	t.Cleanup(server.Close)
	_, port, _ = net.SplitHostPort(server.Listener.Addr().String())
	return port
}

// networkRules allow one port of this machine, and deny another one. %s are the ports.
const networkRules = `
version: 1
rules:
  - {id: shut, effect: deny, host: ["localhost:%[1]s", "127.0.0.1:%[1]s"]}
  - {id: site, effect: allow, host: ["localhost:%[2]s", "127.0.0.1:%[2]s"]}
  - {id: by-name, effect: allow, host: ["*.example:80"]}
  - {id: run, effect: allow, command: ["echo"]}
`

const (
	proxied  = "sandbox: {mode: enforce, network: proxy, require: true}"
	networks = "sandbox: {mode: %s, network: %s, require: true}"
)

// TestNetwork_ProxyIsOnlyWayOut: the agent's processes reach hosts that rules name, by the proxy only.
func TestNetwork_ProxyIsOnlyWayOut(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	open, shut, asked := site(t, "open"), site(t, "shut"), site(t, "asked")
	s := openFixture(t, policy(fmt.Sprintf(networkRules, shut, open), proxied))
	s.prompt()
	h := s.hand
	at := func(port string) string { return "http://localhost:" + port + "/" }
	for _, a := range h.worked("get", at(open)) {
		if a.Got != "open for localhost:"+open {
			t.Errorf("got %s", a)
		}
	}
	for _, a := range h.refused("get", at(shut)) {
		if !strings.Contains(a.Err, "403") || !strings.Contains(a.Got, "rule shut") {
			t.Errorf("got %s, want the rule", a)
		}
	}
	// Without the proxy, the same rules decide, and no rule allows anything but TCP.
	for _, a := range h.try("direct", "127.0.0.1:"+open, "[::ffff:127.0.0.1]:"+open) {
		if byTCP := strings.HasPrefix(a.What, "tcp") || strings.HasPrefix(a.What, "multipath"); byTCP != (a.Err == "") {
			t.Errorf("got %s, want that it works by TCP alone", a)
		}
	}
	h.refused("direct", "127.0.0.1:"+shut, "[::ffff:127.0.0.1]:"+shut)

	// The user is asked, and the answer counts for the next try.
	for _, a := range h.refused("get", at(asked)) {
		if !strings.Contains(a.Got, "the user has been asked") {
			t.Errorf("got %s, want that the user is asked", a)
		}
	}
	question := s.Expect("session/request_permission")
	if !strings.Contains(string(question.Raw), "connect to localhost:"+asked) {
		t.Errorf("the question is %s", question.Raw)
	}
	h.refused("get", at(asked)) // it is being asked about
	s.answers(question, "allow_once")
	h.worked("get", at(asked))
	h.worked("get", at(asked)) // in the same turn

	// What no rule can allow, and what is none.
	s.hand.refused("get", "http://169.254.169.254/latest/", "http://[::ffff:169.254.169.254]/", "http://a.example@localhost:"+shut+"/")
	connect := func(to string) string {
		return "CONNECT " + to + " HTTP/1.1\r\nHost: localhost:" + open + "\r\nSECRET\r\n\r\n"
	}
	h.refused("proxy", connect("localhost:"+shut), connect("2130706433:"+open), connect("0x7f000001:"+open), connect("127.1:"+open),
		connect("[::1%25lo]:"+open), connect("localhost:"+open+"@x:1"), connect("localhost"), connect("169.254.169.254:80"),
		"CONNECT localhost:"+open+" HTTP/1.1\r\nHost: x\r\n\r\n", // without the secret
		"GET / HTTP/1.1\r\nHost: localhost:"+open+"\r\nSECRET\r\n\r\n")
	h.worked("proxy", connect("localhost:"+open), connect("LOCALHOST.:"+open))
	s.recorded(`"rule":"shut"`, `"rule":"site"`, `"rule":"acphost/metadata"`, `"localhost"`, `"outcome":"refused, then allowed"`)
	notes, _ := s.person("audit", "query", "--json")
	if !strings.Contains(notes, "network proxy, full") {
		t.Errorf("the record does not say what stands of the network:\n%s", notes)
	}
	s.finish()
}

// TestNetwork_ProxyRejectsOthers also checks that the proxy ends with its agent.
func TestNetwork_ProxyRejectsOthers(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	open := site(t, "open")
	s := openFixture(t, policy(fmt.Sprintf(networkRules, "1", open), proxied))
	s.prompt()
	got := s.hand.worked("variable", "HTTPS_PROXY")[0].Got
	_, address, ok := strings.Cut(got, "@")
	if !ok || !strings.HasPrefix(address, "127.0.0.1:") {
		t.Fatalf("HTTPS_PROXY is %q", got)
	}
	for name, want := range map[string]string{"http_proxy": got, "ALL_PROXY": got, "NO_PROXY": "", "NODE_USE_ENV_PROXY": "1"} {
		if a := s.hand.worked("variable", name)[0]; a.Got != want {
			t.Errorf("%s is %q, want %q", name, a.Got, want)
		}
	}
	// Another process of this machine, with the address and without the secret.
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(testkit.Timeout()))
	_, _ = fmt.Fprintf(conn, "CONNECT localhost:%s HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic YWdlbnQ6YWdlbnQ=\r\n\r\n", open)
	answer, _ := io.ReadAll(conn)
	_ = conn.Close()
	if !strings.HasPrefix(string(answer), "HTTP/1.1 407 ") {
		t.Errorf("ATTACK SUCCEEDED: got %q", answer)
	}
	s.hand.worked("proxy-connections", "1000") // half a header each
	s.hand.worked("get", "http://localhost:"+open+"/")
	family, err := proc.Descendants(s.PID())
	if err != nil {
		t.Fatal(err)
	}
	s.kill(s.hand.pid)
	testkit.Eventually(t, "the proxy ends with its agent", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	s.ExpectExit()
	s.ExpectNobody(t, family)
}

// TestNetwork_NoneReachesNothing also checks that an agent in observe mode reaches every host.
func TestNetwork_NoneReachesNothing(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	open := site(t, "open")
	rules := fmt.Sprintf(networkRules, "1", open)
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		s := openFixture(t, policy(rules, fmt.Sprintf(networks, "enforce", "none")))
		s.prompt()
		s.hand.refused("direct", "127.0.0.1:"+open, "[::ffff:127.0.0.1]:"+open, "[::1]:"+open)
		s.hand.refused("variable", "HTTPS_PROXY")
		s.recorded(`"rule":"acphost/network"`)
		s.finish()
	})
	t.Run("observed", func(t *testing.T) {
		t.Parallel()
		s := openFixture(t, policy(rules, fmt.Sprintf(networks, "observe", "proxy")))
		s.prompt()
		other := site(t, "other")
		s.hand.worked("get", "http://localhost:"+other+"/")
		if a := s.hand.try("direct", "127.0.0.1:"+open)[0]; a.Err != "" {
			t.Errorf("got %s, want that it works", a)
		}
		out, _ := s.person("audit", "query", "--json")
		for _, want := range []string{`"rule":"acphost/network"`, `"port":` + other} {
			if !strings.Contains(out, want) {
				t.Errorf("the record has no %s:\n%s", want, out)
			}
		}
		s.finish()
	})
	t.Run("without a sandbox", func(t *testing.T) {
		out, err := exec.Command(program("acphost"), "run", "--sandbox", "off", "--network", "proxy", "--", "true").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "sandbox.mode") {
			t.Errorf("got %q, %v", out, err)
		}
	})
}

// TestNetwork_RequiredHostsAreReached under a policy that names none of them. An answer for the session is a grant,
// which can be revoked.
func TestNetwork_RequiredHostsAreReached(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	model, asked := site(t, "model"), site(t, "asked")
	s := openFixture(t, func(p *wire.Place) []string {
		p.File(t, "../.config/acphost/agents.json", `{"agents": [{"id": "attacker", "acphost": {"hosts": ["localhost:`+model+`"]}}]}`)
		return policy("version: 1\nrules: [{id: everything, effect: ask, when: \"true\"}]\n", proxied)(p)
	})
	s.prompt()
	h := s.hand
	at := func(port string) string { return "http://localhost:" + port + "/" }
	h.worked("get", at(model))
	h.refused("get", at(asked))
	s.answers(s.Expect("session/request_permission"), "allow_always")
	h.worked("get", at(asked))
	s.recorded(`"rule":"acphost/agent-hosts"`, `"answered_by":"grant"`)
	out, status := s.person("grants", "list", "--json")
	if status != 0 || !strings.Contains(out, `"host":"localhost:`+asked+`"`) {
		t.Fatalf("the grants are (status %d):\n%s", status, out)
	}
	grants, err := testkit.JSONLines[struct{ ID string }]([]byte(out))
	if err != nil || len(grants) != 1 {
		t.Fatalf("%v:\n%s", err, out)
	}
	if out, status := s.person("grants", "revoke", grants[0].ID); status != 0 {
		t.Fatalf("revoke: status %d:\n%s", status, out)
	}
	h.refused("get", at(asked))
	s.Expect("session/request_permission")
	why, _ := s.person("policy", "why", "--agent", "attacker", "--host", "localhost:"+model, "--address", "127.0.0.1", "--config", s.Home+"/config/config.yaml")
	if !strings.HasPrefix(why, "allow  rule acphost/agent-hosts") {
		t.Errorf("policy why says:\n%s", why)
	}
	s.finish()
}
