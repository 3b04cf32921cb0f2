//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/acphost/acphost/test/adversary/orders"
)

func init() { deeds["call-through"] = callThrough }

// callThrough PROGRAM SOCKET (METHOD JSON)... calls methods through "acphost dial", which connects to the supervisor in the
// attacker's place. The first Try says whether it did.
func callThrough(args []string) ([]orders.Try, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	var said bytes.Buffer
	cmd := exec.Command(args[0], "dial", "--socket", args[1])
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, &said
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return nil, err
	}
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	ours.Close()
	var line []byte
	for b := make([]byte, 1); len(line) == 0 || b[0] != '\n'; {
		if n, _ := conn.Read(b); n == 0 {
			conn.Close()
			ended := cmd.Wait() // after which all that it said is here
			return []orders.Try{got("dial", said.String(), errors.Join(ended, errors.New("it did not connect")))}, nil
		}
		line = append(line, b[0])
	}
	defer func() { conn.Close(); _ = cmd.Wait() }()
	client, err := grpc.NewClient("passthrough:///dial", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return conn, nil }))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	tries := []orders.Try{got("dial", string(line), nil)}
	for i := 2; i+1 < len(args); i += 2 {
		t, err := callOne(client, args[i], args[i+1])
		if err != nil {
			return nil, err
		}
		tries = append(tries, t)
	}
	return tries, nil
}
