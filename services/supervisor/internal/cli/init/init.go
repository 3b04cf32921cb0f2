// Package init implements "acphost init": writes a first configuration and rule file from four questions.
package init

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/internal/ownfile"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/permd"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/config/preset"
	"github.com/acphost/acphost/services/supervisor/internal/host/policytool"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// backupSuffix is the suffix of a file that --force has renamed.
const backupSuffix = ".before-init"

// The values of what is recorded of sessions.
const (
	recordAll      = "all"
	recordMetadata = "metadata"
	recordNothing  = "none"
)

var records = []string{recordAll, recordMetadata, recordNothing}

// errInterrupted means that Ctrl-C ended the questions.
var errInterrupted = errors.New("interrupted; nothing was written")

// noAgent is the answer if the user's agent is unknown to acphost.
const noAgent = "none"

// flags are the answers that are given as flags.
type flags struct {
	agent, policy, record string
	allow                 []string
	yes, show, force      bool
}

// New returns the command "init".
func New(call *command.Call, start permd.Starter) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a configuration and a rule file from four questions",
		Long: `Write a configuration, config.yaml, and a rule file, policy.yaml, into acphost's
configuration folder. The command asks four questions: the agent, the policy,
commands that may always run, and the content of recordings. A flag answers its
question. With --yes, or without a terminal, the other questions have their
defaults.

The rule file is a copy of a ready-made policy ("acphost policy show") with your
commands; change it as you like. Existing files are not replaced; with --force they
are renamed to FILE` + backupSuffix + `.`,
		Example: `  acphost init
  acphost init --agent claude --policy workspace --allow "go test ./..." --record metadata
  acphost init --yes --print`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := call.RejectAgents(cmd); err != nil {
				return err
			}
			if err := f.check(cmd); err != nil {
				return err
			}
			err := permd.With(cmd.Context(), call, start, func(service permissionv1.PolicyServiceClient) error {
				return f.run(cmd, call, service)
			})
			if errors.Is(err, errInterrupted) {
				call.PrintError(err)
				call.Status, err = command.StatusOfSignal(cmd.Context()), nil
			}
			return err
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.agent, "agent", "", "the agent's `NAME`, of \"acphost agents list\", or none (default: the first that is installed)")
	fs.StringVar(&f.policy, "policy", "",
		"the ready-made policy of this `NAME`: "+strings.Join(config.ReadyPolicies(), ", ")+" (default workspace)")
	fs.StringArrayVar(&f.allow, "allow", nil, "a `COMMAND` that may always run, such as \"go test ./...\"; may be repeated")
	fs.StringVar(&f.record, "record", "", "`WHAT` is recorded: all, metadata (no contents) or none (default all)")
	fs.BoolVarP(&f.yes, "yes", "y", false, "ask nothing")
	fs.BoolVar(&f.show, "print", false, "print the two files, and write nothing")
	fs.BoolVar(&f.force, "force", false, "replace existing files, and rename them to FILE"+backupSuffix)
	cliflag.Complete(cmd, "agent", cliflag.Agents(call.Env))
	cliflag.Complete(cmd, "policy", cliflag.Words(config.ReadyPolicies()...))
	cliflag.Complete(cmd, "record", cliflag.Words(records...))
	cliflag.Complete(cmd, "allow", cliflag.Words())
	return cmd
}

// check rejects invalid answers.
func (f *flags) check(cmd *cobra.Command) error {
	if f.policy != "" && !config.IsReadyPolicy(f.policy) {
		return command.UsageErrorf(cmd, "--policy: expected a ready policy (%s), got %q%s", strings.Join(config.ReadyPolicies(), ", "), f.policy, command.DidYouMean(f.policy, config.ReadyPolicies()))
	}
	if f.record != "" && !slices.Contains(records, f.record) {
		return command.UsageErrorf(cmd, "--record: expected %s, got %q%s", strings.Join(records, ", "), f.record, command.DidYouMean(f.record, records))
	}
	for _, c := range f.allow {
		if strings.TrimSpace(c) == "" {
			return command.UsageErrorf(cmd, "--allow: expected a command, got nothing")
		}
	}
	return nil
}

