package ps

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
)

func TestPsListsSupervisors(t *testing.T) {
	dir := testkit.ShortDir(t)
	env := map[string]string{"XDG_RUNTIME_DIR": dir, "TMPDIR": dir}
	lookup := func(name string) string { return env[name] }
	server, err := admin.Start(admin.Options{State: commandtest.State{}, Env: lookup})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()

	status, stdout, stderr := (&commandtest.Call{Env: env}).Run(t, New, "ps")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	row := slices.IndexFunc(strings.Split(stdout, "\n"), func(line string) bool { return strings.HasSuffix(line, server.Path()) })
	if row < 1 || !strings.HasPrefix(stdout, "PID") {
		t.Fatalf("no header, or no row for %s:\n%s", server.Path(), stdout)
	}
	line := strings.Split(stdout, "\n")[row]
	if got := strings.Fields(line); got[0] != "4711" || got[1] != "gem" || got[2] != "ini" || got[3] != "running" {
		t.Errorf("the row is %q", line)
	}

	status, stdout, stderr = (&commandtest.Call{Env: env}).Run(t, New, "ps", "--json")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	var list []map[string]any
	dec := json.NewDecoder(bytes.NewReader([]byte(stdout)))
	if err := dec.Decode(&list); err != nil {
		t.Fatalf("%v:\n%s", err, stdout)
	}
	if _, err := dec.Token(); err != io.EOF {
		t.Errorf("there is more than one value:\n%s", stdout)
	}
	if i := slices.IndexFunc(list, func(s map[string]any) bool { return s["socket"] == server.Path() }); i < 0 || list[i]["pid"] != 4711.0 || list[i]["mode"] != "observe" {
		t.Errorf("the list is %v", list)
	}
}
