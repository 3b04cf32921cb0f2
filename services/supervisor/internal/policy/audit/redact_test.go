package audit

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/secret"
)

func TestRedact_KeepsPolicyInputsWithoutSecrets(t *testing.T) {
	text := "DEPLOY_TOKEN=hunter2 deploy --password hunter2 --api-key=hunter2 -u me:hunter2 https://me:hunter2@x && git status -s"
	subs, unparsed := shell.Parse(text)
	r := record("a")
	r.Action.Title = "deploy with password: hunter2"
	r.Action.RawInput = `{"command":"deploy --password hunter2","secret":"hunter2"}`
	r.Reason = "no --password=hunter2, and `mysql -phunter2 db` (command 2 of 3): no rule matches"
	r.Action.Command = &permissionv1.Command{Text: text, SubCommands: subs, Unparsed: unparsed,
		Argv: []string{"deploy", "--password", "hunter2"}, Env: []string{"A_SECRET=hunter2", "LANG=C"}}
	l := open(t, Options{})
	write(t, l, r)
	got := readAll(t, l.opts.File, Filter{})[0]
	line, err := Line(got)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(line), "hunter2") {
		t.Errorf("a secret is in %s", line)
	}
	want := [][]string{{"deploy", "--password", secret.Redacted, "--api-key=" + secret.Redacted, "-u", "me:" + secret.Redacted, "https://me:" + secret.Redacted + "@x"}, {"git", "status", "-s"}}
	for i, sub := range got.GetAction().GetCommand().GetSubCommands() {
		if !slices.Equal(sub.GetArgv(), want[i]) {
			t.Errorf("got %q, want %q", sub.GetArgv(), want[i])
		}
	}
	if env := got.GetAction().GetCommand().GetEnv(); !slices.Equal(env, []string{"A_SECRET=" + secret.Redacted, "LANG=C"}) {
		t.Errorf("got %q", env)
	}
	if !strings.Contains(text, "hunter2") || r.GetAction().GetCommand().GetEnv()[0] != "A_SECRET=hunter2" {
		t.Error("Write changed what it was given")
	}
}

func TestFormat_ShortensLongRecords(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	many := slices.Repeat([]string{strings.Repeat("y", 4000)}, 1000)
	for _, tt := range []struct {
		name   string
		change func(*supervisorv1.AuditRecord)
		whole  bool // the action is kept but for its raw input
	}{
		{"raw input", func(r *supervisorv1.AuditRecord) { r.Action.RawInput = `"` + big + `"` }, true},
		{"raw input that grows in JSON", func(r *supervisorv1.AuditRecord) { r.Action.RawInput = `"` + strings.Repeat(`\u0000`, 10000) + `"` }, true},
		{"a command", func(r *supervisorv1.AuditRecord) { r.Action.Command.Text = big }, false},
		{"what JSON escapes", func(r *supervisorv1.AuditRecord) { r.Action.Command.Text = strings.Repeat("\x01", 60000) }, false},
		{"arguments", func(r *supervisorv1.AuditRecord) { r.Action.Command.Argv = many }, false},
		{"sub-commands", func(r *supervisorv1.AuditRecord) {
			for range 1000 {
				r.Action.Command.SubCommands = append(r.Action.Command.SubCommands, &permissionv1.SubCommand{Argv: many[:20]})
			}
		}, false},
		{"paths", func(r *supervisorv1.AuditRecord) {
			for range 1000 {
				r.Action.Paths = append(r.Action.Paths, &permissionv1.PathAccess{Path: many[0], ResolvedPath: many[0]})
			}
		}, false},
		{"roots", func(r *supervisorv1.AuditRecord) { r.Action.Roots = many }, false},
		{"everything", func(r *supervisorv1.AuditRecord) {
			r.Action.Title, r.Action.Kind, r.Action.SessionId, r.Action.Unparsed = big, big, big, big
			r.Action.Command.Text, r.Action.Command.Argv, r.Action.Roots = big, many, many
			r.Reason, r.Rule, r.SessionId, r.Grants = big, big, big, many
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := open(t, Options{})
			r := record("a")
			tt.change(r)
			write(t, l, r)
			got := readAll(t, l.opts.File, Filter{})
			if len(got) != 1 || got[0].GetId() != "a" || got[0].GetVerdict() != "allow" {
				t.Fatalf("got %v", got)
			}
			line, err := format(got[0])
			if err != nil || len(line) > MaxLine {
				t.Errorf("the line has %d bytes (%v)", len(line), err)
			}
			if raw := got[0].GetAction().GetRawInput(); r.GetAction().GetRawInput() != "" && (!json.Valid([]byte(raw)) || !strings.Contains(raw, "left out")) {
				t.Errorf("the raw input is %.80s", raw)
			}
			if doubted := strings.Contains(got[0].GetAction().GetUnparsed(), shortened); doubted == tt.whole {
				t.Errorf("said to be understood: %v, want %v", !doubted, tt.whole)
			}
		})
	}
}
