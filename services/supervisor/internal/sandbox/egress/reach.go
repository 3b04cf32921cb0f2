package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/reason"
)

// refusal is an error response. Its text is for the agent.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// errTimeout is the cause of a timeout.
var errTimeout = errors.New("it took too long")

// dial decides on a target and connects to it. The context also ends if the client closes its sending direction before
// the connection is made: it counts as closed then.
func (p *Proxy) dial(ctx context.Context, to Target) (net.Conn, error) {
	special, err := p.decide(ctx, &to)
	if err != nil {
		return nil, err
	}
	if err := p.check(to, special); err != nil {
		return nil, err
	}
	return p.connect(ctx, to)
}

// decide calls the Decider for the target, and resolves its addresses.
func (p *Proxy) decide(ctx context.Context, to *Target) (special bool, err error) {
	if to.Host.Address.IsValid() {
		to.Addresses = []netip.Addr{to.Host.Address}
		return p.ask(ctx, *to)
	}
	if p.Upstream != nil && p.Upstream(*to) != nil {
		to.Upstream = true
		return p.ask(ctx, *to)
	}
	if _, err := p.ask(ctx, *to); err != nil {
		return false, err
	}
	look, cancel := context.WithTimeoutCause(ctx, p.Timeout, errTimeout)
	defer cancel()
	found, err := p.LookUp(look, to.Host.Name)
	if err == nil && len(found) == 0 {
		err = errors.New("it has no address")
	}
	if err != nil {
		return false, refuse(http.StatusBadGateway, "the address of %s could not be found: %s", to.Host, causeOf(err))
	}
	for _, address := range found {
		if address = address.WithZone("").Unmap(); !slices.Contains(to.Addresses, address) {
			to.Addresses = append(to.Addresses, address)
		}
	}
	if len(to.Addresses) > maxAddresses {
		to.Addresses = to.Addresses[:maxAddresses]
	}
	return p.ask(ctx, *to)
}

// maxAddresses limits the addresses of a machine that are tried.
const maxAddresses = 16

// ask calls the Decider, and returns an error if it does not return in time.
func (p *Proxy) ask(ctx context.Context, to Target) (special bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.Timeout, errTimeout)
	defer cancel()
	answer := make(chan Decision, 1)
	p.work.Go(func() {
		defer panics.Recover(p.Logger, "deciding about a connection", func(err error) { answer <- Decision{Reason: err.Error()} })
		answer <- p.Decide(ctx, to)
	})
	var d Decision
	select {
	case d = <-answer:
	case <-ctx.Done():
		d = Decision{Reason: reason.LateDecision.String()}
	}
	switch d.Verdict {
	case Allow:
		return d.Special, nil
	case Ask:
		return false, refuse(http.StatusForbidden, "refused: connect to %s%s; the user has been asked: try again after the answer", to, because(d.Reason))
	default:
		return false, refuse(http.StatusForbidden, "refused: connect to %s%s", to, because(d.Reason))
	}
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// check rejects a target if one of its addresses is not allowed, so that no name leads to addresses that its rule does
// not cover.
func (p *Proxy) check(to Target, special bool) error {
	for _, address := range to.Addresses {
		switch {
		case hosts.IsMetadata(address):
			return refuse(http.StatusForbidden, "refused: connect to %s (%s): %s", to, address, reason.CloudKeys)
		case !special && !hosts.IsPublic(address):
			return refuse(http.StatusForbidden, "refused: connect to %s: %s", to, reason.PrivateAddress.With(address))
		case netip.AddrPortFrom(address, to.Port) == p.at:
			return refuse(http.StatusForbidden, "refused: connect to %s: %s", to, reason.ProxyItself)
		}
	}
	return nil
}

// connect connects to the first address of the target that answers.
func (p *Proxy) connect(ctx context.Context, to Target) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.Timeout, errTimeout)
	defer cancel()
	if p.Upstream != nil {
		if by := p.Upstream(to); by != nil {
			return connectBy(ctx, by, to)
		}
	}
	var last error
	for i, address := range to.Addresses {
		dialer := net.Dialer{Timeout: p.Timeout / time.Duration(len(to.Addresses)-i)}
		conn, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(address, to.Port).String())
		if err == nil {
			return conn, nil
		}
		if last = err; ctx.Err() != nil {
			break
		}
	}
	status := http.StatusBadGateway
	if causeOf(last) == errTimeout.Error() {
		status = http.StatusGatewayTimeout
	}
	return nil, refuse(status, "%s could not be reached: %s", to, causeOf(last))
}

// causeOf returns the message of the operating system in an error.
func causeOf(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "there is no such name"
	case errors.As(err, &dns):
		return "the name service does not answer"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &op) && op.Timeout():
		return errTimeout.Error()
	case errors.As(err, &op):
		return op.Err.Error()
	}
	return err.Error()
}
