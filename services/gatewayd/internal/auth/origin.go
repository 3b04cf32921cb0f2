package auth

import (
	"net/http"
	"slices"
)

// AllowedOrigin returns the origin of the page that makes a request, if its scripts may call (Options.Origins); "":
// they may not, or no page makes the request. It does not authenticate: it is used for preflight requests, which carry
// no credentials.
func (g *Gate) AllowedOrigin(r *http.Request) string {
	origins := r.Header.Values("Origin")
	if len(origins) != 1 || !g.hosts[hostOf(r.Host)] || !slices.Contains(g.opts.Origins, origins[0]) {
		return ""
	}
	return origins[0]
}
