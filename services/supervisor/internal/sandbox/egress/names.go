package egress

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/acphost/acphost/internal/hosts"
)

const (
	// dnsPort is the port of name servers. A tunnel to this port, on any machine, leads to the proxy's own name
	// service.
	dnsPort = 53
	// maxNames limits the names that have an address. The range has 131,070.
	maxNames = 16384
	// nameTTL is the number of seconds that programs may cache an address. An address always represents the same name.
	nameTTL = 600
	// maxQuery is the maximum size of a query in bytes. Queries for one name are shorter.
	maxQuery = 1232
)

// nameRange contains the addresses that represent names. RFC 2544 reserves them for benchmarks, so that no machine on
// the internet has one.
var nameRange = netip.MustParsePrefix("198.18.0.0/15")

// nameTable assigns an address to each name, without resolving the name: a look-up can send data to the operator of the
// name's servers, so the name is decided on first, when a program connects. The zero value is ready. It is safe for
// concurrent use.
type nameTable struct {
	mu     sync.Mutex
	byName map[string]netip.Addr // guarded by mu
	known  []string              // guarded by mu: known[i] is the name of the address number i+1 of the range
}

// address returns the address that represents a name. It returns false if there are too many names.
func (n *nameTable) address(name string) (netip.Addr, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a, ok := n.byName[name]; ok {
		return a, true
	}
	if len(n.known) >= maxNames {
		return netip.Addr{}, false
	}
	n.known = append(n.known, name)
	base := nameRange.Addr().As4()
	var raw [4]byte
	binary.BigEndian.PutUint32(raw[:], binary.BigEndian.Uint32(base[:])+uint32(len(n.known)))
	a := netip.AddrFrom4(raw)
	if n.byName == nil {
		n.byName = map[string]netip.Addr{}
	}
	n.byName[name] = a
	return a, true
}

// name returns the name that an address represents.
func (n *nameTable) name(a netip.Addr) (string, bool) {
	base, raw := nameRange.Addr().As4(), a.As4()
	i := int(binary.BigEndian.Uint32(raw[:])) - int(binary.BigEndian.Uint32(base[:])) - 1
	n.mu.Lock()
	defer n.mu.Unlock()
	if i < 0 || i >= len(n.known) {
		return "", false
	}
	return n.known[i], true
}

// host returns the machine that a client means: the name that an address represents, or h itself.
func (n *nameTable) host(h hosts.Host) (hosts.Host, error) {
	a := h.Address.Unmap()
	if !a.IsValid() || !nameRange.Contains(a) {
		return h, nil
	}
	name, ok := n.name(a)
	if !ok {
		return h, refuse(http.StatusBadGateway, "%s stands for no name: look the name up again", a)
	}
	return hosts.Host{Name: name}, nil
}

// serveNames answers the queries of a client in a tunnel to a name server.
func (p *Proxy) serveNames(w http.ResponseWriter) {
	client, buffered, err := openTunnel(w, p.HeaderTimeout)
	if err != nil {
		return
	}
	defer p.track(client)()
	p.answerQueries(client, buffered.Reader)
}

// answerQueries answers queries, each with a length prefix (RFC 1035, section 4.2.2), until the client closes the
// connection or is idle.
func (p *Proxy) answerQueries(client net.Conn, queries *bufio.Reader) {
	for {
		_ = client.SetDeadline(time.Now().Add(p.HeaderTimeout))
		var size [2]byte
		if _, err := io.ReadFull(queries, size[:]); err != nil {
			return
		}
		n := binary.BigEndian.Uint16(size[:])
		if n > maxQuery {
			return
		}
		query := make([]byte, n)
		if _, err := io.ReadFull(queries, query); err != nil {
			return
		}
		answer, err := p.names.answer(query)
		if err != nil {
			return
		}
		if _, err := client.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// errQuery means that a message is not a query with one question.
var errQuery = errors.New("not a query")

// answer answers a query: with the address that represents the name for type A, and without records for other types.
// Invalid host names do not exist.
func (n *nameTable) answer(query []byte) ([]byte, error) {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil {
		return nil, err
	}
	q, err := parser.Question()
	if err != nil || header.Response {
		return nil, errQuery
	}
	header = dnsmessage.Header{
		ID: header.ID, Response: true, OpCode: header.OpCode, RecursionDesired: header.RecursionDesired, RecursionAvailable: true,
	}
	h, err := hosts.Parse(strings.TrimSuffix(q.Name.String(), "."))
	isName := err == nil && h.Name != "" && q.Class == dnsmessage.ClassINET
	var address netip.Addr
	switch {
	case header.OpCode != 0:
		header.RCode = dnsmessage.RCodeNotImplemented
	case !isName || strings.HasSuffix(h.Name, ".arpa"):
		header.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA && h.Name == "localhost":
		address = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case q.Type == dnsmessage.TypeA:
		if address, isName = n.address(h.Name); !isName {
			header.RCode = dnsmessage.RCodeServerFailure
		}
	}
	b := dnsmessage.NewBuilder(nil, header)
	b.EnableCompression()
	err = errors.Join(b.StartQuestions(), b.Question(q), b.StartAnswers())
	if err == nil && address.IsValid() {
		err = b.AResource(dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: nameTTL}, dnsmessage.AResource{A: address.As4()})
	}
	if err != nil {
		return nil, err
	}
	return b.Finish()
}
