package e2e_test

import (
	"bufio"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
)

func TestTheFeedTellsFilesInObserveMode(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	st := p.newStage(t)
	h := p.start(t, []string{"--observe", "--activity", "127.0.0.1:0"}, st.command)
	agent := st.play(t)
	said := regexp.MustCompile(`(?m)^eisen-core tcp port: (\d+)$`)
	testkit.Eventually(t, "the port is said", func() bool { return said.MatchString(h.Stderr()) })
	conn, err := net.Dial("tcp", "127.0.0.1:"+said.FindStringSubmatch(h.Stderr())[1])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	lines := bufio.NewScanner(conn)
	until := func(part string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), part) {
				return
			}
		}
		t.Fatalf("no line has %q: %v", part, lines.Err())
	}
	until(`{"type":"snapshot",`)
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/work","mcpServers":[]}}`,
	} {
		h.Write(line)
		agent.Next()
	}
	agent.Write(`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}`)
	h.Next()
	agent.Write(`{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}`)
	h.Next()
	until(`"session_id":"s"`)
	agent.Write(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"t","title":"x","kind":"edit","status":"completed","locations":[{"path":"/work/a.go"}]}}}`)
	h.Next()
	until(`"updates":[{"path":"a.go","heat":1,"in_context":true,"last_action":"write",`)
	h.finish()
}
