//go:build !linux

package terminal

// reaper does not exist here: orphans go to init.
type reaper struct{}

func (s *Terminals) startReaper() {
	s.log.Warn("processes that leave their process group outlive their terminal on this system")
}

func (s *Terminals) stopReaper() {}

func (s *Terminals) sweep() {}
