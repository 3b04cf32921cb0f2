package host

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
)

func TestOpenCaches_MakesFoldersBelowHome(t *testing.T) {
	home := t.TempDir()
	la := &linkedAgent{identity: &frame.Agent{Name: "my agent/../x"}}
	s := agent.Spec{Env: []string{"HOME=" + home, "GOCACHE=/mine", "PATH=/bin"}}
	folder, env, err := la.openCaches(&s, []string{"AGENT_CACHE_HOME"})
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(home, ".cache", "acphost-agents", "my_agent____x"); folder != want {
		t.Errorf("the folder is %s, want %s", folder, want)
	}
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v, %v", info, err)
	}
	if want := "GOCACHE=" + folder + "/go-build"; !slices.Contains(env, want) || !slices.Contains(s.Env, want) || slices.Contains(s.Env, "GOCACHE=/mine") {
		t.Errorf("the variables are %q, of the agent %q", env, s.Env)
	}
	if own := "AGENT_CACHE_HOME=" + folder + "/agent_cache_home"; slices.Contains(env, own) || !slices.Contains(s.Env, own) {
		t.Errorf("the variables are %q, of the agent %q; want %s for the agent alone", env, s.Env, own)
	}
	if again, _, err := la.openCaches(&s, []string{"AGENT_CACHE_HOME"}); again != folder || err != nil {
		t.Errorf("once more: %s, %v", again, err)
	}

	if folder, env, err := la.openCaches(&agent.Spec{}, nil); folder != "" || env != nil || err != nil {
		t.Errorf("without a home folder: %q, %q, %v", folder, env, err)
	}
}

func TestOpenCaches_RejectsLink(t *testing.T) {
	for _, tt := range []struct {
		link  string
		valid bool
	}{
		{".cache", true}, // as people have it
		{".cache/acphost-agents", false},
		{".cache/acphost-agents/agent", false},
	} {
		t.Run(tt.link, func(t *testing.T) {
			home, elsewhere := t.TempDir(), t.TempDir()
			if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(home, tt.link)), 0o700), os.Symlink(elsewhere, filepath.Join(home, tt.link))); err != nil {
				t.Fatal(err)
			}
			la := &linkedAgent{identity: &frame.Agent{Name: "agent"}}
			if folder, env, err := la.openCaches(&agent.Spec{Env: []string{"HOME=" + home}}, nil); (err == nil) != tt.valid || (len(env) > 0) != tt.valid {
				t.Errorf("got %s, %q, %v", folder, env, err)
			}
		})
	}
}

func TestMakeFolders_RejectsLinkOfOtherUser(t *testing.T) {
	home, elsewhere := t.TempDir(), t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(home, ".cache")); err != nil {
		t.Fatal(err)
	}
	if err := makeFolders(home, ".cache/x", &proc.User{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}); err == nil {
		t.Error("a link led outside")
	}
	if left, err := os.ReadDir(elsewhere); err != nil || len(left) > 0 {
		t.Errorf("outside of the home folder there are %v, %v", left, err)
	}
	if err := makeFolders(home, "a/b", &proc.User{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}); err != nil {
		t.Error(err)
	}
}
