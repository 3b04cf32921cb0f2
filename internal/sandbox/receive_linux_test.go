//go:build amd64 || arm64

package sandbox

import (
	"testing"

	"golang.org/x/sys/unix"
)

// isFree reports whether no thread has the turn.
func (t *turn) isFree() bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(t.free), Events: unix.POLLIN}}, 0)
	return n == 1 && err == nil
}

func TestTurn_IsKeptUntilItIsPassed(t *testing.T) {
	turn, err := newTurn()
	if err != nil {
		t.Fatal(err)
	}
	if err := turn.take(); err != nil {
		t.Fatal(err)
	}
	first := turn.begin()
	if !turn.end(first) || turn.isFree() {
		t.Error("the thread lost its turn at the end of a call")
	}
	second := turn.begin()
	turn.pass(first)
	if turn.isFree() {
		t.Error("an earlier call passed the turn")
	}
	turn.pass(second)
	turn.pass(second)
	if turn.end(second) {
		t.Error("the thread kept a turn that it had passed")
	}
	if err := turn.take(); err != nil {
		t.Fatal(err)
	}
	if turn.isFree() {
		t.Error("the turn was passed twice")
	}
}

func TestTurn_WatcherTakesItFromStuckThread(t *testing.T) {
	turn, err := newTurn()
	if err != nil {
		t.Fatal(err)
	}
	go turn.watch() // ends with the test's process
	for range 3 {
		if err := turn.take(); err != nil {
			t.Fatal(err)
		}
		stuck := turn.begin()
		if err := turn.take(); err != nil { // returns when the watcher has passed the turn
			t.Fatal(err)
		}
		if turn.end(stuck) {
			t.Error("the stuck thread kept its turn")
		}
		signalEvent(turn.free)
	}
}
