package main

import (
	"os"
	"strings"
	"sync"
	"time"
)

// sample is the load average over a minute, at a time.
type sample struct {
	at   time.Time
	load string
}

type samples []sample

// at returns the load at a time: the last sample before it; "" if none exists.
func (s samples) at(t time.Time) string {
	load := ""
	for _, one := range s {
		if one.at.After(t) {
			break
		}
		load = one.load
	}
	return load
}

// sampler reads the load until it is stopped.
type sampler struct {
	done chan struct{}
	wait sync.WaitGroup
	all  samples
}

// sampleLoads reads the load now, and again after each period. On systems without /proc/loadavg there are no samples.
func sampleLoads(every time.Duration) *sampler {
	s := &sampler{done: make(chan struct{})}
	s.wait.Go(func() {
		ticks := time.NewTicker(every)
		defer ticks.Stop()
		for {
			if text, err := os.ReadFile("/proc/loadavg"); err == nil {
				load, _, _ := strings.Cut(string(text), " ")
				s.all = append(s.all, sample{time.Now(), load})
			}
			select {
			case <-ticks.C:
			case <-s.done:
				return
			}
		}
	})
	return s
}

// stop ends the sampling, and returns the samples.
func (s *sampler) stop() samples {
	close(s.done)
	s.wait.Wait()
	return s.all
}
