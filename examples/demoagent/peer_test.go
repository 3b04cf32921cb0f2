package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"testing"
)

// peer is a client that writes JSON by hand and keeps what it reads. It answers whatever the agent asks.
type peer struct {
	t      *testing.T
	in     *io.PipeWriter
	lines  *bufio.Scanner
	nextID int
}

func start(t *testing.T, b behaviour) *peer {
	t.Helper()
	toAgent, fromPeer := io.Pipe()
	toPeer, fromAgent := io.Pipe()
	conn := serve(toAgent, fromAgent, b, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		_ = fromPeer.Close()
		<-conn.Done()
		_ = fromAgent.Close()
	})
	lines := bufio.NewScanner(toPeer)
	lines.Buffer(nil, 1<<20)
	return &peer{t: t, in: fromPeer, lines: lines}
}

// ask sends a request and returns every line up to its answer.
func (p *peer) ask(method, params string) string { return p.askBefore(method, params) }

// askBefore sends a request and lines right behind it, in one piece, and returns every line up to its answer.
func (p *peer) askBefore(method, params string, behind ...string) string {
	p.t.Helper()
	p.nextID++
	id := strconv.Itoa(p.nextID)
	p.write(strings.Join(append([]string{`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`}, behind...), "\n"))
	var updates strings.Builder
	for p.lines.Scan() {
		updates.Write(p.lines.Bytes())
		updates.WriteByte('\n')
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal(p.lines.Bytes(), &m); err != nil {
			p.t.Fatal(err)
		}
		switch {
		case m.Method == "" && string(m.ID) == id:
			return updates.String()
		case m.Method != "" && m.ID != nil:
			answer := `{"content":"two\n","terminalId":"t1","exitCode":3,"outcome":{"outcome":"selected","optionId":"yes"}}`
			if m.Method == "elicitation/create" {
				answer = `{"action":"accept","content":{"jobs":3}}`
			}
			p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, answer))
		}
	}
	p.t.Fatalf("%s was not answered: %v\n%s", method, p.lines.Err(), updates.String())
	return ""
}

// open opens a session and reads the notification of its commands.
func (p *peer) open(cwd string) string {
	p.t.Helper()
	var answer struct{ Result struct{ SessionID string } }
	if err := json.Unmarshal([]byte(p.ask("session/new", `{"cwd":"`+cwd+`","mcpServers":[]}`)), &answer); err != nil || answer.Result.SessionID == "" {
		p.t.Fatalf("no session was opened: %v", err)
	}
	if !p.lines.Scan() || !strings.Contains(p.lines.Text(), "available_commands_update") {
		p.t.Errorf("the session was followed by %s", p.lines.Text())
	}
	return answer.Result.SessionID
}

func (p *peer) write(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// rawTurn is all that an agent sends in a turn.
func rawTurn(t *testing.T, b behaviour, offer, prompt string) string {
	t.Helper()
	p := start(t, b)
	p.ask("initialize", `{"protocolVersion":1,"clientCapabilities":`+offer+`}`)
	return p.ask("session/prompt", `{"sessionId":"`+p.open("/w")+`","prompt":[{"type":"text","text":"`+prompt+`"}]}`)
}
