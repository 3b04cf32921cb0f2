package handler

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/acphost/acphost/internal/testkit"
)

// oneByte are credentials with a handshake of one byte.
type oneByte struct {
	credentials.TransportCredentials
}

func (oneByte) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return nil, nil, err
	}
	return conn, nil, nil
}

func (oneByte) Clone() credentials.TransportCredentials { return oneByte{} }

func (oneByte) Info() credentials.ProtocolInfo { return credentials.ProtocolInfo{} }

// signalling are credentials that report each handshake on a channel after the credentials below have done all that
// they do for it: until then, the connection can still be evicted.
type signalling struct {
	credentials.TransportCredentials
	done chan struct{}
}

func (s signalling) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	known, info, err := s.TransportCredentials.ServerHandshake(conn)
	if err == nil {
		s.done <- struct{}{}
	}
	return known, info, err
}

func (s signalling) Clone() credentials.TransportCredentials { return s }

func TestPressed_EvictsSilentConnections(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan struct{}, 1)
	server := grpc.NewServer(grpc.Creds(signalling{reportingCredentials{oneByte{}}, came}))
	served := make(chan error, 1)
	go func() { served <- server.Serve(newHandshakeListener(listener, 8)) }()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Timeout())
	defer cancel()
	dial := func() net.Conn {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	greet := func(conn net.Conn) {
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		select {
		case <-came:
		case <-ctx.Done():
			t.Fatal("it does not arrive")
		}
	}
	first := dial()
	greet(first) // and must not be dropped from now on
	var flood []net.Conn
	for range 100 {
		flood = append(flood, dial())
	}
	for i, conn := range flood[:96] {
		if err := conn.SetReadDeadline(time.Now().Add(testkit.Timeout())); err != nil {
			t.Fatal(err)
		}
		// A dropped connection is closed before it is served: it receives no byte.
		if n, err := conn.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("number %d of the flood is there still", i)
		}
	}
	greet(flood[99])
	greet(dial())
	if _, err := first.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		t.Error(err)
	}
	if n, err := first.Read(make([]byte, 1)); n != 1 {
		t.Errorf("an identified connection was dropped: %v", err)
	}
}
