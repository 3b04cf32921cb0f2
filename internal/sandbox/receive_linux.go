//go:build amd64 || arm64

package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// One thread receives the calls, and answers most of them itself: the kernel switches between the calling process and this thread on
// the same processor, and wakes no other thread. If several threads waited on the listener, the kernel would wake all of them for
// each call (recv_wait_event in kernel/seccomp.c).
//
// A thread that is about to wait for the decider or for another process passes its turn to another thread (call.pass). The watcher
// takes the turn from a thread that is stuck nevertheless, for example in a file system that another confined process serves.

// receivers is the number of threads that answer calls. More threads than processors help if decisions take long.
const receivers = 8

const (
	// watchInterval is how often the watcher looks. It takes the turn from a thread that it sees twice in the same call.
	watchInterval = time.Millisecond
	// maxIdleLooks is how often the watcher looks without seeing a call, before it sleeps until the next one.
	maxIdleLooks = 100
)

// turn is the right to receive calls. One thread has it.
type turn struct {
	// free is a semaphore (eventfd): 1 while no thread has the turn.
	free int
	// state is even while the thread that has the turn waits for a call, and odd while it answers one. It only grows.
	state atomic.Uint64
	// asleep: the watcher sleeps until wake, an eventfd, is written to.
	asleep atomic.Bool
	wake   int
}

func newTurn() (*turn, error) {
	free, err := unix.Eventfd(1, unix.EFD_SEMAPHORE|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		unix.Close(free)
		return nil, err
	}
	return &turn{free: free, wake: wake}, nil
}

// take waits until the calling thread has the turn.
func (t *turn) take() error {
	var count [8]byte
	for {
		_, err := unix.Read(t.free, count[:])
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// begin marks that the thread that has the turn answers a call, and returns the number of the call.
func (t *turn) begin() uint64 {
	n := t.state.Add(1)
	if t.asleep.Load() && t.asleep.CompareAndSwap(true, false) {
		signalEvent(t.wake)
	}
	return n
}

// end marks the end of a call. It reports whether the thread still has the turn.
func (t *turn) end(call uint64) bool { return t.state.CompareAndSwap(call, call+1) }

// pass lets another thread have the turn, if the thread that answers the call still has it.
func (t *turn) pass(call uint64) {
	if t.end(call) {
		signalEvent(t.free)
	}
}

func signalEvent(fd int) {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(fd, one[:]) // fails only if the counter overflows
}

// watch takes the turn from threads that are stuck in a call.
func (t *turn) watch() {
	var before uint64
	for idle := 0; ; {
		wait := int(watchInterval / time.Millisecond)
		if idle >= maxIdleLooks {
			t.asleep.Store(true)
			if t.state.Load() == before { // begin finds asleep from now on
				wait = -1
			}
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(t.wake), Events: unix.POLLIN}}, wait)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return
		case n > 0:
			var count [8]byte
			_, _ = unix.Read(t.wake, count[:])
		}
		if t.asleep.Swap(false) {
			idle = 0
		}
		switch now := t.state.Load(); {
		case now != before:
			before, idle = now, 0
		case now%2 == 1:
			t.pass(now)
		default:
			idle++
		}
	}
}

// start starts the receiving threads. If it returns an error, no calls are received, and each call would wait forever.
func (s *server) start() error {
	ready := make(chan error)
	for range receivers {
		go s.receive(ready)
	}
	var err error
	for range receivers {
		err = errors.Join(err, <-ready)
	}
	if err != nil {
		return fmt.Errorf("%w: start a thread that answers: %w", ErrUnsupported, err)
	}
	go s.turn.watch()
	return nil
}

// receive answers calls until the listener ends. It sends on ready once whether it can; ready may be nil.
func (s *server) receive(ready chan<- error) {
	err := ownThread()
	if ready != nil {
		ready <- err
	}
	if err != nil {
		return
	}
	for s.turn.take() == nil {
		for {
			c := &call{server: s}
			errno := s.ioctl(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&c.notification))
			if errno == unix.EINTR || errno == unix.ENOENT && !s.over() { // the caller was killed
				continue
			}
			if errno != 0 { // no process is left that could make a call
				signalEvent(s.turn.free) // the other threads find that, too
				return
			}
			c.serving = s.turn.begin()
			if runtime.NumCPU() > 2 && s.pending() { // otherwise a second thread would compete with the callers
				c.pass()
			}
			c.serve()
			if c.replaced {
				c.pass()
				return
			}
			if !s.turn.end(c.serving) {
				break
			}
		}
	}
}

// pass lets another thread receive calls while this call is answered.
func (c *call) pass() { c.turn.pass(c.serving) }

// pending reports whether another call waits to be received.
func (s *server) pending() bool { return s.poll()&unix.POLLIN != 0 }

// over reports whether no process is left that could make a call.
func (s *server) over() bool { return s.poll()&unix.POLLHUP != 0 }

func (s *server) poll() int16 {
	p := []unix.PollFd{{Fd: int32(s.listener), Events: unix.POLLIN}}
	if n, err := unix.Poll(p, 0); err != nil || n == 0 {
		return 0
	}
	return p[0].Revents
}
