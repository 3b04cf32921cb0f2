package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExposed_RejectsSidecarReachableByAgent(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no sidecar":          {"handlers: {fs: {settings: {}}, x: {command: [./x]}}", ""},
		"a secret":            {"handlers: {x: {address: 'unix:///s', secret_file: k}}", `handlers.x.secret_file: .* same user`},
		"keys":                {"handlers: {x: {address: 'unix:///s', tls: {ca: a, cert: b, key: k}}}", "handlers.x.tls.key: an agent could read this key .* same user"},
		"keys over TCP":       {"handlers: {x: {address: 'tcp://h:1', tls: {ca: a, cert: b, key: k}}}", "handlers.x.tls.key: an agent could read this key"},
		"in a chain":          {"permission: [permd, {address: 'unix:///s', secret_file: k}]", "permission.chain[1].secret_file: an agent could read this secret"},
		"a child without TLS": {"handlers: {x: {command: [./x], no_tls: true}}", "handlers.x.no_tls: without TLS"},
		"an unknown user":     {"{agent: {user: no-such-user}, handlers: {x: {address: 'unix:///s', secret_file: k}}}", "cannot be told: agent.user: "},
		"meant, a secret":     {"handlers: {x: {address: 'unix:///s', secret_file: k, agent_may_call: true}}", ""},
		"meant, keys":         {"handlers: {x: {address: 'unix:///s', tls: {ca: a, cert: b, key: k}, agent_may_call: true}}", ""},
		"meant, without TLS":  {"handlers: {x: {command: [./x], no_tls: true, agent_may_call: true}}", ""},
		"not meant after all": {"handlers: {x: {address: 'unix:///s', secret_file: k, agent_may_call: false}}", "same user"},
		"closed keys": {"{agent: {unreadable: [keys]}, handlers: {fs: {address: 'unix:///s', tls: {ca: a, cert: b, key: keys/k}}, " +
			"terminal: {address: 'unix:///t', tls: {ca: a, cert: b, key: keys/sub/k}}}}", ""},
		"closed, and another": {"{agent: {unreadable: [keys]}, handlers: {fs: {address: 'unix:///s', tls: {ca: a, cert: b, key: keysk}}, " +
			"terminal: {address: 'unix:///t', tls: {ca: a, cert: b, key: keys/k}}}}", "handlers.fs.tls.key: an agent could read this key"},
		"closed, with a child": {"{agent: {unreadable: [keys]}, handlers: {fs: {address: 'unix:///s', tls: {ca: a, cert: b, key: keys/k}}}}",
			"agent.unreadable: the handler terminal, which acphost starts, could be asked"},
		"the same user by name": {fmt.Sprintf("{agent: {user: '%d'}, handlers: {x: {address: 'unix:///s', secret_file: k}}}", os.Geteuid()), "same user"},
	} {
		t.Run(name, func(t *testing.T) { exposedIs(t, load(t, c.text).CheckExposed(), c.want) })
	}
}

// exposedIs sees that an error says what is wanted, in order where " .* " parts it.
func exposedIs(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("error = %v, want none", err)
		}
		return
	}
	if err == nil {
		t.Fatalf("no error, want %q", want)
	}
	rest := err.Error()
	for part := range strings.SplitSeq(want, " .* ") {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			t.Fatalf("error = %v, want %q", err, want)
		}
		rest = after
	}
}

func TestExposed_ChecksSecretFileForOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("to give files away takes root")
	}
	const nobody = 65534
	dir := t.TempDir()
	file := func(name string, mode os.FileMode, uid, gid int) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, uid, gid); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const secret, keys = "secret_file: %s", "tls: {ca: a, cert: b, key: %s}"
	for name, c := range map[string]struct{ how, file, more, user, want string }{
		"closed":                     {secret, file("closed", 0o600, 0, 0), "", "65534", ""},
		"the group's, another":       {keys, file("group0", 0o640, 0, 0), "", "65534", ""},
		"the group's, the agent's":   {keys, file("group", 0o640, 0, nobody), "", "65534", "open to the group 65534"},
		"everybody's":                {keys, file("all", 0o604, 0, 0), "", "65534", "open to everybody .* chmod 0600"},
		"the agent's own":            {secret, file("own", 0o000, nobody, 0), "", "65534", "belongs to user 65534"},
		"not there":                  {secret, filepath.Join(dir, "gone"), "", "65534", ""},
		"closed, and the agent root": {secret, file("closed2", 0o600, 0, 0), "uid: 7, ", "0", "same user"},
		"a sidecar of the agent's user, with a secret": {secret, file("closed3", 0o600, 0, 0), "uid: 65534, ", "65534", "so does the sidecar"},
		"a sidecar of a third user":                    {secret, file("closed4", 0o600, 0, 0), "uid: 7, ", "65534", ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := fmt.Sprintf("{agent: {user: '%s'}, handlers: {permission: {address: 'unix:///s', %s"+c.how+"}}}", c.user, c.more, c.file)
			exposedIs(t, load(t, text).CheckExposed(), c.want)
		})
	}
}
