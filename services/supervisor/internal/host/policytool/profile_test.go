package policytool_test

import (
	"bytes"
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/host/policytool"
)

const profiled = `version: 1
rules:
  - id: contained
    effect: allow
    on: [terminal.create, process.start]
    contained: [files, reads, network]
    reason: It is decided later.
  - {id: tests, effect: allow, command: [go test]}
  - {id: root, effect: deny, command: [sudo, su, doas, run0]}
  - id: trees
    effect: ask
    on: ["!process.start"]
    not_contained: [files, reads]
    command: [rm -r]
    not_grantable: true
  - {id: secrets, effect: deny, on: ["!process.write", "!net.connect"], access: read, path: ["**/.env", "!**/sub/.env"]}
  - {id: reads, effect: allow, on: [process.read], path: ["/**"]}
  - {id: changes, effect: allow, on: ["process.*"], path: ["${root}/**"]}
  - {id: bus, effect: ask, on: [net.connect], path: ["/run/user/*/bus"]}
  - {id: api, effect: allow, host: [api.example]}
  - {id: edits, effect: deny, on: [fs.write], path: ["**/x"]}
`

func profile(t *testing.T, walls string, files ...*permissionv1.PolicyFile) string {
	t.Helper()
	active, err := policytool.ParseWalls(strings.Split(walls, ","))
	if err != nil {
		t.Fatal(err)
	}
	p, err := policytool.NewProfile(files)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	p.Print(&out, policytool.Style{}, active)
	text, own, found := strings.Cut(out.String(), "\nacphost itself")
	if !found || !strings.Contains(own, "acphost/protected") {
		t.Errorf("the profile does not name acphost's own rule:\n%s", out.String())
	}
	return text
}

func TestProfile_ShowsRulesOfEachOperation(t *testing.T) {
	file := &permissionv1.PolicyFile{Name: "p.yaml", Content: []byte(profiled), Layer: permissionv1.Layer_LAYER_USER}
	for walls, want := range map[string]string{
		"files,reads,network": `With the walls files, reads, network

Run commands, by their lines
  may not  ` + "`sudo`, `su`, `doas` and 1 more" + ` (root)
  may not  commands that use **/.env, except **/sub/.env (secrets)
  may      every command (contained): It is decided later.

Start programs
  may not  ` + "`sudo`, `su`, `doas` and 1 more" + ` (root)
  may not  commands that use **/.env, except **/sub/.env (secrets)
  may      every program (contained): It is decided later.

Read files
  may not  **/.env, except **/sub/.env (secrets)
  may      every file (reads)

Write files
  is asked about  what git runs, where no rule denies it: no allow rule covers it
  may             ${root}/** (changes)
  is asked about  everything else; denied if no user is there to answer

Write git's bookkeeping
  may             ${root}/** (changes)
  is asked about  everything else; denied if no user is there to answer

Connect to machines
  may             api.example (api)
  is asked about  everything else; denied if no user is there to answer

Connect to unix sockets
  is asked about  /run/user/*/bus (bus)
  may             every other socket: no rule names it
`,
		"none": `Without walls

Run commands, by their lines
  may not         ` + "`sudo`, `su`, `doas` and 1 more" + ` (root)
  may not         commands that use **/.env, except **/sub/.env (secrets)
  is asked about  ` + "`rm -r`" + ` (trees, each time)
  may             ` + "`go test`" + ` (tests)
  is asked about  everything else; denied if no user is there to answer

Processes
  may  everything that the agent's user may: no sandbox decides
`,
	} {
		if got := profile(t, walls, file); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", walls, got, want)
		}
	}
	got := profile(t, "files", file)
	for _, want := range []string{
		"every file that the agent's user may read: the wall reads is not active", "every machine, directly: the wall network is not active",
		"`go test` (tests)\n  is asked about  everything else",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("with the wall files alone: got\n%s\nwant %q", got, want)
		}
	}
}

func TestProfile_CombinesLayers(t *testing.T) {
	got := profile(t, "files,reads,network",
		&permissionv1.PolicyFile{Name: "user.yaml", Layer: permissionv1.Layer_LAYER_USER,
			Content: []byte("version: 1\nunattended: allow\nrules:\n  - {id: writes, effect: allow, on: [fs.write], path: [\"${root}/**\"]}\n")},
		&permissionv1.PolicyFile{Name: "workspace.yaml", Layer: permissionv1.Layer_LAYER_WORKSPACE,
			Content: []byte("version: 1\nrules:\n  - {id: all, effect: allow, on: [fs.write], path: [\"/**\"]}\n  - {id: x, effect: deny, on: [fs.write], path: [\"**/x\"]}\n")})
	for _, want := range []string{
		"may not         **/x (x, workspace)", "may             ${root}/** (writes, user)", "what git runs (acphost/git)",
		"may  every other file: without rules for processes", "everything else; allowed if no user is there to answer",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q", got, want)
		}
	}
	if strings.Contains(got, "(all") {
		t.Errorf("a rule of an untrusted workspace allows something:\n%s", got)
	}
}
