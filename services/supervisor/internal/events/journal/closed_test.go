package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

// descriptors counts the open files of this process below a folder.
func descriptors(t *testing.T, dir string) (n int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc to count open files in:", err)
	}
	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range all {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, dir+"/") {
			n++
		}
	}
	return n
}

// life is a session's, up to its end.
func life(j *Journal, id int) (session string) {
	session = fmt.Sprint("s", id)
	send(j, frame.ClientToAgent, fmt.Sprintf(`{"id":%d,"method":"session/new","params":{"cwd":"/w"}}`, 2*id))
	send(j, frame.AgentToClient, fmt.Sprintf(`{"id":%d,"result":{"sessionId":%q}}`, 2*id, session))
	send(j, frame.AgentToClient, update(session, "hello"))
	send(j, frame.ClientToAgent, fmt.Sprintf(`{"id":%d,"method":"session/close","params":{"sessionId":%q}}`, 2*id+1, session))
	return session
}

func TestJournal_ClosesFileOfClosedSession(t *testing.T) {
	j := opened(t, Options{Content: true})
	session := life(j, 1)
	if written(t, j); descriptors(t, j.opts.Dir) != 1 {
		t.Fatalf("%d files are open, want that of the session that lives", descriptors(t, j.opts.Dir))
	}
	refused := `{"id":3,"error":{"code":-32603,"message":"busy"}}`
	send(j, frame.AgentToClient, refused)
	if written(t, j); descriptors(t, j.opts.Dir) != 1 {
		t.Error("the file is closed though the agent refused to close the session")
	}
	again, yes := `{"id":5,"method":"session/close","params":{"sessionId":"s1"}}`, `{"id":5,"result":{}}`
	send(j, frame.ClientToAgent, again)
	send(j, frame.AgentToClient, yes)
	if written(t, j); descriptors(t, j.opts.Dir) != 0 {
		t.Error("the file of the closed session is open")
	}
	late := update(session, "late")
	send(j, frame.AgentToClient, late)
	if written(t, j); descriptors(t, j.opts.Dir) != 0 {
		t.Error("the file is open because of a late message")
	}
	resume, resumed := `{"id":7,"method":"session/resume","params":{"sessionId":"s1","cwd":"/w"}}`, `{"id":7,"result":{}}`
	send(j, frame.ClientToAgent, resume)
	send(j, frame.AgentToClient, resumed)
	more := update(session, "more")
	send(j, frame.AgentToClient, more)
	if written(t, j); descriptors(t, j.opts.Dir) != 1 {
		t.Error("the file of the session that was resumed is closed")
	}
	closed(t, j)
	if got := messages(t, j.opts.Dir, session)[4:]; !slices.Equal(got, []string{refused, again, yes, late, resume, resumed, more}) {
		t.Errorf("the record ends with\n%s", strings.Join(got, "\n"))
	}
}

// A record about a session whose agent has ended ends the session's file too. An agent cannot send that record.
func TestJournal_ClosesFileOfLostSession(t *testing.T) {
	j := opened(t, Options{Content: true})
	send(j, frame.ClientToAgent, `{"id":1,"method":"session/new","params":{"cwd":"/w"}}`)
	send(j, frame.AgentToClient, `{"id":1,"result":{"sessionId":"s"}}`)
	const gone = `{"method":"_acphost/session_closed","params":{"sessionId":"s","reason":"the agent is gone"}}`
	send(j, frame.AgentToClient, gone)
	send(j, frame.OursToClient, strings.ReplaceAll(gone, `"s"`, `"other"`))
	written(t, j)
	all, err := Parts(j.opts.Dir, "s")
	if err != nil || len(all) != 1 || !Live(all[0].Path) {
		t.Fatalf("the session is not live, though it continues: %v (%v)", all, err)
	}
	send(j, frame.OursToClient, gone)
	if written(t, j); Live(all[0].Path) {
		t.Error("the session is live, though its agent is gone")
	}
	send(j, frame.ClientToAgent, `{"id":2,"method":"session/load","params":{"sessionId":"s","cwd":"/w"}}`)
	send(j, frame.AgentToClient, `{"id":2,"result":{}}`)
	if written(t, j); !Live(all[0].Path) {
		t.Error("the session is not live, though the agent, started again, has loaded it")
	}
	closed(t, j)
}

func TestJournal_LimitsClosedSessions(t *testing.T) {
	j := opened(t, Options{Content: true, MaxQueued: 64 << 20})
	const over = 10
	for i := range maxClosed + over {
		life(j, i)
		send(j, frame.AgentToClient, fmt.Sprintf(`{"id":%d,"result":{}}`, 2*i+1))
	}
	written(t, j)
	if n := descriptors(t, j.opts.Dir); n != 0 {
		t.Errorf("%d files are open", n)
	}
	closed(t, j)
	if n := len(j.writer.files); n != maxClosed {
		t.Errorf("%d files are known, want %d", n, maxClosed)
	}
	if got := messages(t, j.opts.Dir, "s0"); len(got) != 5 {
		t.Errorf("the oldest session has\n%s", strings.Join(got, "\n"))
	}
}
