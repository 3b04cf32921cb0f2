package host

import (
	"slices"
	"strings"

	"google.golang.org/grpc"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/route"
)

// firstMethods are the methods by which the handler of a kind is found: whoever answers one of them answers all that share its
// capability.
var firstMethods = map[string]string{route.KindFS: "fs/read_text_file", route.KindTerminal: "terminal/create"}

// handlerAt is the handler that answers methods of a kind in the sessions of a folder. If none does, it is the one that is
// called like the kind, which still knows the files.
func (hs *handlers) handlerAt(kind, dir string) string {
	if table := hs.routesNow(); table != nil {
		if r := table.At(dir).Lookup([]byte(firstMethods[kind])); r != nil && r.Target == route.Handler {
			return r.Handler
		}
	}
	return kind
}

// connAt returns the connection to that handler.
func (hs *handlers) connAt(kind, dir string) (grpc.ClientConnInterface, error) {
	return hs.conn(hs.handlerAt(kind, dir))
}

// answers reports whether a handler answers methods of a kind by a table.
func answers(table *route.Table, kind, name string) bool {
	r := table.Lookup([]byte(firstMethods[kind]))
	return r != nil && r.Target == route.Handler && r.Handler == name
}

// answering are the handlers that may answer methods of a kind in some session, sorted.
func (h *host) answering(kind string) []string { return route.Answering(h.handlers.routes, kind) }

// isOf reports whether a handler may answer methods of a kind.
func (h *host) isOf(kind, name string) bool { return slices.Contains(h.answering(kind), name) }

// isSidecar reports whether a handler is configured with an address.
func (h *host) isSidecar(name string) bool { return h.config.GetHandlers()[name].GetAddress() != "" }

// describe adds to a handler's status which methods it answers, for which folders, and how its paths are mapped.
func (hs *handlers) describe(st *supervisorv1.HandlerStatus) {
	name := st.GetName()
	if table := hs.routesNow(); table != nil {
		st.Methods = table.Methods(name)
	}
	st.Folders = hs.foldersOf(name)
	for _, m := range hs.maps[name].All() {
		st.Paths = append(st.Paths, &supervisorv1.PathMap{Here: m.Here, There: m.There})
	}
}

// mapped are the client's folders that a handler sees under other paths.
func (hs *handlers) mapped(name string) (here []string) {
	for _, m := range hs.maps[name].All() {
		here = append(here, m.Here)
	}
	return here
}

// foldersOf are the folders whose sessions a handler serves by routes of these folders, sorted.
func (hs *handlers) foldersOf(name string) []string {
	if hs == nil {
		return nil
	}
	if table := hs.routesNow(); table != nil {
		return table.Folders(name)
	}
	return nil
}

// folderHandlers are the handlers that serve the sessions of one folder, by folder and name.
func (hs *handlers) folderHandlers() []*supervisorv1.FolderHandler {
	var all []*supervisorv1.FolderHandler
	for _, name := range hs.names() {
		for _, folder := range hs.foldersOf(name) {
			all = append(all, &supervisorv1.FolderHandler{Folder: folder, Handler: name})
		}
	}
	slices.SortStableFunc(all, func(a, b *supervisorv1.FolderHandler) int { return strings.Compare(a.GetFolder(), b.GetFolder()) })
	return all
}
