package intent

import (
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"google.golang.org/protobuf/proto"
)

func TestCall_NormalisesParams(t *testing.T) {
	for _, tt := range []struct {
		name, method, kind, params string
		want                       seen
	}{
		{"a file that is read", "fs/read_text_file", "fs.read", `{"sessionId":"s","path":"/ws/a","line":2}`,
			seen{kind: "fs.read", paths: []string{"r /ws/a"}}},
		{"a file that is written", "fs/write_text_file", "fs.write", `{"sessionId":"s","path":"/etc/a","content":"c"}`,
			seen{kind: "fs.write", paths: []string{"w /etc/a outside"}}},
		{"a folder that is listed", "fs/list_directory", "fs.list", `{"sessionId":"s","path":"/ws"}`,
			seen{kind: "fs.list", paths: []string{"r /ws"}}},
		{"an escaped name", "fs/read_text_file", "fs.read", `{"\u0070ath":"/ws\/a"}`,
			seen{kind: "fs.read", paths: []string{"r /ws/a"}}},
		{"a relative path", "fs/read_text_file", "fs.read", `{"path":"a"}`,
			seen{kind: "fs.read", paths: []string{"r /ws/a"}, unparsed: "not absolute"}},
		{"a URL is no path here", "fs/read_text_file", "fs.read", `{"path":"file:///own/x"}`,
			seen{kind: "fs.read", paths: []string{"r /ws/file:/own/x"}, unparsed: "not absolute"}},
		{"no path", "fs/write_text_file", "fs.write", `{"content":"c"}`,
			seen{kind: "fs.write", unparsed: "which path"}},
		{"a path of a wrong type", "fs/write_text_file", "fs.write", `{"path":["/ws/a"]}`,
			seen{kind: "fs.write", unparsed: "which path"}},
		{"two paths", "fs/write_text_file", "fs.write", `{"path":"/ws/a","path":"/etc/b"}`,
			seen{kind: "fs.write", paths: []string{"w /etc/b outside"}, unparsed: "one way only"}},
		{"a shell line in a terminal", "terminal/create", "terminal.create", `{"command":"make > log","cwd":"/ws/sub","env":[{"name":"PATH","value":"/x"}]}`,
			seen{kind: "terminal.create", commands: []string{"make"}, cwd: "/ws/sub", env: []string{"PATH=/x"}, paths: []string{"w /ws/sub/log"}}},
		{"a program with arguments", "terminal/create", "terminal.create", `{"args":["-c","rm -rf /; ls"],"command":"sh"}`,
			seen{kind: "terminal.create", commands: []string{"rm -rf /", "ls"}}},
		{"a program whose name has a space", "terminal/create", "terminal.create", `{"command":"my tool","args":["x"]}`,
			seen{kind: "terminal.create", commands: []string{"my tool x"}}},
		{"no arguments are a line", "terminal/create", "terminal.create", `{"command":"a; b","args":[]}`,
			seen{kind: "terminal.create", commands: []string{"a", "b"}}},
		{"a program from start to end", "terminal/run", "terminal.create", `{"command":"ls"}`,
			seen{kind: "terminal.create", commands: []string{"ls"}}},
		{"a question for a person", "elicitation/create", "elicitation/create", `{"message":"Which?"}`,
			seen{kind: "elicitation"}},
		{"no command", "terminal/create", "terminal.create", `{"args":["x"]}`,
			seen{kind: "terminal.create", commands: []string{" x"}, unparsed: "command cannot be read"}},
		{"arguments of a wrong type", "terminal/create", "terminal.create", `{"command":"rm","args":["-rf",{}]}`,
			seen{kind: "terminal.create", commands: []string{"rm"}, unparsed: "args cannot be read"}},
		{"an environment of a wrong type", "terminal/create", "terminal.create", `{"command":"ls","env":{"A":"b"}}`,
			seen{kind: "terminal.create", commands: []string{"ls"}, unparsed: "env cannot be read"}},
		{"a folder of a wrong type", "terminal/create", "terminal.create", `{"command":"ls","cwd":7}`,
			seen{kind: "terminal.create", commands: []string{"ls"}, unparsed: "cwd cannot be read"}},
		{"params that are no object", "terminal/create", "terminal.create", `["ls"]`,
			seen{kind: "terminal.create", unparsed: "one way only"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := Call(inSession(""), tt.method, tt.kind, []byte(tt.params))
			tt.want.check(t, a)
			if a.GetMethod() != tt.method || a.GetDoor() != permissionv1.Door_DOOR_CALL || (a.GetRawInput() != "") != (tt.want.kind == "elicitation") {
				t.Errorf("got %v", a)
			}
		})
	}
}

func TestCall_ExtensionKeepsParams(t *testing.T) {
	a := Call(inSession(""), "_acme.com/x", "_acme.com/x", []byte(`{"a": 1.0}`))
	if a.GetKind() != "_acme.com/x" || a.GetRawInput() != `{"a": 1.0}` || a.GetUnparsed() != "" {
		t.Errorf("got %v", a)
	}
	a = Call(inSession(""), "_acme.com/x", "_acme.com/x", []byte(`{"a":"`+strings.Repeat("x", maxRawInput)+`"}`))
	if a.GetRawInput() != "" || !strings.Contains(a.GetUnparsed(), "over 1 MiB") {
		t.Errorf("raw input of %d bytes, unparsed %q", len(a.GetRawInput()), a.GetUnparsed())
	}
}

func FuzzCall(f *testing.F) {
	f.Add("fs.read", `{"path":"/ws/a"}`)
	f.Add("terminal.create", `{"command":"ls","args":["x"],"env":[{"name":"A","value":"b"}],"cwd":"/"}`)
	f.Add("_x", "{\"a\":\"\xff\"}")
	f.Fuzz(func(t *testing.T, kind, params string) {
		a := Call(inSession(""), "m", kind, []byte(params))
		if _, err := proto.Marshal(a); err != nil {
			t.Errorf("the action cannot be sent: %v", err)
		}
		if a.GetUnparsed() != "" || a.GetCommand().GetUnparsed() != "" {
			return
		}
		switch {
		case kind == "terminal.create" && len(a.GetCommand().GetSubCommands()) == 0:
			t.Error("a terminal without a command is said to be understood")
		case strings.HasPrefix(kind, "fs.") && (kind == "fs.read" || kind == "fs.write" || kind == "fs.list") && len(a.GetPaths()) != 1:
			t.Error("a file call without a path is said to be understood")
		}
	})
}
