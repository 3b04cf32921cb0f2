package host

import (
	"fmt"
	"os"

	"github.com/acphost/acphost/services/supervisor/internal/events/filefeed"
)

// serveActivity serves the feed of file activity if the configuration gives it an address, and logs the address on
// standard error. agentID is the id of the agent if there is only one. sessions opens and closes sessions; nil means
// that the editor does. An error is only logged, because editors may run an agent twice. The caller calls stop.
func (h *host) serveActivity(agentID string, sessions filefeed.Sessions) (stop func()) {
	address := h.config.GetActivity().GetListen()
	if address == "" {
		return func() {}
	}
	folder, err := os.Getwd()
	if err != nil {
		folder = "" // clients choose the folders of sessions
	}
	feed, err := filefeed.Start(filefeed.Options{Listen: address, Source: h.hub, AgentID: agentID, Sessions: sessions, Folder: folder, Logger: h.log})
	if err != nil {
		h.log.Warn("there is no feed of file activity", "error", err)
		return func() {}
	}
	if h.opts.Stderr != nil {
		fmt.Fprintf(h.opts.Stderr, "eisen-core tcp port: %d\nacphost: file activity token: %s\n", feed.Port(), feed.Token())
	}
	return feed.Close
}
