package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"github.com/acphost/acphost/sdk/launch"
	"google.golang.org/protobuf/types/known/structpb"
)

// rules is a policy of n rules, of which only the last ones allow a measured action. Some of the others have
// conditions, on actions of a kind.
func rules(n int, conditional string, last ...string) string {
	var b strings.Builder
	b.WriteString("version: 1\nrules:\n")
	for i := range n - len(last) {
		switch i % 5 {
		case 0:
			fmt.Fprintf(&b, "  - {id: r%d, effect: deny, path: [\"**/secret-%d/**\", \"~/.private-%d/**\"]}\n", i, i, i)
		case 1:
			fmt.Fprintf(&b, "  - {id: r%d, effect: ask, command: [\"tool-%d push\", \"tool-%d delete\"]}\n", i, i, i)
		case 2:
			fmt.Fprintf(&b, "  - {id: r%d, effect: allow, on: [tool.edit], path: [\"${root}/part-%d/**\"]}\n", i, i)
		case 3:
			fmt.Fprintf(&b, "  - {id: r%d, effect: deny, on: [%s], when: \"action.paths.exists(p, p.path.endsWith('.lock-%d'))\"}\n", i, conditional, i)
		default:
			fmt.Fprintf(&b, "  - {id: r%d, effect: allow, command: [\"look-%d\"]}\n", i, i)
		}
	}
	for _, rule := range last {
		b.WriteString("  - " + rule + "\n")
	}
	return b.String()
}

// readingRules is a policy of 50 rules that allows reading in the workspace.
func readingRules() string {
	return rules(50, "fs.write", `{id: reading, effect: allow, on: [fs.read], path: ["${root}/**"]}`)
}

// configured writes a configuration and returns the command line of an agent role behind acphost with it.
func (b *bench) configured(name, policy, more string, role ...string) ([]string, error) {
	dir := filepath.Join(b.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	config := "journal: {disabled: true}\npermission:\n  grants: {file: " + filepath.Join(dir, "grants.jsonl") + "}\n" + more
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
	gated, err := b.configured("gated", readingRules(), audited, "agent")
	if err != nil {
		return err
	}
	silent, err := b.configured("silent", readingRules(), "  audit: {disabled: true}\n", "agent")
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

// decide measures one decision of permd with 50 rules, over the supervisor's connection to it.
func (b *bench) decide() error {
	ctx := context.Background()
	dir := filepath.Join(b.dir, "decide")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte(readingRules()), 0o600); err != nil {
		return err
	}
	permd, err := launch.Start(ctx, launch.Spec{
		Name: "permission", Command: []string{filepath.Join(filepath.Dir(b.acphost), "permd")}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer func() { _ = permd.Stop(ctx) }()
	settings, err := structpb.NewStruct(map[string]any{"policy": policy})
	if err != nil {
		return err
	}
	if _, err := pluginv1.NewPluginServiceClient(permd).Configure(ctx, &pluginv1.ConfigureRequest{Settings: settings}); err != nil {
		return err
	}
	client := permissionv1.NewPermissionServiceClient(permd)
	line := "git status && grep -rn TODO . | head -20"
	subs, unparsed := shell.Parse(line)
	actions := map[string]*permissionv1.Action{
		"a read of a file": {Kind: "fs.read", Door: permissionv1.Door_DOOR_CALL, Agent: "agent", SessionId: "s", Roots: []string{dir}, ResolvedRoots: []string{dir},
			Paths: []*permissionv1.PathAccess{{Path: policy, ResolvedPath: policy, Access: permissionv1.Access_ACCESS_READ, InsideRoots: true}}},
		"a command of three parts": {Kind: "terminal.create", Door: permissionv1.Door_DOOR_CALL, Agent: "agent", SessionId: "s", Roots: []string{dir}, ResolvedRoots: []string{dir},
			Command: &permissionv1.Command{Text: line, SubCommands: subs, Unparsed: unparsed}},
	}
	ping := func() error { // the least that a call over this connection can cost
		_, err := client.Answered(ctx, &permissionv1.AnsweredRequest{})
		return err
	}
	fmt.Printf("\n| a decision of permd with 50 rules | round trip | of which deciding |\n|---|---|---|\n")
	for _, what := range []string{"a read of a file", "a command of three parts"} {
		var whole, empty []time.Duration
		for i := range 4000 {
			started := time.Now()
			if _, err := client.Decide(ctx, &permissionv1.DecideRequest{Action: actions[what]}); err != nil {
				return err
			}
			took := time.Since(started)
			started = time.Now()
			if err := ping(); err != nil {
				return err
			}
			if i >= 1000 {
				whole, empty = append(whole, took), append(empty, time.Since(started))
			}
		}
		fmt.Printf("| %s | %v | %v |\n", what, median(whole), median(whole)-median(empty))
	}
	return nil
}
