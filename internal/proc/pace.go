package proc

import (
	"os"
	"runtime"
	"sync"
	"time"
)

const (
	// paceFrom is the number of concurrent calls from which all processors are used.
	paceFrom = 3
	// paceQuiet is how long there must have been fewer calls before one processor is used again.
	paceQuiet = time.Second
)

// Pace adapts the number of processors for a daemon's Go code to its load. A call that wakes a goroutine on another
// processor waits for that processor to wake up, which takes longer than the work of a small call: with few concurrent
// calls one processor answers faster, with many calls all processors do. Measured on two cores, a small call between
// two processes took 0.8 of the time.
//
// The zero value does nothing; see NewPace. Safe for concurrent use.
type Pace struct {
	mu     sync.Mutex
	on     bool
	active int
	wide   bool
	quiet  *time.Timer
}

// NewPace returns a Pace that starts with all processors, because a start has much work, and uses one processor after a
// quiet second. If GOMAXPROCS is set in the environment, it changes nothing.
func NewPace() *Pace {
	p := &Pace{on: os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) > 1}
	if p.on {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.wide = true
		p.quiet = time.AfterFunc(paceQuiet, p.narrow)
	}
	return p
}

// Enter counts the start of a call. Leave must follow.
func (p *Pace) Enter() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.on {
		return
	}
	p.active++
	if p.active < paceFrom {
		return
	}
	if p.quiet != nil {
		p.quiet.Stop()
		p.quiet = nil
	}
	if !p.wide {
		p.wide = true
		runtime.SetDefaultGOMAXPROCS()
	}
}

// Do counts a call for as long as it runs.
func (p *Pace) Do(call func()) {
	p.Enter()
	defer p.Leave()
	call()
}

// Leave counts the end of a call.
func (p *Pace) Leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.on {
		return
	}
	p.active--
	if p.wide && p.active < paceFrom && p.quiet == nil {
		p.quiet = time.AfterFunc(paceQuiet, p.narrow)
	}
}

// Close restores all processors. Enter and Leave then do nothing.
func (p *Pace) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.on {
		return
	}
	p.on = false
	if p.quiet != nil {
		p.quiet.Stop()
		p.quiet = nil
	}
	runtime.SetDefaultGOMAXPROCS()
}

func (p *Pace) narrow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.on && p.wide && p.quiet != nil && p.active < paceFrom {
		p.quiet = nil
		p.wide = false
		runtime.GOMAXPROCS(1)
	}
}
