//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/test/adversary/orders"
	"github.com/acphost/acphost/test/wire"
)

// deeds are what a test can order. Each belongs to a file of this folder.
var deeds = map[string]func(args []string) ([]orders.Try, error){
	"spawn": spawn,
}

// self is this program, whatever became of its file.
const self = "/proc/self/exe"

// serve does what comes over the socket, one after the other, until the test hangs up.
func serve(socket string) error {
	conn, err := wire.Enter(socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	in, out := bufio.NewReader(conn), json.NewEncoder(conn)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil // the test is done with us
		}
		var o orders.Order
		if err := json.Unmarshal(line, &o); err != nil {
			return err
		}
		if err := out.Encode(do(o)); err != nil {
			return err
		}
	}
}

func do(o orders.Order) (a orders.Answer) {
	deed := deeds[o.Do]
	if deed == nil {
		return orders.Answer{Failed: "there is no deed " + o.Do}
	}
	defer func() {
		if why := recover(); why != nil {
			a = orders.Answer{Failed: fmt.Sprintf("%s: %v", o.Do, why)}
		}
	}()
	tries, err := deed(o.Args)
	if err != nil {
		return orders.Answer{Failed: fmt.Sprintf("%s: %v", o.Do, err)}
	}
	return orders.Answer{Tries: tries}
}

// tried says how something went.
func tried(what string, err error) orders.Try { return orders.Try{What: what, Err: nameOf(err)} }

// got says how something went, and what it brought.
func got(what, brought string, err error) orders.Try {
	t := tried(what, err)
	t.Got = brought
	if err != nil && brought == "" {
		t.Got = err.Error()
	}
	return t
}

// nameOf is the short name of an error: an errno's, a gRPC code's, else its text.
func nameOf(err error) string {
	if err == nil {
		return ""
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		if name := unix.ErrnoName(errno); name != "" {
			return name
		}
	}
	if s, ok := status.FromError(err); ok {
		return s.Code().String()
	}
	return err.Error()
}

// errnoOf makes an error of a raw system call's.
func errnoOf(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// spawn HAND HOW starts another hand, which enters the stage by itself:
//
//	child    a child of this process
//	orphan   its parent has ended
//	stray    its parent has ended, its session is its own, its environment is empty
func spawn(args []string) ([]orders.Try, error) {
	if args[1] == "child" {
		cmd := exec.Command(self, "hand", args[0])
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		go func() { _ = cmd.Wait() }()
		return []orders.Try{tried("spawn", nil)}, nil
	}
	cmd := exec.Command(self, "relay", args[0], args[1])
	if args[1] == "stray" {
		cmd.Env, cmd.SysProcAttr = []string{}, &syscall.SysProcAttr{Setsid: true}
	}
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	return []orders.Try{tried("spawn", nil)}, nil
}

// relay starts a hand and returns, so that it is an orphan.
func relay(socket, how string) error {
	cmd := exec.Command(self, "hand", socket)
	if how == "stray" {
		cmd.Env, cmd.SysProcAttr = []string{}, &syscall.SysProcAttr{Setsid: true}
	}
	return cmd.Start()
}

// canary leaves a file behind that says which program ran, and how.
func canary(file string) error {
	return os.WriteFile(file, []byte(fmt.Sprintf("%d %q\n", os.Getpid(), os.Args)), 0o600)
}

// number reads a number that a test gave.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}
