package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// prompt measures how long "acphost prompt" takes from its start to the first byte that its agent reads, to its prompt,
// and to its own end.
func (b *bench) prompt() error {
	note := filepath.Join(b.dir, "first")
	var first, asked, ended []time.Duration
	for range b.rounds {
		cmd := exec.Command(b.acphost, append([]string{"prompt", "--config", b.unrecorded, "hello", "--"}, b.bare("first", note)...)...)
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(b.dir, "state"))
		started := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		ended = append(ended, time.Since(started))
		text, err := os.ReadFile(note)
		if err != nil {
			return err
		}
		var at [2]int64
		if _, err := fmt.Sscan(string(text), &at[0], &at[1]); err != nil {
			return fmt.Errorf("%s: %w", note, err)
		}
		first = append(first, time.Unix(0, at[0]).Sub(started))
		asked = append(asked, time.Unix(0, at[1]).Sub(started))
	}
	fmt.Printf("\n| acphost prompt, from its start | median |\n|---|---|\n")
	fmt.Printf("| to the first byte that the agent reads | %v |\n", median(first).Round(time.Millisecond/10))
	fmt.Printf("| to the prompt at the agent (initialize and session/new answered, all handlers ready) | %v |\n", median(asked).Round(time.Millisecond/10))
	fmt.Printf("| to its end (turn over, all processes gone) | %v |\n", median(ended).Round(time.Millisecond/10))
	return nil
}

// idleSessions is how many sessions are opened to see what they cost.
const idleSessions = 100

// sessions measures what sessions that nothing happens in cost the supervisor and its handlers.
func (b *bench) sessions() error {
	s, err := b.serve(b.unrecorded)
	if err != nil {
		return err
	}
	defer func() { _ = s.stop() }()
	before := private(s.cmd.Process.Pid)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := supervisorv1.NewSessionServiceClient(s.conn)
	for range idleSessions {
		if _, err := client.NewSession(ctx, &supervisorv1.NewSessionRequest{AgentId: s.agent, Cwd: b.dir}); err != nil {
			return err
		}
	}
	after := private(s.cmd.Process.Pid)
	fmt.Printf("\n| private memory of serve and its handlers | with one session | with %d more |\n|---|---|---|\n", idleSessions)
	for _, name := range []string{"acphost", "fsd", "termd", "permd"} {
		fmt.Printf("| %s | %d kB | %d kB |\n", name, before[name], after[name])
	}
	return nil
}

// private is what a process and its children hold alone, in kB, by the names of their programs. Guards are left out.
func private(pid int) map[string]int {
	held := map[string]int{}
	for i, p := range append([]int{pid}, descendants(pid)...) {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p))
		name := filepath.Base(strings.Split(string(cmdline), "\x00")[0])
		if i > 0 && name == "acphost" {
			continue
		}
		kb, _, _ := strings.Cut(field(fmt.Sprintf("/proc/%d/smaps_rollup", p), "Private_Dirty:"), " ")
		n, _ := strconv.Atoi(kb)
		held[name] += n
	}
	return held
}
