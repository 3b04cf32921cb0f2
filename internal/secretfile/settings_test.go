package secretfile

import "testing"

func TestIsPlainSettings_NPM(t *testing.T) {
	for text, want := range map[string]bool{
		"": true,
		"registry=https://registry.example.org/\nsave-exact=true\n":     true,
		"; comment\n# comment\n[section]\nca[]=x\nfund = false\nomit\n": true,
		"//registry.example.org/:_authToken=${NPM_TOKEN}\n":             true,
		"//registry.example.org/:_authToken=\"${NPM_TOKEN?}\"\n":        true,
		"//registry.example.org/:_authToken=abc\n":                      false,
		"//registry.example.org/:_authToken = ${A}b\n":                  false,
		"_auth=dXNlcjpwYXNz\n":                                          false,
		"  _AUTH = dXNlcjpwYXNz\n":                                      false,
		"//registry.example.org/:username=me\n":                         true,
		"//registry.example.org/:_password=cGFzcw==\n":                  false,
		"https-proxy=http://me:secret99@proxy.example.org\n":            false,
		"x=npm_0123456789abcdefghijklmnopqrstuvwxyz\n":                  false,
		"# npm_0123456789abcdefghijklmnopqrstuvwxyz\n":                  false,
		"key=-----BEGIN PRIVATE KEY-----\\nMIIB\n":                      false,
		"\xff\n": false,
	} {
		if got := isPlainSettings("/w/.npmrc", []byte(text)); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
	}
}
