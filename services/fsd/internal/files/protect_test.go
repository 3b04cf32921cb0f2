package files

import (
	"context"
	"os"
	"strings"
	"testing"
)

func TestProtected_RejectedUnderEveryName(t *testing.T) {
	outer := workspace(t)
	ws := outer + "/ws"
	put(t, ws+"/conf/policy.yaml", "rules")
	put(t, ws+"/conf/deep/journal", "journal")
	put(t, ws+"/single.yaml", "single")
	put(t, ws+"/config.yaml.bak", "not protected")
	put(t, outer+"/state/grants", "grants")
	link(t, "conf", ws+"/alias")
	link(t, "conf/policy.yaml", ws+"/to-policy")
	link(t, outer+"/state", ws+"/state-link")
	link(t, "target.yaml", ws+"/link.yaml")
	for from, to := range map[string]string{
		ws + "/conf/deep/journal": ws + "/hard-journal",
		ws + "/single.yaml":       ws + "/hard-single",
		ws + "/config.yaml.bak":   ws + "/hard-other",
	} {
		if err := os.Link(from, to); err != nil {
			t.Fatal(err)
		}
	}
	d := New()
	if err := d.Configure(Config{Protected: []string{
		ws + "/conf/", ws + "/single.yaml", ws + "/config.yaml", ws + "/state-link", ws + "/alias/not-yet",
		ws + "/link.yaml", ws + "/later/dir",
	}}, false); err != nil {
		t.Fatal(err)
	}
	b := in(ws, outer+"/state")
	for _, path := range []string{
		ws + "/conf/policy.yaml",
		ws + "/conf/deep/journal",
		ws + "/conf/new",
		ws + "/conf/new/new",
		ws + "/conf/../conf/policy.yaml",
		ws + "/alias/policy.yaml",
		ws + "/to-policy",
		ws + "/hard-journal",
		ws + "/hard-single",
		ws + "/single.yaml",
		ws + "/config.yaml", // is not there yet
		ws + "/state-link/grants",
		outer + "/state/grants",
		outer + "/state/new",
		ws + "/link.yaml", // leads to what is not there yet
		ws + "/target.yaml",
		ws + "/later/dir",
		ws + "/later/dir/x",
	} {
		_, err := read(d, b, path)
		wantKind(t, err, Protected)
		if err != nil && !strings.Contains(err.Error(), "acphost itself") {
			t.Errorf("the error does not state whose it is: %v", err)
		}
		_, err = write(d, b, path, "x")
		wantKind(t, err, Protected)
		loc, err := d.Resolve(context.Background(), b, path)
		if err != nil || !loc.Protected {
			t.Errorf("Resolve of %s returned %+v, %v", path, loc, err)
		}
		if t.Failed() {
			t.Fatalf("at %s", path)
		}
	}
	_, err := d.List(context.Background(), b, ws+"/alias", 0)
	wantKind(t, err, Protected)
	for _, path := range []string{ws + "/config.yaml.bak", ws + "/hard-other", ws + "/later/dirx", ws + "/conf-not"} {
		if _, err := write(d, b, path, "x"); err != nil {
			t.Errorf("%s is not protected: %v", path, err)
		}
	}
	if contentOf(t, ws+"/conf/policy.yaml") != "rules" || contentOf(t, outer+"/state/grants") != "grants" {
		t.Error("a refused write wrote")
	}
}

func TestProtected_ResolvedAtEveryCall(t *testing.T) {
	ws := workspace(t)
	put(t, ws+"/one/f", "1")
	put(t, ws+"/two/f", "2")
	link(t, "one", ws+"/conf")
	d := New()
	if err := d.Configure(Config{Protected: []string{ws + "/conf"}}, false); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(ws + "/conf"); err != nil {
		t.Fatal(err)
	}
	link(t, "two", ws+"/conf")
	for _, path := range []string{"/one/f", "/two/f", "/conf/f"} {
		_, err := read(d, in(ws), ws+path)
		wantKind(t, err, Protected)
	}
}

func TestProtected_SwappedFileIsRejectedOnOpen(t *testing.T) {
	ws := workspace(t)
	put(t, ws+"/policy", "rules")
	path := put(t, ws+"/f", "harmless")
	d := New()
	if err := d.Configure(Config{Protected: []string{ws + "/policy"}}, false); err != nil {
		t.Fatal(err)
	}
	s := d.state.Load()
	p, err := s.locate(in(ws), path, readAccess)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(ws+"/policy", path); err != nil {
		t.Fatal(err)
	}
	_, _, err = s.openFile(p, 0)
	wantKind(t, err, Protected)
}

func TestConfigure_InvalidChangesNothing(t *testing.T) {
	ws := workspace(t)
	put(t, ws+"/f", "x")
	d := New()
	good := Config{MaxContent: 4096, Protected: []string{ws + "/f"}}
	if err := d.Configure(good, false); err != nil {
		t.Fatal(err)
	}
	for _, c := range []Config{{MaxContent: 1023}, {MaxContent: MaxMaxContent + 1}, {MaxContent: -1}, {Protected: []string{"relative"}}} {
		if d.Configure(c, false) == nil || d.Configure(c, true) == nil {
			t.Errorf("%+v was taken", c)
		}
	}
	if err := d.Configure(Config{}, true); err != nil {
		t.Error(err)
	}
	_, err := read(d, in(ws), ws+"/f")
	wantKind(t, err, Protected)
}
