package gate

import "github.com/acphost/acphost/internal/paths"

// Sight is a Gate that goes by what has been seen of the disk for one question. It must not outlive the question, and
// is not for concurrent use.
type Sight struct {
	*Gate
	seen *paths.Seen
}

// By returns the Gate as it goes by what has been seen; nil: it looks each time.
func (g *Gate) By(seen *paths.Seen) Sight { return Sight{g, seen} }
