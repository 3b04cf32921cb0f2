package egress

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/acphost/acphost/internal/hosts"
)

// ask sends a query for a name to a table, and returns the response code and the addresses of the answer.
func ask(t *testing.T, n *nameTable, name string, kind dnsmessage.Type) (dnsmessage.RCode, []string) {
	t.Helper()
	query := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}},
	}
	raw, err := query.Pack()
	if err != nil {
		t.Fatal(err)
	}
	out, err := n.answer(raw)
	if err != nil {
		t.Fatal(err)
	}
	var m dnsmessage.Message
	if err := m.Unpack(out); err != nil {
		t.Fatal(err)
	}
	if m.ID != 7 || !m.Response || len(m.Questions) != 1 || m.Questions[0] != query.Questions[0] {
		t.Errorf("%s: the answer is for another query: %+v", name, m)
	}
	var found []string
	for _, r := range m.Answers {
		found = append(found, netip.AddrFrom4(r.Body.(*dnsmessage.AResource).A).String())
	}
	return m.RCode, found
}

func TestNameTable_AnswersQueries(t *testing.T) {
	var n nameTable
	for _, c := range []struct {
		name string
		kind dnsmessage.Type
		code dnsmessage.RCode
		want string
	}{
		{"a.example.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, "198.18.0.1"},
		{"b.example.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, "198.18.0.2"},
		{"A.Example.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, "198.18.0.1"},
		{"a.example.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, ""},
		{"a.example.", dnsmessage.TypeTXT, dnsmessage.RCodeSuccess, ""},
		{"localhost.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, "127.0.0.1"},
		{"1.0.18.198.in-addr.arpa.", dnsmessage.TypePTR, dnsmessage.RCodeNameError, ""},
		{"10.0.0.1.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"a b.example.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
	} {
		code, found := ask(t, &n, c.name, c.kind)
		if code != c.code || strings.Join(found, " ") != c.want {
			t.Errorf("%s %v: got %v %q, want %v %q", c.name, c.kind, code, found, c.code, c.want)
		}
	}
	for address, want := range map[string]string{"198.18.0.1": "a.example", "::ffff:198.18.0.2": "b.example", "198.18.0.0": "", "198.18.0.3": "", "198.19.255.255": ""} {
		h, err := n.host(hosts.Host{Address: netip.MustParseAddr(address)})
		if h.Name != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %v, %v, want %q", address, h, err, want)
		}
	}
	if h, err := n.host(hosts.Host{Address: netip.MustParseAddr("192.0.2.1")}); err != nil || h.String() != "192.0.2.1" {
		t.Errorf("another address: got %v, %v", h, err)
	}
}

func TestNameTable_LimitsNames(t *testing.T) {
	var n nameTable
	for i := range maxNames {
		if a, ok := n.address(fmt.Sprintf("n%d.example", i)); !ok || !nameRange.Contains(a) {
			t.Fatalf("name %d: got %v, %t", i, a, ok)
		}
	}
	if code, found := ask(t, &n, "more.example.", dnsmessage.TypeA); code != dnsmessage.RCodeServerFailure || len(found) > 0 {
		t.Errorf("got %v %q", code, found)
	}
	if code, found := ask(t, &n, "n0.example.", dnsmessage.TypeA); code != dnsmessage.RCodeSuccess || len(found) != 1 {
		t.Errorf("a known name: got %v %q", code, found)
	}
}

func FuzzNameTable_Answer(f *testing.F) {
	query := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("a.example."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	raw, err := query.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, query []byte) {
		var n nameTable
		out, err := n.answer(query)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(out); err != nil || !m.Response {
			t.Errorf("got %x: %v", out, err)
		}
	})
}
