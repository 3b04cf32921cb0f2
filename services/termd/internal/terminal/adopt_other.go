//go:build !linux

package terminal

// startReaper has nothing to do here: orphans go to init.
func (s *Terminals) startReaper() (stop func()) {
	s.log.Warn("processes that leave their process group outlive their terminal on this system")
	return func() {}
}

func (s *Terminals) sweep() {}
