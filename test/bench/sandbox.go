package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/sandbox"
)

// Sizes of the jobs in the sandbox.
const (
	trackedFiles  = 5000
	createdFiles  = 10_000
	forks         = 500
	packages      = 20
	packagedFiles = 50
)

// job is an action that an agent performs by itself, without its client.
type job struct {
	name, prompt string
	goal         float64 // relative to the agent without acphost
}

// sandbox measures actions that an agent performs by itself: without acphost, behind acphost without the sandbox, in the
// sandbox with a policy of 50 rules, which decides changes and programs, and with the policy workspace, which also
// decides reads and connections. Each decision is recorded.
func (b *bench) sandbox() error {
	if err := sandbox.Supported(); err != nil {
		fmt.Printf("\nthe sandbox is not measured: %v\n", err)
		return nil
	}
	work := filepath.Join(b.dir, "sandboxed-work")
	if err := b.prepareWork(work); err != nil {
		return err
	}
	confined, err := b.configured("sandboxed", sandboxRules(),
		"  audit: {file: "+filepath.Join(b.dir, "sandboxed", "audit.jsonl")+"}\n", "agent")
	if err != nil {
		return err
	}
	confined = slices.Insert(confined, 2, "--sandbox", "enforce")
	walled, err := b.configured("walled", "", "  policy: workspace\n  audit: {file: "+filepath.Join(b.dir, "walled", "audit.jsonl")+"}\n", "agent")
	if err != nil {
		return err
	}
	walled = slices.Insert(walled, 2, "--sandbox", "enforce")
	open, err := b.configured("unsandboxed", sandboxRules(), "  audit: {file: "+filepath.Join(b.dir, "unsandboxed", "audit.jsonl")+"}\n", "agent")
	if err != nil {
		return err
	}
	jobs := []job{
		{"`node -e 0`", "self 1 . node -e 0", 1.15},
		{fmt.Sprintf("`git status`, %d files", trackedFiles), "self 1 tracked git status --porcelain", 1.05},
		{"`go build`, cached", "self 1 built go build -o out .", 1.2},
		{fmt.Sprintf("`npm ci`, warm, %d packages of %d files", packages, packagedFiles), "self 1 installed npm ci --offline --no-audit --no-fund", 1.1},
		{fmt.Sprintf("%d × fork and exec of `true`", forks), fmt.Sprintf("self %d . true", forks), 1.3},
		{fmt.Sprintf("%d files created, written and closed", createdFiles), fmt.Sprintf("create %d created", createdFiles), 10},
		{"a turn: 200 updates, 20 files read, 5 written, `git status`, `node -e 0`", "works 1 .", 1.1},
	}
	jobs = slices.DeleteFunc(jobs, func(j job) bool { return !strings.Contains(j.name, b.jobs) })
	trials := []*trial{{name: "bare", argv: b.bare("agent")}, {name: "acphost", argv: open}, {name: "sandbox", argv: confined},
		{name: "walls", argv: walled}}
	titles := "| what an agent does by itself | bare, median (middle half) | behind acphost, without the sandbox | in the sandbox, 50 rules | all walls, `workspace` |"
	if b.before != "" {
		other := slices.Clone(confined)
		if other[0], err = filepath.Abs(filepath.Join(b.before, "acphost")); err != nil {
			return err
		}
		trials = append(trials, &trial{name: "before", argv: other})
		titles += " in the sandbox before |"
	}
	times := map[*trial][][]time.Duration{}
	for _, t := range trials {
		times[t] = make([][]time.Duration, len(jobs))
	}
	for range instances {
		for _, t := range trials {
			if t.front, err = startFront(work, t.argv); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
		}
		for round := range 1 + max(1, b.rounds/instances) { // the first one warms up
			for i, j := range jobs {
				for k := range trials {
					t := trials[(k+round)%len(trials)]
					started := time.Now()
					if _, err := t.front.prompt(j.prompt); err != nil {
						return fmt.Errorf("%s: %s: %w", t.name, j.name, err)
					}
					if round > 0 {
						times[t][i] = append(times[t][i], time.Since(started))
					}
					if err := os.RemoveAll(filepath.Join(work, "created")); err != nil {
						return err
					}
				}
			}
		}
		for _, t := range trials {
			t.front.stop()
		}
	}
	fmt.Printf("\n%s goal |\n%s\n", titles, strings.Repeat("|---", strings.Count(titles, "|"))+"|")
	for i, j := range jobs {
		base := times[trials[0]][i]
		row := fmt.Sprintf("| %s | %v (%s) |", j.name, rounded(median(base)), spread(base, 0))
		for _, t := range trials[1:] {
			row += fmt.Sprintf(" %.2f× (%s) |", float64(median(times[t][i]))/float64(median(base)), spread(times[t][i], median(base)))
		}
		fmt.Printf("%s %v |\n", row, j.goal)
	}
	return nil
}

