package proc

import (
	"os"
	"runtime"
	"sync"
	"time"
)

const (
	// paceFrom is how many calls at once are more than one processor should do.
	paceFrom = 3
	// paceQuiet is how long there must have been fewer until one processor is enough again.
	paceQuiet = time.Second
)

// Pace fits the number of processors that a daemon's Go code runs on to what it has to do. A call that wakes a
// goroutine on another processor waits for that processor to wake up, which takes longer than the work of a small call:
// with few calls at once one processor answers sooner, with many all of them do. Measured on two cores, a small call
// between two processes took 0.8 of the time.
//
// The zero value does nothing; see NewPace. Safe for concurrent use.
type Pace struct {
	mu     sync.Mutex
	on     bool
	active int
	wide   bool
	quiet  *time.Timer
}

// NewPace returns a Pace that begins with all processors, since a start has much to do at once, and takes one after a
// quiet second. It leaves everything as it is where GOMAXPROCS is set in the environment: somebody has chosen.
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

// Enter counts a call that begins; Leave must follow.
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

// Leave counts a call that has ended.
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

// Close ends it, with all processors. Enter and Leave do nothing from then on.
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
