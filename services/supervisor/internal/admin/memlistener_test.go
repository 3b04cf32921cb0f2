package admin

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
)

func TestMemListener_ConnectsCaller(t *testing.T) {
	p := newMemListener()
	defer p.Close()
	echoed := make(chan error, 1)
	go func() {
		conn, err := p.Accept()
		if err == nil {
			_, err = io.Copy(conn, conn)
		}
		echoed <- errors.Join(err, conn.Close())
	}()
	conn, err := p.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
		t.Errorf("got %q (%v) back, want \"hello\"", got, err)
	}
	_ = conn.Close()
	if err := <-echoed; err != nil {
		t.Errorf("the accepted end: %v", err)
	}
}

func TestMemListener_DialEndsWithContextOrClose(t *testing.T) {
	p := newMemListener()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.dial(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v from a caller that gave up, want %v", err, context.Canceled)
	}
	waiting := make(chan error, 1)
	go func() { _, err := p.dial(t.Context()); waiting <- err }()
	_, _ = p.Close(), p.Close()
	if err := <-waiting; !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v from a caller that waits while the listener is closed, want %v", err, net.ErrClosed)
	}
	if _, err := p.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v from Accept after Close, want %v", err, net.ErrClosed)
	}
}
