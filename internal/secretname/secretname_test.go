package secretname

import (
	"os"
	"strings"
	"testing"
)

// lines are those of a file of the test's data.
func lines(t testing.TB, file string) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

func TestIs_RecognizesNamesOfSecrets(t *testing.T) {
	for _, name := range lines(t, "secret.txt") {
		if !Is(name) {
			t.Errorf("%s counts as no secret", name)
		}
	}
	for _, name := range lines(t, "plain.txt") {
		if Is(name) {
			t.Errorf("%s counts as a secret", name)
		}
	}
}

func TestIs_IgnoresCaseAndSeparators(t *testing.T) {
	for _, name := range lines(t, "secret.txt") {
		ws := words(name)
		for _, again := range []string{
			strings.Join(ws, "_"), strings.Join(ws, "-"), strings.ToUpper(strings.Join(ws, "_")), strings.ToUpper(strings.Join(ws, ".")),
		} {
			if !Is(again) {
				t.Errorf("%s, of %s, counts as no secret", again, name)
			}
		}
	}
}

func TestValue_RecognizesSecretsByForm(t *testing.T) {
	// Put together here, so that nothing that looks for leaked secrets finds them in this file.
	const hex32 = "0123456789abcdef0123456789abcdef"
	for _, value := range []string{
		"postgres://u:hush@h:5432/db", "redis://:hush@h:6379/0", "amqp://guest:hush@h", "mongodb+srv://u:hush@h/?x=1",
		"https://" + hex32 + "@o1.ingest.sentry.io/2", "http://u:p@ss@proxy:3128", "postgres://h/db?user=u&password=hush",
		"host=h user=u password=hush", "Server=h;Database=d;User Id=u;Password=hush;", "Server=h;Uid=u;Pwd=hush",
		"DefaultEndpointsProtocol=https;AccountName=a;AccountKey=aHVzaA==", "u:hush@tcp(h:3306)/db", "u:hush@unix(/s)/db",
		"https://hooks.slack.com/services/" + "T00000000/B00000000/hushhushhush", "-Djavax.net.ssl.keyStorePassword=hush",
		"-----BEGIN OPENSSH PRIVATE" + " KEY-----\nAAAA", "ghp_" + hex32, "gho_" + hex32, "github_pat_" + hex32, "glpat-" + hex32,
		"sk-" + hex32, "sk-ant-" + "api03-" + hex32, "AKIA" + "IOSFODNN7EXAMPLE", "ASIA" + "IOSFODNN7EXAMPLE", "xoxb-" + hex32,
		"npm_" + hex32, "pypi-" + hex32, "AIza" + "SyA0123456789abcdef0123456789abcdef", "hf_" + hex32, "SG." + hex32 + "." + hex32, "rk_live_" + hex32,
		"hvs." + hex32, "eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxIn0.c2lnbmF0dXJl", "AGE-SECRET-KEY-1" + strings.ToUpper(hex32),
		"123456789:AA" + hex32 + "x",
	} {
		if !Value(value) {
			t.Errorf("%q counts as no secret", value)
		}
		if !Variable("ANYTHING", value) {
			t.Errorf("a variable with %q counts as no secret", value)
		}
	}
	for _, value := range []string{
		"", "1", "true", "/usr/bin:/bin", "https://example.com:8080/a@b", "ssh://git@github.com/me/repo", "https://me@example.com/repo.git",
		"git@github.com:me/repo.git", "postgres://localhost/db", "postgres://u@h/db?sslmode=disable", "sqlite:///x.db", "xterm-256color",
		"unix:path=/run/user/1000/bus", "da39a3ee5e6b4b0d3255bfef95601890afd80709", "123e4567-e89b-12d3-a456-426614174000", "sk-learn-contrib-extras",
		"rs=0:di=01;34:ln=01;36:mh=00:pi=40;33", "--max-old-space-size=4096", "https://example.com/?page=1&sort=key", "C.UTF-8", "$PASSWORD", "password=$PGPASSWORD",
		"a=b;PWD=/w", "127.0.0.1:8080", "root:root", "12:30:00",
	} {
		if Value(value) {
			t.Errorf("%q counts as a secret", value)
		}
	}
}

func TestReplace_ReplacesOnlySecrets(t *testing.T) {
	for in, want := range map[string]string{
		"git clone https://me:hush@example.com/r":                       "git clone https://me:$1@example.com/r",
		"git clone https://" + "ghp_0123456789abcdef" + "@github.com/r": "git clone https://$1@github.com/r",
		"see sk-learn-contrib-extras and ghs_" + "0123456789":           "see sk-learn-contrib-extras and $1",
	} {
		if got := Replace(in, "$1"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func FuzzVariable(f *testing.F) {
	f.Add("aB_c-D9", "x://u:p@h")
	f.Fuzz(func(_ *testing.T, name, value string) { Variable(name, value) })
}
