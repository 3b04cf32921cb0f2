package terminal

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/acphost/acphost/internal/proc"
)

// reaper reaps the processes that lost their parents and became our children.
type reaper struct {
	signals chan os.Signal
	stop    chan struct{}
}

func (s *Terminals) startReaper() {
	if err := proc.Subreaper(); err != nil {
		s.log.Warn("processes that leave their terminal may outlive it", "error", err)
		return
	}
	r := &reaper{signals: make(chan os.Signal, 1), stop: make(chan struct{})}
	signal.Notify(r.signals, syscall.SIGCHLD)
	s.reaper = r
	s.reapers.Go(func() {
		for {
			select {
			case <-r.signals:
			case <-r.stop:
				return
			}
			if _, err := proc.ReapAdopted(s.ours); err != nil {
				s.log.Warn("ended processes are left as zombies", "error", err)
			}
		}
	})
}

func (s *Terminals) stopReaper() {
	if s.reaper == nil {
		return
	}
	signal.Stop(s.reaper.signals)
	close(s.reaper.stop)
	s.reapers.Wait()
}

// ours reports whether somebody waits for the process.
func (s *Terminals) ours(pid int) bool {
	s.fork.Lock() // who is being started is entered first
	defer s.fork.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaders[pid] != nil || slices.Contains(s.spared(), pid)
}

func (s *Terminals) spared() []int {
	if s.spare == nil {
		return nil
	}
	return s.spare()
}

// sweep ends the processes that got away from their terminals, once there is no terminal left that they could belong to:
// all that descends from us then is such a one.
func (s *Terminals) sweep() {
	if !s.adopt {
		return
	}
	strays := s.strays()
	if len(strays) == 0 {
		return
	}
	s.log.Info("processes that left their terminals are ended", "count", len(strays))
	s.mu.Lock()
	grace := s.limits.Grace
	if s.closed {
		grace = min(grace, closeGrace/2)
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), grace+endTime)
	defer cancel()
	err := proc.End(ctx, func() ([]int, error) {
		var all []int
		for _, stray := range strays {
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

func (s *Terminals) strays() []proc.Tree {
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
	spared := s.spared()
	var strays []proc.Tree
	for _, pid := range pids {
		if slices.Contains(spared, pid) {
			continue
		}
		if stray, err := proc.TreeOf(pid); err == nil {
			strays = append(strays, stray)
		}
	}
	return strays
}