func (f *flags) run(cmd *cobra.Command, call *command.Call, service permissionv1.PolicyServiceClient) error {
	folder := config.Folder(call.Env)
	if folder == "" {
		return errors.New("the folder of the configuration is unknown: neither XDG_CONFIG_HOME nor HOME is set; set one")
	}
	file, rules := filepath.Join(folder, "config.yaml"), filepath.Join(folder, "policy.yaml")
	if !f.show && !f.force {
		for _, name := range []string{file, rules} {
			if _, err := os.Lstat(name); err == nil {
				return fmt.Errorf("%s is there already; change it by hand (\"acphost config check\"), or have it replaced and kept as %s with --force",
					name, filepath.Base(name)+backupSuffix)
			}
		}
	}
	answers, err := f.answers(cmd, call, service)
	if err != nil {
		return err
	}
	policy, err := answers.rules(cmd.Context(), call, service)
	if err != nil {
		return err
	}
	configuration := answers.config()
	if f.show {
		_, err := fmt.Fprintf(call.Stdout, "# %s\n%s\n# %s\n%s", file, configuration, rules, policy)
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make the configuration folder: %w", err)
	}
	// the file that names the other one is written last
	for _, w := range []struct{ name, text string }{{rules, policy}, {file, configuration}} {
		if err := write(w.name, w.text, f.force); err != nil {
			return err
		}
	}
	return answers.next(call, file, rules)
}

