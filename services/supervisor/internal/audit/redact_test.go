package audit

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/shell"
)

// The fakes are put together here, so that nothing that looks for leaked secrets finds them in this file.
var (
	fakeAWS    = "AKIA" + "IOSFODNN7EXAMPLE"
	fakeGitHub = "ghp_" + "0123456789abcdefABCDEF0123456789abcd"
	fakeOpenAI = "sk-" + "proj-0123456789abcdefghij"
	fakeJWT    = "eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxIn0.c2lnbmF0dXJl"
	fakePEM    = "-----BEGIN RSA PRIVATE" + " KEY-----\nMIIE\n0123\n-----END RSA PRIVATE" + " KEY-----"
)

func TestSecretsAreRedactedInText(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a bearer token", `curl -H "Authorization: Bearer abc.def-123" https://x`, `curl -H "Authorization: Bearer [redacted]" https://x`},
		{"a bearer token anywhere", "the header is bearer abcdef123", "the header is bearer [redacted]"},
		{"basic authorization", `curl -H 'authorization: Basic dXNlcjpwYXNz'`, `curl -H 'authorization: Basic [redacted]'`},
		{"a header of a key", `curl -H "X-Api-Key: abc123"`, `curl -H "X-Api-Key: [redacted]"`},
		{"an option with a value", "mysql --password=hunter2 db", "mysql --password=[redacted] db"},
		{"an option with a quoted value", "mysql --password='hunter 2' db", "mysql --password='[redacted]' db"},
		{"an option and a word", "tool --api-key abc123 run", "tool --api-key [redacted] run"},
		{"an assignment", "GITHUB_TOKEN=abc gh pr list", "GITHUB_TOKEN=[redacted] gh pr list"},
		{"an exported assignment", `export DB_PASSWORD="a b" && x`, `export DB_PASSWORD="[redacted]" && x`},
		{"a signing key", "SIGNING_KEY=abc make", "SIGNING_KEY=[redacted] make"},
		{"a password in a URL", "git clone https://me:hunter2@example.com/r", "git clone https://me:[redacted]@example.com/r"},
		{"a password in a URL of any scheme", "psql postgres://u:p@h/db", "psql postgres://u:[redacted]@h/db"},
		{"a token in a query", "curl 'https://x/?access_token=abc&y=1'", "curl 'https://x/?access_token=[redacted]&y=1'"},
		{"a user and password of curl", "curl -u me:hunter2 https://x", "curl -u me:[redacted] https://x"},
		{"a field of JSON", `curl -d '{"password":"x","a":1}'`, `curl -d '{"password":"[redacted]","a":1}'`},
		{"an AWS key", "echo " + fakeAWS, "echo [redacted]"},
		{"a GitHub token", "git push https://" + fakeGitHub + "@github.com/x", "git push https://[redacted]@github.com/x"},
		{"a key of OpenAI's", "x " + fakeOpenAI + " y", "x [redacted] y"},
		{"a web token", "x " + fakeJWT, "x [redacted]"},
		{"a private key", "echo '" + fakePEM + "' > k", "echo '[redacted]' > k"},
		{"a private key without its end", "echo '" + fakePEM[:40], "echo '[redacted]"},
		{"several", "A_TOKEN=a B_TOKEN=b x", "A_TOKEN=[redacted] B_TOKEN=[redacted] x"},

		{"a command", "git commit -m 'fix the tokenizer' --author=me", "git commit -m 'fix the tokenizer' --author=me"},
		{"a variable in place of a secret", `curl -H "X-Token: $T" --token=$TOKEN`, `curl -H "X-Token: $T" --token=$TOKEN`},
		{"a file of a secret", "tool --token-file=/run/t --key-path k", "tool --token-file=/run/t --key-path k"},
		{"a number of tokens", "llm --max-tokens=4096", "llm --max-tokens=4096"},
		{"a working directory", "PWD=/w make", "PWD=/w make"},
		{"a URL without a password", "curl https://example.com:8080/a@b", "curl https://example.com:8080/a@b"},
		{"a name with a hyphen", "kubectl get task-runner sk-learn", "kubectl get task-runner sk-learn"},
		{"a key of a keyboard", "xdotool key Return", "xdotool key Return"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := redactText(tt.text); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if got := redactText(tt.want); got != tt.want {
				t.Errorf("a second time: %s", got)
			}
		})
	}
}

