package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// rules is a policy of n rules, some with conditions, of which the last alone allows reading in the workspace.
func rules(n int) string {
	var b strings.Builder
	b.WriteString("version: 1\nrules:\n")
	for i := range n - 1 {
		switch i % 5 {
		case 0:
			fmt.Fprintf(&b, "  - {id: r%d, effect: deny, path: [\"**/secret-%d/**\", \"~/.private-%d/**\"]}\n", i, i, i)
		case 1:
			fmt.Fprintf(&b, "  - {id: r%d, effect: ask, command: [\"tool-%d push\", \"tool-%d delete\"]}\n", i, i, i)
		case 2:
			fmt.Fprintf(&b, "  - {id: r%d, effect: allow, on: [tool.edit], path: [\"${root}/part-%d/**\"]}\n", i, i)
		case 3:
			fmt.Fprintf(&b, "  - {id: r%d, effect: deny, on: [fs.write], when: \"action.paths.exists(p, p.path.endsWith('.lock-%d'))\"}\n", i, i)
		default:
			fmt.Fprintf(&b, "  - {id: r%d, effect: allow, command: [\"look-%d\"]}\n", i, i)
		}
	}
	b.WriteString("  - {id: reading, effect: allow, on: [fs.read], path: [\"${root}/**\"]}\n")
	return b.String()
}

// configured writes a configuration and returns the command line of an agent role behind acphost with it.
func (b *bench) configured(name, policy, more string, role ...string) ([]string, error) {
	dir := filepath.Join(b.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	config := "permission:\n  grants: {file: " + filepath.Join(dir, "grants.jsonl") + "}\n" + more
	if policy != "" {
		if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(policy), 0o600); err != nil {
			return nil, err
		}
		config += "  policy: policy.yaml\n"
	}
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	return append([]string{b.acphost, "run", "--no-admin", "--config", file, "--", b.self, "role"}, role...), nil
}

// gate compares a routed read that a policy decides about with one that none does.
func (b *bench) gate() error {
	path := filepath.Join(b.dir, "gated-4096")
	if err := os.WriteFile(path, []byte(strings.Repeat("0123456789abcde\n", 256)), 0o600); err != nil {
		return err
	}
	free, err := b.configured("free", "", "  audit: {disabled: true}\n", "agent")
	if err != nil {
		return err
	}
	audited := "  audit: {file: " + filepath.Join(b.dir, "gated", "audit.jsonl") + "}\n"
	gated, err := b.configured("gated", rules(50), audited, "agent")
	if err != nil {
		return err
	}
	silent, err := b.configured("silent", rules(50), "  audit: {disabled: true}\n", "agent")
	if err != nil {
		return err
	}
	trials := []*trial{{name: "no policy", argv: free}, {name: "50 rules, no record", argv: silent}, {name: "50 rules, recorded", argv: gated}}
	times := map[*trial][]time.Duration{}
	if err := b.interleave(trials, func(t *trial) error {
		_, err := t.front.prompt("read 1 " + path)
		return err
	}, func(t *trial) error {
		d, err := t.front.prompt("read 200 " + path)
		times[t] = append(times[t], d...)
		return err
	}); err != nil {
		return err
	}
	base := median(times[trials[0]])
	fmt.Printf("\n| fs/read_text_file of 4 KiB through the gate, round trip | median | ratio |\n|---|---|---|\n")
	for _, t := range trials {
		m := median(times[t])
		fmt.Printf("| %s | %v | %.2f× |\n", t.name, m, float64(m)/float64(base))
	}
	return nil
}
