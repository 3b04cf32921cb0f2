package auth

import (
	"net/http"
	"slices"
)

// PageOf returns the origin of the page that makes a request, if it is one whose scripts may call (Options.Origins); "": it is
// none, or no page makes the request. It says nothing of who is there: browsers ask it for preflight requests, which show nobody.
func (g *Gate) PageOf(r *http.Request) string {
	origins := r.Header.Values("Origin")
	if len(origins) != 1 || !g.hosts[hostOf(r.Host)] || !slices.Contains(g.opts.Origins, origins[0]) {
		return ""
	}
	return origins[0]
}
