//go:build !linux

package terminal

// startReaper only warns here: orphans become children of init.
func (s *Terminals) startReaper() (stop func()) {
	s.log.Warn("processes that leave their process group outlive their terminal on this system")
	return func() {}
}

func (s *Terminals) endEscaped() {}
