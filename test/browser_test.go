package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/acphost/acphost/test/wire"
)

// chrome is a headless Chromium, driven by its own protocol (CDP).
type chrome struct {
	t    *testing.T
	ctx  context.Context
	cmd  *exec.Cmd
	conn *websocket.Conn
	done chan struct{} // the reader has ended

	mu      sync.Mutex
	next    int                          // guarded by mu
	waiting map[int]chan json.RawMessage // guarded by mu: for answers
	said    map[string][]string          // guarded by mu: complaints by tab
}

// tab is one page.
type tab struct {
	*chrome
	session string
}

// browser starts Chromium, or skips the test where there is none.
func browser(t *testing.T) *chrome {
	t.Helper()
	name, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*wire.Patience)
	t.Cleanup(cancel)
	dir := t.TempDir()
	c := &chrome{t: t, ctx: ctx, done: make(chan struct{}), waiting: map[int]chan json.RawMessage{}, said: map[string][]string{}}
	args := []string{"--headless", "--remote-debugging-port=0", "--user-data-dir=" + dir, "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "about:blank"}
	if os.Geteuid() == 0 {
		args = append([]string{"--no-sandbox"}, args...) // it has none for root
	}
	c.cmd = exec.CommandContext(ctx, name, args...)
	c.cmd.Env = append(os.Environ(), "HOME="+dir)
	errs, err := c.cmd.StderrPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	address := ""
	for lines := bufio.NewScanner(errs); lines.Scan(); {
		if _, at, ok := strings.Cut(lines.Text(), "DevTools listening on "); ok {
			address = at
			break
		}
	}
	go func() { // what it says goes nowhere, and does not hold it up
		for b := make([]byte, 4096); ; {
			if _, err := errs.Read(b); err != nil {
				return
			}
		}
	}()
	if c.conn, _, err = websocket.Dial(ctx, address, nil); err != nil {
		t.Fatalf("connect to Chromium at %q: %v", address, err)
	}
	c.conn.SetReadLimit(64 << 20)
	go c.read()
	return c
}

func (c *chrome) read() {
	defer close(c.done)
	for {
		_, text, err := c.conn.Read(c.ctx)
		if err != nil {
			return
		}
		var m struct {
			ID        int
			SessionID string
			Method    string
			Params    json.RawMessage
			Result    json.RawMessage
			Error     json.RawMessage
		}
		if json.Unmarshal(text, &m) != nil {
			continue
		}
		c.mu.Lock()
		switch m.Method {
		case "":
			answer := m.Result
			if m.Error != nil {
				answer = m.Error
			}
			if to := c.waiting[m.ID]; to != nil {
				to <- answer
				delete(c.waiting, m.ID)
			}
		case "Runtime.exceptionThrown", "Log.entryAdded":
			c.said[m.SessionID] = append(c.said[m.SessionID], string(m.Params))
		}
		c.mu.Unlock()
	}
}

// call sends a command, and returns its result.
func (c *chrome) call(session, method string, params map[string]any) map[string]any {
	c.t.Helper()
	answer := make(chan json.RawMessage, 1)
	c.mu.Lock()
	c.next++
	id := c.next
	c.waiting[id] = answer
	c.mu.Unlock()
	m := map[string]any{"id": id, "method": method, "params": params}
	if session != "" {
		m["sessionId"] = session
	}
	text, err := json.Marshal(m)
	if err == nil {
		err = c.conn.Write(c.ctx, websocket.MessageText, text)
	}
	if err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	select {
	case got := <-answer:
		var result map[string]any
		if err := json.Unmarshal(got, &result); err != nil {
			c.t.Fatalf("%s: %s", method, got)
		}
		return result
	case <-c.done:
		c.t.Fatalf("%s: Chromium has gone", method)
	}
	return nil
}

// open opens a page, and returns when it is loaded.
func (c *chrome) open(address string) tab {
	c.t.Helper()
	target := c.call("", "Target.createTarget", map[string]any{"url": "about:blank"})["targetId"]
	session, _ := c.call("", "Target.attachToTarget", map[string]any{"targetId": target, "flatten": true})["sessionId"].(string)
	p := tab{c, session}
	c.call(session, "Runtime.enable", nil)
	c.call(session, "Log.enable", nil)
	c.call(session, "Page.navigate", map[string]any{"url": address})
	p.eval(`new Promise(done => { const look = () => location.href.startsWith("http") && document.readyState === "complete" ? done() : setTimeout(look, 20); look(); })`)
	return p
}

// eval evaluates an expression, and waits for it if it is a promise.
func (p tab) eval(expression string) any {
	p.t.Helper()
	got := p.call(p.session, "Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true})
	if got["exceptionDetails"] != nil {
		p.t.Fatalf("%s: %v", expression, got["exceptionDetails"])
	}
	return dig(got, "result", "value")
}

// complaints are the errors of scripts, of the network and of policies.
func (p tab) complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said[p.session]
}

// close ends Chromium. It may be called more than once.
func (c *chrome) close() {
	if c.conn != nil {
		_ = c.conn.Write(c.ctx, websocket.MessageText, []byte(`{"id": 0, "method": "Browser.close"}`))
		<-c.done
		_ = c.conn.CloseNow()
		c.conn = nil
	} else if c.cmd.ProcessState == nil {
		_ = c.cmd.Process.Kill()
	}
	if c.cmd.ProcessState == nil {
		_ = c.cmd.Wait()
	}
}
