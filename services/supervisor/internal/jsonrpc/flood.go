package jsonrpc

import (
	"runtime"
	"time"
)

const (
	// A flood has begun after so many reads in a row that bring less than floodLarge, each so soon after the one before.
	floodReads = 16
	floodSoon  = 100 * time.Microsecond
	// floodWait is how long lines gather in a flood before they are read. The system adds as much as half of it.
	floodWait = 100 * time.Microsecond
	// floodLarge is a read that is worth a wake-up: after it nothing is waited for.
	floodLarge = 64 << 10
	// floodSmall is what must have gathered, or the flood is over.
	floodSmall = 4 << 10
	// floodDoubt is how many times the reads are doubled until the next flood is believed, if nothing had gathered.
	floodDoubt = 6
)

// flood lets the lines of a source gather that writes them faster than one by one is worth: an agent that tells a long session
// anew, say. To be woken for a line takes many times as long as all else that is done about it. A source that writes ten
// thousand times a second is no such source, nor is one that waits for answers.
type flood struct {
	at     time.Time // of the last read
	size   int       // what it brought
	reads  int       // in a row that were small, and came soon
	doubt  int
	on     bool
	waited bool
}

// wait is called before a read.
func (f *flood) wait() {
	if f.waited = f.on && f.size < floodLarge; f.waited {
		runtime.Gosched() // who has something to do does it now
		pause(floodWait)
	}
}

// read is told what a read brought.
func (f *flood) read(n int) {
	now := time.Now()
	soon := now.Sub(f.at) < floodSoon
	f.at, f.size = now, n
	switch {
	case f.waited && n < floodSmall:
		f.on, f.reads, f.doubt = false, 0, min(f.doubt+1, floodDoubt)
	case f.waited:
		f.doubt = 0
	case f.on:
	case !soon || n >= floodLarge:
		f.reads = 0
	default:
		f.reads++
		f.on = f.reads >= floodReads<<f.doubt
	}
}
