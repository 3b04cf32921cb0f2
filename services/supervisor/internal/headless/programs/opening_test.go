package programs

import (
	"bytes"
	"encoding/json"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func FuzzOpening_IsOneLineOfJSON(f *testing.F) {
	f.Add("s1", "w", "/x", "files", "/bin/mcp", "-v", "A", "1")
	f.Add("\"\\\n", "\u2028", "/\x00", "}", "/\"", "\r", "\xff", "\\u0000")
	f.Fuzz(func(t *testing.T, id, cwd, dir, name, command, arg, key, value string) {
		o, err := newOpening("/"+cwd, &supervisorv1.NewSessionRequest{AdditionalDirectories: []string{"/" + dir}, McpServers: []*supervisorv1.McpServer{
			{Name: "n" + name, Transport: &supervisorv1.McpServer_Stdio{Stdio: &supervisorv1.McpStdio{Command: "/" + command, Args: []string{arg}, Env: map[string]string{key: value}}}},
			{Name: "n" + name, Transport: &supervisorv1.McpServer_Http{Http: &supervisorv1.McpHttp{Url: "u" + value, Headers: map[string]string{key: value}}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		b := o.params("s" + id)
		if bytes.ContainsAny(b, "\r\n") {
			t.Errorf("%q is more than a line", b)
		}
		var got struct {
			SessionID             string
			Cwd                   string
			AdditionalDirectories []string
			McpServers            []struct {
				Name, Command, Type, URL string
				Args                     []string
				Env, Headers             []struct{ Name, Value string }
			}
		}
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		normalized := func(s string) string { return string([]rune(s)) } // as JSON can represent it
		if got.SessionID != normalized("s"+id) || got.Cwd != normalized("/"+cwd) || got.AdditionalDirectories[0] != normalized("/"+dir) {
			t.Errorf("%s", b)
		}
		stdio, http := got.McpServers[0], got.McpServers[1]
		if stdio.Name != normalized("n"+name) || stdio.Command != normalized("/"+command) || stdio.Args[0] != normalized(arg) || stdio.Type != "" ||
			stdio.Env[0].Name != normalized(key) || stdio.Env[0].Value != normalized(value) {
			t.Errorf("%s", b)
		}
		if http.Type != "http" || http.URL != normalized("u"+value) || http.Headers[0].Value != normalized(value) {
			t.Errorf("%s", b)
		}
	})
}
