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
)

// greeted are credentials of which one byte is enough.
type greeted struct {
	credentials.TransportCredentials
	came chan net.Addr
}

func (g greeted) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return nil, nil, err
	}
	g.came <- conn.RemoteAddr()
	return conn, nil, nil
}

func (g greeted) Clone() credentials.TransportCredentials { return g }

func (greeted) Info() credentials.ProtocolInfo { return credentials.ProtocolInfo{} }

func TestThoseWhoSayNothingAtASidecarGiveWay(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan net.Addr, 1)
	server := grpc.NewServer(grpc.Creds(telling{greeted{came: came}}))
	served := make(chan error, 1)
	go func() { served <- server.Serve(newPressed(listener, 8)) }()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
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
	greet(first) // and is nobody's to drop from now on
	var flood []net.Conn
	for range 100 {
		flood = append(flood, dial())
	}
	for i, conn := range flood[:96] {
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		// A dropped one is closed before it is served: not one byte comes.
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
		t.Errorf("who had arrived was dropped: %v", err)
	}
}
