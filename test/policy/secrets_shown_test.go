package policy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
)

// runsAll has every command run, as rules of a person who trusts all of them.
const runsAll = "version: 1\nrules: [{id: all, effect: allow, on: [fs.read, fs.write, terminal.create, tool.execute]}]\n"

func TestSecrets_InCommandLinesAreRedacted(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, p.Policy(t, runsAll, ""))
	req := p.Demo()
	req.Command = []string{"env", "API_TOKEN=hush", req.GetCommand()[0]}
	agent := s.Start(req)
	session := s.Open(agent.GetId()).GetSessionId()
	for _, line := range []string{
		"mysql -uroot -phush", "sshpass -p hush true", "echo hush | docker login --password-stdin", "curl -b session=hush file:///dev/null",
		"true --token hush", "PGPASSWORD=hush true", "openssl enc -k hush -in /dev/null",
	} {
		turn := s.Prompt(session, "/run "+line+" # end")
		turn.Stopped("end_turn")
	}
	status, err := s.State.GetStatus(s.Ctx, &supervisorv1.GetStatusRequest{})
	if err != nil {
		t.Fatal(e2e.Explain(err))
	}
	agents, err := s.Agents.ListAgents(s.Ctx, &supervisorv1.ListAgentsRequest{})
	if err != nil {
		t.Fatal(e2e.Explain(err))
	}
	_, running, _ := p.Cli(t, "agents", "running", "--json")
	_, shown, _ := p.Cli(t, "agents", "running")
	_, ps, _ := p.Cli(t, "ps", "--json")
	for what, text := range map[string]string{
		"GetStatus": prototext.Format(status), "ListAgents": prototext.Format(agents), "agents running": shown, "agents running --json": running, "ps": ps,
	} {
		if strings.Contains(text, "hush") {
			t.Errorf("%s shows a secret:\n%s", what, text)
		}
	}
	if !strings.Contains(prototext.Format(agents), "API_TOKEN=[redacted]") {
		t.Errorf("the agent is shown as %v", agents)
	}
	s.Finish()
	var audit string
	err = filepath.WalkDir(p.Home, func(path string, _ os.DirEntry, err error) error {
		if filepath.Base(path) == "audit.jsonl" {
			data, readErr := os.ReadFile(path)
			audit += string(data)
			return readErr
		}
		return err
	})
	if err != nil || strings.Count(audit, "terminal.create") < 7 {
		t.Fatalf("the record is %q (%v)", audit, err)
	}
	for line := range strings.Lines(audit) {
		if strings.Contains(line, "hush") {
			t.Errorf("a secret is recorded:\n%s", line)
		}
	}
}

func TestSecrets_NotInheritedByCommands(t *testing.T) {
	t.Parallel()
	const show = `/run echo "${AWS_SECRET_ACCESS_KEY-no} ${PGPASSWORD-no} ${DATABASE_URL-no} ${GITHUB_PAT-no} ${AWS_REGION-no} ${TOKENIZERS_PARALLELISM-no}"`
	for config, want := range map[string]string{
		"{}": "no no no no here true",
		`handlers: {terminal: {settings: {env_allow: [GITHUB_PAT]}}}`: "no no no pat here true",
		`handlers: {terminal: {settings: {env_deny: ["AWS_*"]}}}`:     "no pg postgres://u:p@h/db pat no true",
		`handlers: {terminal: {settings: {env_deny_nothing: true}}}`:  "aws pg postgres://u:p@h/db pat here true",
	} {
		t.Run(config, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			s := p.Serve(t, p.Config(t, config), "AWS_SECRET_ACCESS_KEY=aws", "PGPASSWORD=pg", "DATABASE_URL=postgres://u:p@h/db", "GITHUB_PAT=pat", "AWS_REGION=here", "TOKENIZERS_PARALLELISM=true")
			turn := s.Prompt(s.Open(s.Start(p.Demo()).GetId()).GetSessionId(), show)
			turn.Stopped("end_turn")
			if got := turn.Said(); !strings.Contains(got, want) {
				t.Errorf("a command got %q, want %q", got, want)
			}
			s.Finish()
		})
	}
}

func TestSecrets_ConfiguredKeyFileIsProtected(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]string{"without a policy": "", "with one that allows everything": runsAll} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			p.File(t, "../config/anthropic.key", "hush\n")
			p.File(t, "src/a.txt", "words\n")
			const env = "agent: {env: {SOME_KEY: {file: anthropic.key}}}"
			flags := p.Config(t, env)
			if rules != "" {
				flags = p.Policy(t, rules, env)
			}
			s := p.Serve(t, flags, "CONF="+filepath.Dir(p.File(t, "../config/x", "")))
			session := s.Open(s.Start(p.Demo()).GetId()).GetSessionId()
			runs := func(line string) string {
				turn := s.Prompt(session, "/run "+line)
				turn.Stopped("end_turn")
				return turn.Said()
			}
			for _, line := range []string{
				"cat ../config/*.key", "cat ../config/anth*", "cat ../config/{anthropic,x}.key", "cat $CONF/anthropic.key", `cat "$CONF"/*`, "cd ../config && cat ./*",
				"find .. -name '*.key' -exec cat {} +", "grep -r . ../config", "tar c ../config", "cp -r ../config c && cat c/*", "cat < $CONF/anthropic.key",
			} {
				if got := runs(line); strings.Contains(got, "hush") || got == "" {
					t.Errorf("%s is answered with %q", line, got)
				}
			}
			for _, line := range []string{"cat src/*", "grep -r . src", "cd src && cat a.txt"} {
				if got := runs(line); !strings.Contains(got, "words") {
					t.Errorf("%s is answered with %q", line, got)
				}
			}
			s.Finish()
		})
	}
}
