package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// front is the plainest editor: it writes requests and reads lines.
type front struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	next int
	dir  string
}

// startFront runs the command line of an agent or a stand-in, and opens a session in dir.
func startFront(dir string, argv []string) (*front, error) {
	f, err := launchFront(dir, argv)
	if err != nil {
		return nil, err
	}
	if err := f.open(); err != nil {
		f.stop()
		return nil, err
	}
	return f, nil
}

func launchFront(dir string, argv []string) (*front, error) {
	f := &front{cmd: exec.Command(argv[0], argv[1:]...), dir: dir}
	f.cmd.Stderr, f.cmd.Dir = os.Stderr, dir
	f.cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(dir, "state")) // not the person's own journal
	var err error
	if f.in, err = f.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	f.out = bufio.NewReaderSize(out, 1<<20)
	return f, f.cmd.Start()
}

func (f *front) open() error {
	if _, err := f.request("initialize", `{"protocolVersion":1,"clientCapabilities":{}}`); err != nil {
		return err
	}
	_, err := f.request("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, f.dir))
	return err
}

// request sends a request and returns its result; notifications and requests in between are dropped.
func (f *front) request(method, params string) (json.RawMessage, error) {
	id, err := f.send(method, params)
	if err != nil {
		return nil, err
	}
	mark := []byte(`"id":` + id)
	for {
		line, err := f.out.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("%s: %w", method, err)
		}
		if !bytes.Contains(line[:min(len(line), 64)], mark) && !bytes.Contains(line[max(0, len(line)-64):], mark) {
			continue
		}
		var msg struct {
			Result json.RawMessage
			Error  json.RawMessage
		}
		if err := json.Unmarshal(line, &msg); err != nil {
			return nil, err
		}
		if msg.Error != nil {
			return nil, fmt.Errorf("%s: %s", method, msg.Error)
		}
		return msg.Result, nil
	}
}

func (f *front) send(method, params string) (id string, err error) {
	f.next++
	id = strconv.Itoa(f.next)
	_, err = fmt.Fprintf(f.in, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`+"\n", id, method, params)
	return id, err
}

// prompt plays a turn and returns what the agent measured, in nanoseconds.
func (f *front) prompt(text string) ([]time.Duration, error) {
	res, err := f.request("session/prompt", fmt.Sprintf(`{"sessionId":"s","prompt":[{"type":"text","text":%q}]}`, text))
	if err != nil {
		return nil, err
	}
	var out struct {
		Meta struct {
			Times []time.Duration `json:"times"`
		} `json:"_meta"`
	}
	return out.Meta.Times, json.Unmarshal(res, &out)
}

// flooded is how long a turn took in which the agent writes lines, and what the process that passes them on spent on it.
type flooded struct{ took, cost time.Duration }

// flood plays a turn in which the agent writes lines.
func (f *front) flood(text string) (flooded, error) {
	started, spent := time.Now(), processorTime(f.cmd.Process.Pid)
	if _, err := f.send("session/prompt", fmt.Sprintf(`{"sessionId":"s","prompt":[{"type":"text","text":%q}]}`, text)); err != nil {
		return flooded{}, err
	}
	// The end is searched for in the last bytes only, so that reading costs the same for every writer.
	end := []byte(`"end_turn"`)
	buf := make([]byte, 1<<20)
	var tail []byte
	for {
		k, err := f.out.Read(buf)
		if err != nil {
			return flooded{}, err
		}
		tail = append(tail, buf[max(0, k-256):k]...)
		tail = tail[max(0, len(tail)-256):]
		if bytes.Contains(tail, end) && tail[len(tail)-1] == '\n' {
			return flooded{time.Since(started), processorTime(f.cmd.Process.Pid) - spent}, nil
		}
	}
}

func (f *front) stop() {
	_ = f.in.Close()
	_, _ = io.Copy(io.Discard, f.out)
	_ = f.cmd.Wait()
}
