package testkit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// FreePort returns an address of the loopback interface ("127.0.0.1:PORT") without a listener, for a program that
// cannot choose a port by itself. Until the test ends, no other test gets it: FreePort reserves a port by opening it
// for UDP, which the tests do not use. It is below the range of ephemeral ports (from 32768 on Linux, 49152 elsewhere).
func FreePort(tb testing.TB) string {
	tb.Helper()
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))
		reserved, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		tried, err := net.Listen("tcp", address)
		if err != nil {
			_ = reserved.Close()
			continue
		}
		_ = tried.Close()
		tb.Cleanup(func() { _ = reserved.Close() })
		return address
	}
	tb.Fatal("none of a thousand ports of the loopback is free: close what listens there")
	return ""
}
