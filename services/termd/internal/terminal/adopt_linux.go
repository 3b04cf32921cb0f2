package terminal

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/proc"
)

// startReaper starts a goroutine that reaps adopted orphans until stop is called.
func (s *Terminals) startReaper() (stop func()) {
	if err := proc.Subreaper(); err != nil {
		s.log.Warn("processes that leave their terminal may outlive it", "error", err)
		return func() {}
	}
	signals, finished := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGCHLD)
	var reaper sync.WaitGroup
	reaper.Go(func() {
		for {
			select {
			case <-signals:
			case <-finished:
				return
			}
			if err := panics.Catch(s.log, "reaping ended processes", func() error {
				_, err := proc.ReapAdopted(s.isOwnChild)
				return err
			}); err != nil {
				s.log.Warn("ended processes are left as zombies", "error", err)
			}
		}
	})
	return func() {
		signal.Stop(signals)
		close(finished)
		reaper.Wait()
	}
}

// isOwnChild reports whether this process waits for a child.
func (s *Terminals) isOwnChild(pid int) bool {
	s.fork.Lock() // children that are being started are registered first
	defer s.fork.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaders[pid] != nil || slices.Contains(s.excludedPIDs(), pid) || proc.Started(pid)
}

func (s *Terminals) excludedPIDs() []int {
	if s.exclude == nil {
		return nil
	}
	return s.exclude()
}

// endEscaped ends the processes that escaped from their terminals, once no terminal is left: all remaining descendants
// of this process have escaped.
func (s *Terminals) endEscaped() {
	if !s.adopt {
		return
	}
	escaped := s.escapedTrees()
	if len(escaped) == 0 {
		return
	}
	s.log.Info("processes that left their terminals are ended", "count", len(escaped))
	grace := s.grace(closeGrace / 2)
	ctx, cancel := context.WithTimeout(context.Background(), grace+endTimeout)
	defer cancel()
	err := proc.End(ctx, func() ([]int, error) {
		var all []int
		for _, stray := range escaped {
			pids, err := stray.List()
			if err != nil {
				return nil, err
			}
			all = append(all, pids...)
		}
		slices.Sort(all)
		return slices.Compact(all), nil
	}, grace)
	if err != nil {
		s.log.Error("processes that left their terminals could not be ended", "error", err)
	}
}

func (s *Terminals) escapedTrees() []proc.Tree {
	s.fork.Lock()
	defer s.fork.Unlock()
	s.mu.Lock()
	active := s.active
	s.mu.Unlock()
	if active > 0 {
		return nil
	}
	pids, err := proc.Descendants(os.Getpid())
	if err != nil {
		s.log.Warn("cannot look for processes that left their terminals", "error", err)
		return nil
	}
	excluded := s.excludedPIDs()
	var escaped []proc.Tree
	for _, pid := range pids {
		if slices.Contains(excluded, pid) || proc.Started(pid) {
			continue
		}
		if stray, err := proc.TreeOf(pid); err == nil {
			escaped = append(escaped, stray)
		}
	}
	return escaped
}
