package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// remote is a way to reach an agent over WebSocket.
type remote struct {
	name   string
	begin  func() (*far, error)
	parts  []string // whose processor time counts, by what far.pids calls them
	rates  map[string][]float64
	costs  map[string]map[string][]float64 // seconds of processor time a GB, by part
	rounds []time.Duration
}

// far is a session with an agent over WebSocket, with the processes between them.
type far struct {
	ws   *websocket.Conn
	ctx  context.Context
	next int
	pids map[string]int
	stop func()
}

// gateway compares gatewayd and "acphost serve" with the server of the TypeScript SDK, before the same agent: the rate
// at which updates pass, the processor time that a GB takes, and a round trip.
func (b *bench) gateway() error {
	ours, err := b.newGateway()
	if err != nil {
		return err
	}
	theirs := &remote{name: "the SDK's server (AcpServer)", begin: b.startNode, parts: []string{"node"}}
	both := []*remote{ours, theirs}
	for _, r := range both {
		r.rates, r.costs = map[string][]float64{}, map[string]map[string][]float64{}
	}
	kinds := []struct {
		turn  string
		n     int
		bytes float64
	}{{"flood", 50_000, 300}, {"large", 1000, 64 << 10}}
	for range instances {
		var open []*far
		for _, r := range both {
			f, err := r.begin()
			if err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			open = append(open, f)
			for started := time.Now(); time.Since(started) < warmUp; {
				if _, err := f.turn("flood 2000"); err != nil {
					return fmt.Errorf("%s: %w", r.name, err)
				}
			}
		}
		for range max(1, b.rounds/instances) {
			for _, kind := range kinds {
				for i, r := range both {
					if err := r.measure(open[i], kind.turn, kind.n, kind.bytes); err != nil {
						return fmt.Errorf("%s: %w", r.name, err)
					}
				}
			}
			for i, r := range both {
				for range 200 {
					began := time.Now()
					if err := open[i].ask("_bench/ping", `{}`); err != nil {
						return fmt.Errorf("%s: %w", r.name, err)
					}
					r.rounds = append(r.rounds, time.Since(began))
				}
			}
		}
		for _, f := range open {
			f.stop()
		}
	}
	for _, kind := range kinds {
		fmt.Printf("\n| updates of %.0f bytes over WebSocket | updates/s | gatewayd is | processor time a GB | gatewayd takes |\n|---|---|---|---|---|\n", kind.bytes)
		rate, cost := medianFloat(ours.rates[kind.turn]), medianFloat(ours.costs[kind.turn]["gatewayd"])
		for _, r := range both {
			for _, part := range r.parts {
				spent := medianFloat(r.costs[kind.turn][part])
				fmt.Printf("| %s: %s | %.0f | %.2f× | %.2f s | %.2f× |\n", r.name, part, medianFloat(r.rates[kind.turn]), rate/medianFloat(r.rates[kind.turn]), spent, cost/spent)
			}
		}
	}
	fmt.Printf("\n| a request to the agent and its answer | median | gatewayd's relative to it |\n|---|---|---|\n")
	for _, r := range both {
		fmt.Printf("| %s | %v | %.2f× |\n", r.name, median(r.rounds).Round(time.Microsecond), float64(median(ours.rounds))/float64(median(r.rounds)))
	}
	return nil
}

// measure plays a turn of n updates.
func (r *remote) measure(f *far, turn string, n int, size float64) error {
	before := map[string]time.Duration{}
	for part, pid := range f.pids {
		before[part] = processorTime(pid)
	}
	took, err := f.turn(fmt.Sprintf("%s %d", turn, n))
	if err != nil {
		return err
	}
	r.rates[turn] = append(r.rates[turn], float64(n)/took.Seconds())
	if r.costs[turn] == nil {
		r.costs[turn] = map[string][]float64{}
	}
	for part, pid := range f.pids {
		r.costs[turn][part] = append(r.costs[turn][part], (processorTime(pid)-before[part]).Seconds()/(float64(n)*size/1e9))
	}
	return nil
}