// write writes a file. It renames an existing file if force is set.
func write(name, text string, force bool) error {
	if force {
		if err := os.Rename(name, name+backupSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return ownfile.Write(name, false, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

// answers are the answers to the questions.
type answers struct {
	agent  *preset.Resolved // nil: an unknown agent
	policy string
	allow  []string
	record string
}

// answers asks the questions that flags do not answer.
func (f *flags) answers(cmd *cobra.Command, call *command.Call, service permissionv1.PolicyServiceClient) (*answers, error) {
	p := &person{ctx: cmd.Context(), call: call, silent: f.yes || !call.Terminal(call.Stdin) || !call.Terminal(call.Stdout)}
	agent, err := f.askAgent(p)
	if err != nil {
		return nil, err
	}
	a := &answers{agent: agent, policy: f.policy, allow: f.allow, record: f.record}
	if a.policy == "" {
		if a.policy, err = askPolicy(p, service); err != nil {
			return nil, err
		}
	}
	if !cmd.Flags().Changed("allow") && a.takesCommands() {
		if a.allow, err = askCommands(p); err != nil {
			return nil, err
		}
	}
	if len(a.allow) > 0 && !a.takesCommands() {
		return nil, fmt.Errorf("the policy %s denies every command that does more than look, and no rule can allow what another denies: leave out --allow, or choose the policy workspace", a.policy)
	}
	if a.record == "" {
		a.record, err = p.choose("What is recorded of sessions? It stays on this machine (\"acphost sessions\", \"acphost audit\").", recordAll, []choice{
			{recordAll, "everything that passed: prompts, answers, contents of files, output of commands"},
			{recordMetadata, "what happened, without contents"},
			{recordNothing, "only decisions"},
		})
	}
	return a, err
}

// takesCommands reports whether a rule can allow commands in addition to the policy. The policy readonly denies them.
func (a *answers) takesCommands() bool { return a.policy != "readonly" }

func (f *flags) askAgent(p *person) (*preset.Resolved, error) {
	catalog, err := preset.Load(p.call.Env)
	if err != nil {
		return nil, err
	}
	if f.agent != "" && f.agent != noAgent {
		return catalog.Resolve(f.agent)
	}
	if f.agent == noAgent {
		return nil, nil
	}
	var choices []choice
	first := noAgent
	for _, a := range catalog.Agents() {
		r, err := catalog.Resolve(a.ID)
		if err != nil {
			continue // its program is not installed
		}
		what := a.Name
		if r.Found == "" {
			what += ", not installed"
		} else if first == noAgent {
			first = a.ID
		}
		choices = append(choices, choice{a.ID, what})
	}
	id, err := p.choose("Which agent do you use?", first, append(choices, choice{noAgent, "another one, or none yet"}))
	if err != nil || id == noAgent {
		return nil, err
	}
	return catalog.Resolve(id)
}

func askPolicy(p *person, service permissionv1.PolicyServiceClient) (string, error) {
	ready, err := service.ListReadyPolicies(p.ctx, &permissionv1.ListReadyPoliciesRequest{})
	if err != nil {
		return "", fmt.Errorf("list the ready policies: %w", err)
	}
	var choices []choice
	for _, r := range ready.GetPolicies() {
		sentence, _, _ := strings.Cut(strings.Join(strings.Fields(r.GetDescription()), " "), ". ")
		choices = append(choices, choice{r.GetName(), strings.TrimSuffix(sentence, ".")})
	}
	return p.choose("How strict are the rules?", "workspace", choices)
}

// askCommands asks for commands, and suggests those for the files of this folder.
func askCommands(p *person) ([]string, error) {
	example := `such as "make test"`
	if found := suggested("."); len(found) > 0 {
		example = "here perhaps " + strings.Join(found, ", ")
	}
	line, err := p.ask("Which commands may always run, without a question? They run code that the agent wrote.\n"+
		"Options that change what they run (make SHELL=./x) are asked about, unless you name them.\n"+
		"Separate them by commas, "+example+". Enter: none.", "")
	var all []string
	for c := range strings.SplitSeq(line, ",") {
		if c = strings.TrimSpace(c); c != "" {
			all = append(all, c)
		}
	}
	return all, err
}

// suggested returns the commands that test the project in a folder, by its files.
func suggested(dir string) (all []string) {
	for _, s := range []struct{ file, command string }{
		{"go.mod", "go test ./..."}, {"package.json", "npm test"}, {"Cargo.toml", "cargo test"}, {"pyproject.toml", "pytest"},
		{"pom.xml", "mvn test"}, {"build.gradle", "./gradlew test"}, {"Makefile", "make test"},
	} {
		if _, err := os.Stat(filepath.Join(dir, s.file)); err == nil {
			all = append(all, s.command)
		}
	}
	return all
}

// rules returns the checked text of the rule file.
func (a *answers) rules(ctx context.Context, call *command.Call, service permissionv1.PolicyServiceClient) (string, error) {
	ready, err := policytool.ReadyPolicy(ctx, service, a.policy)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Made by \"acphost init\" from acphost's ready policy %s (\"acphost policy show %s\"). Change it as you like:\n"+
		"# \"acphost policy check\" checks it, and runs the tests in it.\n#\n%s", a.policy, a.policy, ready)
	if len(a.allow) > 0 {
		b.WriteString("\n  - id: always-allowed\n    effect: allow\n    command:\n")
		for _, c := range a.allow {
			fmt.Fprintf(&b, "      - %s\n", strconv.Quote(c))
		}
	}
	checked, err := policytool.Check(ctx, service, &permissionv1.PolicyFile{Name: "policy.yaml", Content: []byte(b.String()), Layer: permissionv1.Layer_LAYER_USER})
	if err != nil {
		return "", err
	}
	if findings := checked.Answer.GetFindings(); len(findings) > 0 {
		checked.PrintFindings(call.Stderr, output.Style(call, call.Stderr))
		return "", a.rejected(findings)
	}
	return b.String(), nil
}

// rejected returns the error for invalid commands: those that a finding names, else all of them.
func (a *answers) rejected(findings []*permissionv1.Finding) error {
	var named, all []string
	for _, c := range a.allow {
		all = append(all, strconv.Quote(c))
		if slices.ContainsFunc(findings, func(f *permissionv1.Finding) bool { return strings.Contains(f.GetMessage(), "`"+c+"`") }) {
			named = append(named, strconv.Quote(c))
		}
	}
	switch {
	case len(all) == 0:
		return fmt.Errorf("the policy %s does not work here, for the reasons above; nothing was written: choose another policy", a.policy)
	case len(named) == 0:
		named = all
	}
	return fmt.Errorf("the policy %s takes no rule that always allows %s, for the reasons above; nothing was written: leave out these commands, or choose another policy",
		a.policy, safetext.Exact(strings.Join(named, ", ")))
}

// config returns the text of the configuration.
func (a *answers) config() string {
	journal := map[string]string{
		recordAll:      "{content: true}    # prompts, answers and contents of files are recorded",
		recordMetadata: "{content: false}   # what happens is recorded, without contents",
		recordNothing:  "{disabled: true}   # sessions are not recorded",
	}[a.record]
	text := "# acphost's configuration, made by \"acphost init\". \"acphost config check\" checks it, and \"acphost config show\" shows it\n" +
		"# with every default.\npermission:\n  policy: policy.yaml\njournal: " + journal + "\n"
	if a.agent != nil && a.agent.Found != "" {
		text += "serve:\n  # What \"acphost serve\" starts.\n  agents:\n    - preset: " + a.agent.Agent.ID + "\n"
	}
	return text
}

// next prints the written files, and the next steps.
func (a *answers) next(call *command.Call, file, rules string) error {
	added := ""
	if n := len(a.allow); n > 0 {
		added = fmt.Sprintf(", and %s that may always run", safetext.Count(n, "command"))
	}
	text := fmt.Sprintf("written: %s\nwritten: %s (the ready policy %s%s)\n\nNext:\n", file, rules, a.policy, added)
	name := "NAME"
	if a.agent != nil {
		name = a.agent.Agent.ID
		if a.agent.Found == "" && a.agent.Get != "" {
			text += fmt.Sprintf("  %-44s install the agent\n", a.agent.Get)
		}
	}
	for _, line := range [][2]string{
		{"acphost chat --agent " + name, "talk to it on this terminal"},
		{"acphost setup zed --agent " + name, "or have your editor start it: zed, jetbrains, neovim, emacs"},
		{"acphost policy why --command \"git push\"", "see what the rules say of a command"},
	} {
		text += fmt.Sprintf("  %-44s %s\n", line[0], line[1])
	}
	_, err := io.WriteString(call.Stdout, text)
	return err
}

// person reads the user's answers line by line.
type person struct {
	ctx    context.Context
	call   *command.Call
	silent bool // there is no user: use the defaults
	lines  *bufio.Reader
}

// choice is one of several answers.
type choice struct{ word, what string }

// choose asks for one of several answers, by its number or its word.
func (p *person) choose(question, preferred string, choices []choice) (string, error) {
	if p.silent {
		return preferred, nil
	}
	wide := 0
	for _, c := range choices {
		wide = max(wide, len(c.word))
	}
	var b strings.Builder
	b.WriteString(question)
	number := 0
	var words []string
	for i, c := range choices {
		words = append(words, c.word)
		if c.word == preferred {
			number = i + 1
		}
		b.WriteByte('\n')
		fmt.Fprintf(&b, "  %d  %-*s  %s", i+1, wide, c.word, c.what)
	}
	for ask := b.String(); ; {
		answer, err := p.ask(ask, strconv.Itoa(number))
		if err != nil {
			return "", err
		}
		if n, err := strconv.Atoi(answer); err == nil && n >= 1 && n <= len(choices) {
			return choices[n-1].word, nil
		}
		if slices.Contains(words, answer) {
			return answer, nil
		}
		ask = fmt.Sprintf("expected 1 to %d, or a name, got %q%s", len(choices), answer, command.DidYouMean(answer, words))
	}
}

// ask asks a question, and returns the line of the answer. An empty line means preferred.
func (p *person) ask(question, preferred string) (string, error) {
	if p.silent {
		return preferred, nil
	}
	prompt := "> "
	if preferred != "" {
		prompt = "[" + preferred + "] > "
	}
	if _, err := fmt.Fprintf(p.call.Stdout, "%s\n%s", question, prompt); err != nil {
		return "", err
	}
	if p.lines == nil {
		p.lines = bufio.NewReader(p.call.Stdin)
	}
	type read struct {
		line string
		err  error
	}
	answered := make(chan read, 1)
	go func() {
		line, err := p.lines.ReadString('\n')
		answered <- read{line, err}
	}()
	select {
	case <-p.ctx.Done():
		return "", errInterrupted
	case r := <-answered:
		if r.err != nil && r.line == "" {
			return "", errors.New("the input ended before all was answered; nothing was written")
		}
		_, err := fmt.Fprintln(p.call.Stdout)
		return cmp.Or(strings.TrimSpace(r.line), preferred), err
	}
}
