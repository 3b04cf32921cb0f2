package secretfile

import (
	"strings"
	"testing"
)

const sshKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJ me@here"

func TestIsPublicText_RecognizesPublicKeys(t *testing.T) {
	block := func(label string) string {
		return "-----BEGIN " + label + "-----\nMIIBszCCAVmgAwIBAgIUQm9keSBvZiBhIGNlcnRpZmljYXRlIGFuZCBub3RoaW5n\nAAAA==\n-----END " + label + "-----\n"
	}
	for name, c := range map[string]struct {
		text string
		want bool
	}{
		"a certificate":                 {block("CERTIFICATE"), true},
		"several with headings":         {"Some Root R1\n============\n" + block("CERTIFICATE") + "\n# another\n" + block("X509 CRL"), true},
		"with the ends of lines of DOS": {strings.ReplaceAll(block("PUBLIC KEY"), "\n", "\r\n"), true},
		"with a serial number":          {"# Serial: " + strings.Repeat("1596622", 7) + "\n" + block("CERTIFICATE"), true},
		"a longer number":               {block("CERTIFICATE") + strings.Repeat("1596622", 8) + "\n", false},
		"OpenPGP":                       {"-----BEGIN PGP PUBLIC KEY BLOCK-----\nVersion: x\n\nmDMEZ\n=njUN\n-----END PGP PUBLIC KEY BLOCK-----\n", true},
		"OpenSSH":                       {"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ me@here\n", true},
		"nothing":                       {"", false},
		"only text":                     {"this is a key\n", false},
		"a private key":                 {block("PRIVATE KEY"), false},
		"a private key of RSA":          {block("RSA PRIVATE KEY"), false},
		"a private key of OpenSSH":      {block("OPENSSH PRIVATE KEY"), false},
		"an encrypted private key":      {block("ENCRYPTED PRIVATE KEY"), false},
		"a certificate and its key":     {block("CERTIFICATE") + block("EC PRIVATE KEY"), false},
		"a key and its certificate":     {block("EC PRIVATE KEY") + block("CERTIFICATE"), false},
		"a key behind blanks":           {block("CERTIFICATE") + "  " + block("PRIVATE KEY"), false},
		"a key in a block":              {"-----BEGIN CERTIFICATE-----\n" + block("PRIVATE KEY") + "-----END CERTIFICATE-----\n", false},
		"a block without an end":        {"-----BEGIN CERTIFICATE-----\nAAAA\n", false},
		"a block that is not known":     {block("CERTIFICATE") + block("SECRET"), false},
		"a token beside":                {block("CERTIFICATE") + "token: ghp_abcdefghijklmnopqrstuvwxyz0123456789\n", false},
		"a key without armour":          {block("CERTIFICATE") + strings.Repeat("0f", 16) + "\n", false},
		"options before an SSH key":     {"command=\"x\" ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJJJJJJJJJJJJJJJJJ me\n", false},
		"signers of git":                {"me@example.com,*@x.org namespaces=\"git\",valid-after=20260101 " + sshKey + "\n* cert-authority " + sshKey + "\n", true},
		"hosts":                         {"# of x\nx.example,[10.0.0.1]:22 " + sshKey + "\n|1|cmFuZG9tIGJ5dGVzIG9mIHM=|b3RoZXIgcmFuZG9tIGJ5dGU= " + sshKey + "\n@revoked * " + sshKey + "\n", true},
		"a token before a key":          {"0123456789abcdefABCDEF0123456789abcdef " + sshKey + "\n", false},
		"a variable before a key":       {"environment=\"A=b\" " + sshKey + "\n", false},
		"the settings of ssh":           {"Host x\n  IdentityFile ~/.ssh/id\n", false},
		"binary data":                   {block("CERTIFICATE") + "\xff\xfe", false},
	} {
		if got := isPublicText([]byte(c.text)); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}