// newGateway makes the keys and the token of a gateway.
func (b *bench) newGateway() (*remote, error) {
	dir := filepath.Join(b.dir, "gateway")
	keys, file := filepath.Join(dir, "keys"), filepath.Join(dir, "tokens.json")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	acphost := func(args ...string) (string, error) {
		cmd := exec.Command(b.acphost, args...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	_, err := acphost("certs", "init", keys, "--host", "127.0.0.1")
	if err == nil {
		_, err = acphost("certs", "gateway", keys)
	}
	secret := ""
	if err == nil {
		secret, err = acphost("tokens", "create", "--role", "operator", "--file", file)
	}
	if err != nil {
		return nil, err
	}
	command, err := json.Marshal(b.bare("agent"))
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "journal: {disabled: true}\nserve: {gateway_agents: [{name: bench, command: %s}]}\n", command), 0o600); err != nil {
		return nil, err
	}
	// Keys of callers are not to lie where the server's do.
	served := filepath.Join(dir, "served")
	if err := os.Rename(filepath.Join(keys, "server"), served); err != nil {
		return nil, err
	}
	begin := func() (*far, error) {
		behind, err := freeAddress()
		if err != nil {
			return nil, err
		}
		at, err := freeAddress()
		if err != nil {
			return nil, err
		}
		supervisor, err := background(b.dir, b.acphost, "serve", "--config", config, "--listen", behind, "--tls-dir", served)
		if err != nil {
			return nil, err
		}
		gateway, err := background(b.dir, filepath.Join(filepath.Dir(b.acphost), "gatewayd"), "--listen", at, "--tokens", file, "--supervisor", behind,
			"--supervisor-tls-dir", filepath.Join(keys, "gateway"), "--log-level", "error", "--drain", "0s")
		if err != nil {
			supervisor.end()
			return nil, err
		}
		f, err := dialFar("ws://"+at+"/acp", http.Header{"Authorization": {"Bearer " + secret}})
		if err != nil {
			gateway.end()
			supervisor.end()
			return nil, err
		}
		f.pids = map[string]int{"gatewayd": gateway.Process.Pid, "acphost serve": supervisor.Process.Pid}
		f.stop = func() { _ = f.ws.CloseNow(); gateway.end(); supervisor.end() }
		return f, nil
	}
	return &remote{name: "acphost", begin: begin, parts: []string{"gatewayd", "acphost serve"}}, nil
}

// startNode starts the server of the TypeScript SDK.
func (b *bench) startNode() (*far, error) {
	cmd := exec.Command("node", append([]string{filepath.Join("test", "peers", "ts-server.mjs")}, b.bare("agent")...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	stop := func() { _ = in.Close(); _ = cmd.Wait() }
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return nil, fmt.Errorf("the server of the SDK does not start; \"make test-deps\" installs it: %w", err)
	}
	f, err := dialFar("ws://127.0.0.1:"+strings.TrimSpace(port)+"/acp", nil)
	if err != nil {
		stop()
		return nil, err
	}
	f.pids = map[string]int{"node": cmd.Process.Pid}
	f.stop = func() { _ = f.ws.CloseNow(); stop() }
	return f, nil
}

// process is one that runs in the background.
type process struct{ *exec.Cmd }

func background(dir, program string, args ...string) (*process, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	return &process{cmd}, cmd.Start()
}

func (p *process) end() {
	_ = p.Process.Signal(os.Interrupt)
	_ = p.Wait()
}

// dialFar opens a session, as soon as the gateway serves.
func dialFar(url string, header http.Header) (*far, error) {
	f := &far{ctx: context.Background()}
	var err error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if f.ws, _, err = websocket.Dial(f.ctx, url, &websocket.DialOptions{HTTPHeader: header}); err != nil { //nolint:bodyclose // none exists
			continue
		}
		f.ws.SetReadLimit(-1)
		if err = f.ask("initialize", `{"protocolVersion":1,"clientCapabilities":{}}`); err == nil {
			return f, f.ask("session/new", `{"cwd":"/tmp","mcpServers":[]}`)
		}
		_ = f.ws.CloseNow() // the supervisor may not serve yet
	}
	return nil, err
}

// ask sends a request, and reads to its answer.
func (f *far) ask(method, params string) error {
	f.next++
	id := `"id":` + strconv.Itoa(f.next)
	if err := f.ws.Write(f.ctx, websocket.MessageText, []byte(`{"jsonrpc":"2.0",`+id+`,"method":"`+method+`","params":`+params+`}`)); err != nil {
		return err
	}
	head := make([]byte, 64)
	buf := make([]byte, 64<<10)
	for {
		_, r, err := f.ws.Reader(f.ctx)
		if err != nil {
			return err
		}
		n, err := io.ReadFull(r, head)
		if err == nil {
			for err == nil {
				_, err = r.Read(buf)
			}
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		switch at := head[:n]; {
		case bytes.Contains(at, []byte(`"method"`)):
		case !bytes.Contains(at, []byte(id+",")):
		case bytes.Contains(at, []byte(`"error"`)):
			return fmt.Errorf("%s: %s", method, at)
		default:
			return nil
		}
	}
}

// turn plays a turn, and returns its duration.
func (f *far) turn(text string) (time.Duration, error) {
	began := time.Now()
	err := f.ask("session/prompt", `{"sessionId":"s","prompt":[{"type":"text","text":"`+text+`"}]}`)
	return time.Since(began), err
}
