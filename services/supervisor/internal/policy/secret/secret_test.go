package secret

import (
	"encoding/json"
	"testing"
)

// The fakes are put together here, so that nothing that looks for leaked secrets finds them in this file.
var (
	fakeAWS    = "AKIA" + "IOSFODNN7EXAMPLE"
	fakeGitHub = "ghp_" + "0123456789abcdefABCDEF0123456789abcd"
	fakeOpenAI = "sk-" + "proj-0123456789abcdefghij"
	fakeJWT    = "eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxIn0.c2lnbmF0dXJl"
	fakePEM    = "-----BEGIN RSA PRIVATE" + " KEY-----\nMIIE\n0123\n-----END RSA PRIVATE" + " KEY-----"
)

func TestText_RedactsSecrets(t *testing.T) {
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
			if got := Text(tt.text); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if got := Text(tt.want); got != tt.want {
				t.Errorf("a second time: %s", got)
			}
		})
	}
}

func TestJSON_RedactsSecrets(t *testing.T) {
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
			if got := JSON(tt.raw); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func FuzzJSON(f *testing.F) {
	f.Add(`{"token":"x","a":[1,{"name":"A_KEY","value":"y"}]}`)
	f.Add(`["--password","x"]`)
	f.Add(`"\ud800 Bearer abcdefgh"`)
	f.Fuzz(func(t *testing.T, raw string) {
		got := JSON(raw)
		if json.Valid([]byte(raw)) && !json.Valid([]byte(got)) {
			t.Errorf("%q became %q, which is no JSON", raw, got)
		}
		if again := Text(Text(raw)); again != Text(raw) && len(again) > 4*len(raw)+100 {
			t.Errorf("%q grows to %q", raw, again)
		}
	})
}

func TestText_KeepsPasswdFileName(t *testing.T) {
	for text, want := range map[string]string{
		"/etc/passwd: no rule matches": "/etc/passwd: no rule matches",
		"passwd: hunter2hunter2":       "passwd: " + Redacted,
		"db/password: hunter2hunter2":  "db/password: " + Redacted,
	} {
		if got := Text(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