func TestSecretsAreRedactedInJSON(t *testing.T) {
	for _, tt := range []struct{ name, raw, want string }{
		{"a member", `{"token":"x","command":"ls"}`, `{"token":"[redacted]","command":"ls"}`},
		{"a member in camel case", `{"accessToken":"x"}`, `{"accessToken":"[redacted]"}`},
		{"all below a member", `{"credentials":{"a":["x",1,{"b":"y"}]}}`, `{"credentials":{"a":["[redacted]",1,{"b":"[redacted]"}]}}`},
		{"a variable by name and value", `{"env":[{"name":"API_TOKEN","value":"x"},{"name":"A","value":"y"}]}`,
			`{"env":[{"name":"API_TOKEN","value":"[redacted]"},{"name":"A","value":"y"}]}`},
		{"an argument behind its option", `{"args":["--password","x","y"]}`, `{"args":["--password","[redacted]","y"]}`},
		{"text within a string", `{"command":"curl -H \"Authorization: Bearer abcdef\""}`, `{"command":"curl -H \"Authorization: Bearer [redacted]\""}`},
		{"an escaped name", `{"to\u006ben":"x"}`, `{"token":"[redacted]"}`},
		{"numbers as they are spelled", `{"token":"x","n":1.0e3}`, `{"token":"[redacted]","n":1.0e3}`},
		{"a string alone", `"TOKEN=x"`, `"TOKEN=[redacted]"`},
		{"the same name twice", `{"token":"x","token":"y"}`, `{"token":"[redacted]","token":"[redacted]"}`},
		{"what is no JSON", `{"token":"x"`, `{"token":"[redacted]"`},
		{"more than one value", `{} TOKEN=x`, `{} TOKEN=[redacted]`},
		{"nothing to hide keeps its blanks", `{ "a" : 1.0 }`, `{ "a" : 1.0 }`},
		{"nothing", ``, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := redactJSON(tt.raw); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestARecordKeepsNoSecretAndWhatAPolicyJudgesBy(t *testing.T) {
	text := "DEPLOY_TOKEN=hunter2 deploy --password hunter2 --api-key=hunter2 -u me:hunter2 https://me:hunter2@x && git status -s"
	subs, unparsed := shell.Parse(text)
	r := record("a")
	r.Action.Title = "deploy with password: hunter2"
	r.Action.RawInput = `{"command":"deploy --password hunter2","secret":"hunter2"}`
	r.Reason = "no --password=hunter2"
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
	want := [][]string{{"deploy", "--password", redacted, "--api-key=" + redacted, "-u", "me:" + redacted, "https://me:" + redacted + "@x"}, {"git", "status", "-s"}}
	for i, sub := range got.GetAction().GetCommand().GetSubCommands() {
		if !slices.Equal(sub.GetArgv(), want[i]) {
			t.Errorf("got %q, want %q", sub.GetArgv(), want[i])
		}
	}
	if env := got.GetAction().GetCommand().GetEnv(); !slices.Equal(env, []string{"A_SECRET=" + redacted, "LANG=C"}) {
		t.Errorf("got %q", env)
	}
	if !strings.Contains(text, "hunter2") || r.GetAction().GetCommand().GetEnv()[0] != "A_SECRET=hunter2" {
		t.Error("Write changed what it was given")
	}
}

func TestALongRecordIsShortenedAndSaysSo(t *testing.T) {
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

func FuzzRedactJSON(f *testing.F) {
	f.Add(`{"token":"x","a":[1,{"name":"A_KEY","value":"y"}]}`)
	f.Add(`["--password","x"]`)
	f.Add(`"\ud800 Bearer abcdefgh"`)
	f.Fuzz(func(t *testing.T, raw string) {
		got := redactJSON(raw)
		if json.Valid([]byte(raw)) && !json.Valid([]byte(got)) {
			t.Errorf("%q became %q, which is no JSON", raw, got)
		}
		if again := redactText(redactText(raw)); again != redactText(raw) && len(again) > 4*len(raw)+100 {
			t.Errorf("%q grows to %q", raw, again)
		}
	})
}
