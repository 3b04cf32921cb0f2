package activity

import (
	"slices"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

// An agent that was started again in the same supervisor has the same id, and may give the same ids to its sessions.
func TestWatchSession_DistinguishesSessionsOfSameID(t *testing.T) {
	for name, dir := range map[string]string{"recorded": recordDir(t), "in memory": ""} {
		t.Run(name, func(t *testing.T) {
			p := open(t, dir, "i", Options{MaxRecent: 1 << 20})
			received := func() (texts []string) {
				for _, ev := range p.allOf(t, "s", "") {
					if of := text(ev); of != "" { // not in memory, because there is no watcher
						texts = append(texts, of)
					}
					if o := ev.GetSessionOpened(); o != nil {
						texts = append(texts, o.GetMethod())
					}
				}
				return texts
			}
			l := p.link("a-1")
			l.open("s")
			l.turn("s", "first")
			first := p.allOf(t, "s", "")
			p.CloseSessions("a-1", "the agent is gone")

			l = p.link("a-1")
			l.open("s")
			l.turn("s", "second")
			want := []string{"session/new", "I will second", "session/load", "more"}
			if dir == "" {
				want = []string{"session/new", "session/load"}
			}
			if got := received(); !slices.Equal(got, want[:len(want)/2]) {
				t.Errorf("the events of a session are %q", got)
			}
			if events := p.allOf(t, "s", ""); events[0].GetSessionOpened().GetMethod() != "session/new" {
				t.Errorf("the first event is %v", events[0])
			}
			if got := p.allOf(t, "s", first[len(first)-1].GetCursor()); len(got) == 0 {
				t.Error("no events are sent after a cursor of the earlier session")
			}

			p.CloseSessions("a-1", "the agent is gone") // a session that is loaded goes on
			l = p.link("a-1")
			l.say(frame.ClientToAgent, `{"id":1,"method":"session/load","params":{"sessionId":"s","cwd":"/w","mcpServers":[]}}`)
			l.say(frame.AgentToClient, `{"id":1,"result":{}}`)
			l.chunk("s", "more")
			if got := received(); !slices.Equal(got, want) {
				t.Errorf("the events of a loaded session are %q, want %q", got, want)
			}
		})
	}
}