// spread is the range of the middle half: as durations, or in times of a base.
func spread(d []time.Duration, base time.Duration) string {
	s := slices.Clone(d)
	slices.Sort(s)
	low, high := s[len(s)/4], s[3*len(s)/4]
	if base == 0 {
		return fmt.Sprintf("%v–%v", rounded(low), rounded(high))
	}
	return fmt.Sprintf("%.2f–%.2f", float64(low)/float64(base), float64(high)/float64(base))
}

func rounded(d time.Duration) time.Duration { return d.Round(time.Millisecond / 10) }

// sandboxRules is a policy of 50 rules that permits the agent to change files below the root, and to run the measured
// commands.
func sandboxRules() string {
	return rules(50, "tool.delete", `{id: env, effect: deny, path: ["**/.env"]}`,
		`{id: files, effect: allow, on: [fs.read, fs.write, fs.list], path: ["${root}/**"]}`, `{id: run, effect: allow, on: [terminal.create]}`)
}

// prepareWork makes what the jobs work on. It needs no network.
func (b *bench) prepareWork(work string) error {
	write := func(name, text string) error {
		file := filepath.Join(work, name)
		return errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600))
	}
	run := func(dir string, argv ...string) error {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = filepath.Join(work, dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, bytes.TrimSpace(out))
		}
		return nil
	}
	for name, value := range map[string]string{
		"npm_config_cache": filepath.Join(work, "npm-cache"), "npm_config_update_notifier": "false",
		"GOFLAGS": "-mod=mod", "GOWORK": "off", "GOCACHE": filepath.Join(work, "go-cache"),
	} {
		if err := os.Setenv(name, value); err != nil { // for the agents, too
			return err
		}
	}
	for i := range trackedFiles {
		if err := write(fmt.Sprintf("tracked/%02d/%d.txt", i/100, i), strconv.Itoa(i)); err != nil {
			return err
		}
	}
	err := errors.Join(
		write("built/go.mod", "module example.com/built\n\ngo 1.24\n"),
		write("built/main.go", "package main\n\nimport (\n\t\"fmt\"\n\t\"net/http\"\n)\n\nfunc main() { fmt.Println(http.StatusOK) }\n"),
		run("tracked", "git", "init", "-q"), run("tracked", "git", "add", "."),
		run("tracked", "git", "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-q", "-m", "Begin"),
		run("built", "go", "build", "-o", "out", "."),
	)
	var needs []string
	pack := []string{"npm", "pack", "--silent"}
	for i := range packages {
		name := fmt.Sprintf("part-%d", i)
		err = errors.Join(err, write("packed/"+name+"/package.json", fmt.Sprintf(`{"name": %q, "version": "1.0.0"}`, name)))
		for k := range packagedFiles {
			err = errors.Join(err, write(fmt.Sprintf("packed/%s/lib/%d.js", name, k), strings.Repeat("// text\n", 100)))
		}
		pack = append(pack, "./"+name)
		needs = append(needs, fmt.Sprintf(`%q: "file:../packed/%s-1.0.0.tgz"`, name, name))
	}
	if err != nil {
		return err
	}
	return errors.Join(
		run("packed", pack...),
		write("installed/package.json", `{"name": "installed", "version": "1.0.0", "dependencies": {`+strings.Join(needs, ", ")+`}}`),
		run("installed", "npm", "install", "--offline", "--no-audit", "--no-fund"),
	)
}

// ownRuns has the agent run a command in a folder by itself, n times. The folder precedes the command.
func ownRuns(n int, command string) error {
	argv := strings.Fields(command)
	for range n {
		cmd := exec.Command(argv[1], argv[2:]...)
		cmd.Dir, cmd.Env = argv[0], os.Environ() // without PWD, which repeats the folder
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", command, err, out)
		}
	}
	return nil
}

// creates has the agent create n files in a folder by itself.
func creates(n int, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file-%d.txt", i)), []byte("text\n"), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// works performs an agent's actions in a turn, without the time that its model takes.
func works(session, dir string) error {
	for i := range 20 {
		if _, err := os.ReadFile(filepath.Join(dir, "tracked", fmt.Sprintf("%02d", i), fmt.Sprintf("%d.txt", 100*i))); err != nil {
			return err
		}
	}
	return errors.Join(flood(session, 200, 1), creates(5, filepath.Join(dir, "created")),
		ownRuns(1, "tracked git status --porcelain"), ownRuns(1, ". node -e 0"))
}
