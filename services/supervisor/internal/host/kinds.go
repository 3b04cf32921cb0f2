package host

import (
	"slices"
	"strings"

	"google.golang.org/grpc"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
)

// firstMethods names one method of each kind. The handler that answers it answers all methods of the same capability.
var firstMethods = map[string]string{route.KindFS: "fs/read_text_file", route.KindTerminal: "terminal/create"}

// handlerAt returns the handler that answers methods of a kind in sessions of a folder. If there is none, it returns
// the handler with the kind's name, which still resolves paths.
func (hs *handlers) handlerAt(kind, dir string) string {
	if table := hs.routesNow(); table != nil {
		if r := table.At(dir).Lookup([]byte(firstMethods[kind])); r != nil && r.Target == route.Handler {
			return r.Handler
		}
	}
	return kind
}

// connAt returns the connection to the handler that handlerAt returns.
func (hs *handlers) connAt(kind, dir string) (grpc.ClientConnInterface, error) {
	return hs.conn(hs.handlerAt(kind, dir))
}

// answers reports whether a handler answers methods of a kind according to a routing table.
func answers(table *route.Table, kind, name string) bool {
	r := table.Lookup([]byte(firstMethods[kind]))
	return r != nil && r.Target == route.Handler && r.Handler == name
}

// answering returns the handlers that may answer methods of a kind in some session, sorted.
func (h *host) answering(kind string) []string { return route.Answering(h.handlers.routes, kind) }

// isOf reports whether a handler may answer methods of a kind.
func (h *host) isOf(kind, name string) bool { return slices.Contains(h.answering(kind), name) }

// isSidecar reports whether a handler is configured with an address.
func (h *host) isSidecar(name string) bool { return h.config.GetHandlers()[name].GetAddress() != "" }

// describe adds to a handler's status the methods that it answers, their folders, and its path mapping.
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

// mapped returns the client's folders that have other paths at a handler.
func (hs *handlers) mapped(name string) (here []string) {
	for _, m := range hs.maps[name].All() {
		here = append(here, m.Here)
	}
	return here
}

// foldersOf returns the folders whose sessions a handler serves by folder routes, sorted.
func (hs *handlers) foldersOf(name string) []string {
	if hs == nil {
		return nil
	}
	if table := hs.routesNow(); table != nil {
		return table.Folders(name)
	}
	return nil
}

// folderHandlers returns the handlers that serve the sessions of one folder, by folder and name.
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
