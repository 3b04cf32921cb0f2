package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
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
