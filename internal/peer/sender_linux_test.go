package peer

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
)

func TestBySender_ReadAfterCloseReturnsZero(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(testkit.ShortDir(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	theirs, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ours, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	if _, err := ours.Write([]byte("unread")); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close() // with unread data the connection is reset
	c := &senderConn{UnixConn: ours.(*net.UnixConn), sender: &sender{}}
	if n, err := c.Read(make([]byte, 9)); n != 0 || err == nil {
		t.Errorf("got %d bytes and the error %v, want none and an error", n, err)
	}
}
