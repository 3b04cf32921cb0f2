package secret

import (
	"os"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// lines are the command lines of a file of the test's data.
func lines(t testing.TB, file string) (all []string) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(data)) {
		if l = strings.TrimSuffix(l, "\n"); l != "" && l[0] != '#' {
			all = append(all, strings.ReplaceAll(l, `\n`, "\n"))
		}
	}
	return all
}

// whole puts a line with split tokens together, and returns what must not be left of it.
func whole(line string) (string, []string) {
	gone := []string{"hush"}
	for rest := line; ; {
		_, after, ok := strings.Cut(rest, "«")
		if !ok {
			break
		}
		token, behind, _ := strings.Cut(after, "»")
		gone, rest = append(gone, strings.ReplaceAll(token, "|", "")), behind
	}
	if strings.Contains(line, "«") || strings.Contains(line, "PRIVATE|") {
		line = strings.NewReplacer("«", "", "»", "", "|", "").Replace(line)
	}
	return line, gone
}

func TestText_RedactsSecretsOfCommands(t *testing.T) {
	for _, l := range lines(t, "secrets.txt") {
		text, gone := whole(l)
		got := Text(text)
		for _, s := range gone {
			if strings.Contains(got, s) {
				t.Errorf("%q became %q", text, got)
			}
		}
		if again := Text(got); again != got {
			t.Errorf("%q, redacted, became %q", got, again)
		}
		subs, _ := shell.Parse(text)
		c := &permissionv1.Command{Text: text, SubCommands: subs, Argv: []string{"sh", "-c", text}}
		Command(c)
		for _, s := range gone {
			if parts := c.String(); strings.Contains(parts, s) {
				t.Errorf("%q is recorded as %s", text, parts)
			}
		}
	}
}

func TestCommand_RecordHasNoSecrets(t *testing.T) {
	here := shell.Here{Dir: t.TempDir()}
	for _, text := range []string{
		"curl -u me:hush \"$PWD\"", "for i in 1 2; do curl --cookie a=hush $i; done", "echo hush $PWD | docker login --password-stdin",
	} {
		c := &permissionv1.Command{Text: text}
		c.SubCommands, _ = here.Parse(text)
		if c.SubCommands[0].GetWritten() == "" {
			t.Fatalf("%q is not expanded", text)
		}
		if Command(c); strings.Contains(c.String(), "hush") {
			t.Errorf("%q is recorded as %s", text, c)
		}
	}
}

func TestText_KeepsHarmlessCommands(t *testing.T) {
	for _, text := range lines(t, "harmless.txt") {
		if got := Text(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
		subs, _ := shell.Parse(text)
		for _, sub := range subs {
			was := strings.Join(sub.GetArgv(), "\x00")
			Argv(sub.GetArgv())
			if got := strings.Join(sub.GetArgv(), "\x00"); got != was {
				t.Errorf("%q became %q", was, got)
			}
		}
	}
}

func TestText_KeepsMeaningOfCommands(t *testing.T) {
	for text, want := range map[string]string{
		`mysql -uroot -p'hu sh' -h db app`:                          `mysql -uroot -p'[redacted]' -h db app`,
		`echo "hush" | docker login -u me --password-stdin`:         `echo "[redacted]" | docker login -u me --password-stdin`,
		`curl --cookie "a=hush; b=hush" -u me:hush https://x`:       `curl --cookie "a=[redacted]; b=[redacted]" -u me:[redacted] https://x`,
		`kubectl create secret generic db --from-literal=user=hush`: `kubectl create secret generic db --from-literal=user=[redacted]`,
		`sh -c 'sshpass -p hush ssh me@h'`:                          `sh -c 'sshpass -p [redacted] ssh me@h'`,
		`openssl rsa -passin pass:hush -in k`:                       `openssl rsa -passin pass:[redacted] -in k`,
		`gh auth login --with-token <<< hush && ls`:                 `gh auth login --with-token <<< [redacted] && ls`,
	} {
		if got := Text(text); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, l := range append(lines(f, "secrets.txt"), lines(f, "harmless.txt")...) {
		f.Add(l)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		Text(text)
		Argv(strings.Fields(text))
	})
}

func BenchmarkText(b *testing.B) {
	const text = "git log --oneline | head -n 20 && go test ./... -run 'TestX' --count=1"
	for b.Loop() {
		Text(text)
	}
}

// TestSuspicious_KnowsSecretNames: text without any of the hints is not searched.
func TestSuspicious_KnowsSecretNames(t *testing.T) {
	data, err := os.ReadFile("../../../../../internal/secretname/testdata/secret.txt")
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.Lines(string(data)) {
		if name = strings.TrimSpace(name); !suspicious(name+"=x").any && name != "KEY" {
			t.Errorf("%s is not looked for", name)
		}
	}
}
