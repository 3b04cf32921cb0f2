package rest

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// maxShown bounds how much of a request's path an error repeats, in bytes.
const maxShown = 200

// registerUnknown answers requests without a route in the form of other failures: 405 if the path has other methods,
// 404 for other paths. verbs are the methods of each path.
func registerUnknown(mux *http.ServeMux, verbs map[string][]string) {
	for path, allowed := range verbs {
		slices.Sort(allowed)
		allow := strings.Join(allowed, ", ")
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", allow)
			writeError(w, http.StatusMethodNotAllowed, "unimplemented", fmt.Sprintf("%s takes %s, got %.20s", path, allow, r.Method))
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, "not_found", unknownPath(r.URL.Path))
	})
}

// unknownPath returns the error for a path without a route. Ids contain slashes: a client that does not escape them
// requests such a path.
func unknownPath(path string) string {
	shown := url.PathEscape(path[:min(len(path), maxShown)])
	shown = strings.ReplaceAll(shown, "%2F", "/")
	list, id, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch {
	case list == "permissions" && strings.Contains(id, "/") && len(id) <= maxShown:
		return fmt.Sprintf("the path %s is not found: a slash in an id must be written %%2F, as in /permissions/%s", shown, url.PathEscape(id))
	case list == "permissions" || list == "agents" || list == "sessions":
		return fmt.Sprintf("the path %s is not found: GET /openapi.json shows the paths; a slash in an id must be written %%2F", shown)
	}
	return fmt.Sprintf("the path %s is not found: GET /openapi.json shows the paths", shown)
}
