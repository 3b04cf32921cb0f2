package jsonrpc

import (
	"runtime"
	"time"
)

const (
	// floodReads is the number of consecutive small and frequent reads that begin a flood.
	floodReads = 16
	floodSoon  = 100 * time.Microsecond
	// floodWait is the time in which lines are collected in a flood before they are read. The system adds up to half of
	// it.
	floodWait = 100 * time.Microsecond
	// floodLarge is the size in bytes of a large read. After a large read, the Reader does not wait.
	floodLarge = 64 << 10
	// floodSmall is the minimum number of bytes that must have been collected; otherwise the flood is over.
	floodSmall = 4 << 10
	// floodDoubt limits how often the required number of reads is doubled after floods in which too few bytes were
	// collected.
	floodDoubt = 6
)

// flood delays reads from a source that writes lines very frequently, such as an agent that replays a long session, so
// that one read returns many lines. To wake up for a line takes many times as long as all other work for it. A source
// that writes fewer than ten thousand times a second, or that waits for answers, is not delayed.
type flood struct {
	at     time.Time // time of the last read
	size   int       // bytes of the last read
	reads  int       // consecutive reads that were small and frequent
	doubt  int
	on     bool
	waited bool
}

// wait is called before a read.
func (f *flood) wait() {
	if f.waited = f.on && f.size < floodLarge; f.waited {
		runtime.Gosched() // let goroutines with work run first
		pause(floodWait)
	}
}

// read records the size of a read.
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
