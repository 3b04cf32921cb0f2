package gate

import "github.com/acphost/acphost/internal/paths"

// Sight is a Gate with a cache of path look-ups for one request. It must not outlive the request, and is not safe for concurrent use.
type Sight struct {
	*Gate
	seen *paths.Cache
}

// By returns the Gate with a cache of path look-ups; nil: no cache.
func (g *Gate) By(seen *paths.Cache) Sight { return Sight{g, seen} }
