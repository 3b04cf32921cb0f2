package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	acp "github.com/coder/acp-go-sdk"
)

// role plays the agent, or a stand-in for acphost.
func role(name string, args []string) int {
	var err error
	switch name {
	case "agent":
		err = agent()
	case "first":
		err = first(args)
	case "copy":
		err = standIn(args, plainCopy)
	case "reencode":
		err = standIn(args, reencode)
	case "chain":
		err = chain(args)
	case "serve":
		err = serve(args)
	default:
		err = fmt.Errorf("no role %q", name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench role", name+":", err)
		return 1
	}
	return 0
}

// agent answers initialize and session/new, and executes prompts: "flood N", "bulk N", "large N", "pace N RATE", "read
// N PATH", "run N COMMAND", "files N", "cool 1"; by itself: "self N FOLDER COMMAND", "create N FOLDER", "works 1
// FOLDER".
func agent() error {
	in := bufio.NewReaderSize(os.Stdin, 4<<20)
	for sessions := 0; ; {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var msg struct {
			ID     json.RawMessage
			Method string
			Params struct {
				SessionID string
				Prompt    []struct{ Text string }
			}
		}
		if err := json.Unmarshal(line, &msg); err != nil {
			return err
		}
		result := "{}"
		switch msg.Method {
		case "initialize":
			result = `{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"close":{}}}}`
		case "session/new":
			result = `{"sessionId":"s"}`
			if sessions++; sessions > 1 {
				result = fmt.Sprintf(`{"sessionId":"s%d"}`, sessions)
			}
		case "session/prompt":
			times, err := turn(in, msg.Params.SessionID, msg.Params.Prompt[0].Text)
			if err != nil {
				return err
			}
			encoded, _ := json.Marshal(times)
			result = `{"_meta":{"times":` + string(encoded) + `},"stopReason":"end_turn"}`
		}
		if _, err := fmt.Fprintf(os.Stdout, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", msg.ID, result); err != nil {
			return err
		}
	}
}

// first is the agent that writes down when the first byte reaches it, and when a prompt does, in nanoseconds.
func first(args []string) error {
	in := bufio.NewReader(os.Stdin)
	if _, err := in.Peek(1); err != nil {
		return err
	}
	began := time.Now().UnixNano()
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var msg struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal(line, &msg); err != nil {
			return err
		}
		result := map[string]string{
			"initialize": `{"protocolVersion":1,"agentCapabilities":{}}`, "session/new": `{"sessionId":"s"}`, "session/prompt": `{"stopReason":"end_turn"}`,
		}[msg.Method]
		if msg.Method == "session/prompt" {
			if err := os.WriteFile(args[0], fmt.Appendf(nil, "%d %d", began, time.Now().UnixNano()), 0o600); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(os.Stdout, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", msg.ID, result); err != nil {
			return err
		}
	}
}

func turn(in *bufio.Reader, session, text string) ([]time.Duration, error) {
	what, rest, _ := strings.Cut(text, " ")
	count, rest, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(count)
	if err != nil {
		return nil, err
	}
	switch what {
	case "flood":
		return nil, flood(session, n, 1)
	case "bulk":
		return nil, flood(session, n, 200)
	case "large":
		return nil, large(session, n)
	case "pace":
		return nil, pace(session, n, rest)
	case "files":
		return nil, uses(session, n)
	case "cool":
		return nil, fills(session, 1)
	case "read":
		return reads(in, session, n, rest)
	case "run":
		return runs(in, session, n, rest)
	case "self":
		return nil, ownRuns(n, rest)
	case "create":
		return nil, creates(n, rest)
	case "works":
		return nil, works(session, rest)
	}
	return nil, fmt.Errorf("no turn %q", what)
}

// large writes n session updates of 64 KiB.
func large(session string, n int) error {
	line := update(session, 64<<10)
	for range n {
		if _, err := os.Stdout.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// updates returns the given number of session updates of 300 bytes.
func updates(session string, n int) []byte { return bytes.Repeat(update(session, 300), n) }

// update returns a session update of the given number of bytes.
func update(session string, size int) []byte {
	head := fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":`+
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"`, session)
	tail := `"}}}}` + "\n"
	return []byte(head + strings.Repeat("x", size-len(head)-len(tail)) + tail)
}

// flood writes n session updates, the given number per write: one, as agents do, or more than any agent does.
func flood(session string, n, aWrite int) error {
	chunk := updates(session, aWrite)
	for range n / aWrite {
		if _, err := os.Stdout.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

// uses reports that n files were read, and that they fill the context.
func uses(session string, n int) error {
	const aCall = 500
	for i := 0; i < n; i += aCall {
		var at strings.Builder
		for j := i; j < min(n, i+aCall); j++ {
			fmt.Fprintf(&at, `,{"path":"/work/some/folder/file-%05d.go"}`, j)
		}
		if _, err := fmt.Printf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":{"sessionUpdate":"tool_call",`+
			`"toolCallId":"files-%d","title":"read","kind":"read","status":"completed","locations":[%s]}}}`+"\n", session, i, at.String()[1:]); err != nil {
			return err
		}
	}
	return fills(session, 100_000)
}

// fills reports the number of tokens in the context.
func fills(session string, tokens int) error {
	_, err := fmt.Printf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":{"sessionUpdate":"usage_update","used":%d,"size":200000}}}`+"\n", session, tokens)
	return err
}

// pace writes n session updates at a rate per second. It writes updates that are late at once.
func pace(session string, n int, rate string) error {
	each, err := strconv.ParseFloat(rate, 64)
	if err != nil {
		return err
	}
	line := updates(session, 1)
	for i, began := 0, time.Now(); i < n; i++ {
		time.Sleep(time.Until(began.Add(time.Duration(float64(i) / each * float64(time.Second)))))
		if _, err := os.Stdout.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// call makes one request and waits for its answer, which is not decoded.
func call(in *bufio.Reader, id int, method, params string) ([]byte, error) {
	if _, err := fmt.Fprintf(os.Stdout, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params); err != nil {
		return nil, err
	}
	line, err := in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, fmt.Errorf("%s: the answer is larger than this agent reads", method)
	}
	if err != nil {
		return nil, err
	}
	if bytes.Contains(line[:min(len(line), 64)], []byte(`"error"`)) {
		return nil, fmt.Errorf("%s: %s", method, line)
	}
	return line, nil
}

func reads(in *bufio.Reader, session string, n int, path string) ([]time.Duration, error) {
	params := fmt.Sprintf(`{"sessionId":%q,"path":%q}`, session, path)
	times := make([]time.Duration, n)
	for i := range times {
		started := time.Now()
		if _, err := call(in, i, "fs/read_text_file", params); err != nil {
			return nil, err
		}
		times[i] = time.Since(started)
	}
	return times, nil
}

func runs(in *bufio.Reader, session string, n int, command string) ([]time.Duration, error) {
	times := make([]time.Duration, n)
	for i := range times {
		started := time.Now()
		line, err := call(in, 3*i, "terminal/create", fmt.Sprintf(`{"sessionId":%q,"command":%q}`, session, command))
		if err != nil {
			return nil, err
		}
		var msg struct {
			Result struct {
				TerminalID string `json:"terminalId"`
			}
		}
		if err := json.Unmarshal(line, &msg); err != nil {
			return nil, err
		}
		params := fmt.Sprintf(`{"sessionId":%q,"terminalId":%q}`, session, msg.Result.TerminalID)
		if _, err := call(in, 3*i+1, "terminal/wait_for_exit", params); err != nil {
			return nil, err
		}
		times[i] = time.Since(started)
		if _, err := call(in, 3*i+2, "terminal/release", params); err != nil {
			return nil, err
		}
	}
	return times, nil
}

// standIn runs an agent and joins it to this process's front in one way or another.
func standIn(argv []string, join func(agentIn io.WriteCloser, agentOut io.Reader) error) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	childIn, agentIn, err := os.Pipe()
	if err != nil {
		return err
	}
	agentOut, childOut, err := os.Pipe()
	if err != nil {
		return err
	}
	widen(agentIn, agentOut)
	cmd.Stdin, cmd.Stdout = childIn, childOut
	if err := cmd.Start(); err != nil {
		return err
	}
	_ = childIn.Close()
	_ = childOut.Close()
	if err := join(agentIn, agentOut); err != nil {
		return err
	}
	return cmd.Wait()
}

// plainCopy copies bytes without parsing.
func plainCopy(agentIn io.WriteCloser, agentOut io.Reader) error {
	go func() {
		move(agentIn, os.Stdin)
		_ = agentIn.Close()
	}()
	move(os.Stdout, agentOut)
	return nil
}

// move copies with plain reads and writes, as a program that could parse the data does.
func move(w io.Writer, r io.Reader) {
	buf := make([]byte, 256<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// reencode decodes every message with coder/acp-go-sdk and encodes it anew; files it reads itself.
func reencode(agentIn io.WriteCloser, agentOut io.Reader) error {
	p := &proxy{ready: make(chan struct{})}
	p.agent = acp.NewClientSideConnection(p, agentIn, agentOut)
	p.front = acp.NewAgentSideConnection(p, os.Stdout, os.Stdin)
	close(p.ready)
	<-p.front.Done()
	return agentIn.Close()
}

// readFile answers fs/read_text_file as a client does that opens the file itself.
func readFile(_ context.Context, p acp.ReadTextFileRequest) (acp.ReadTextFileResponse, error) {
	b, err := os.ReadFile(p.Path)
	return acp.ReadTextFileResponse{Content: string(b)}, err
}
