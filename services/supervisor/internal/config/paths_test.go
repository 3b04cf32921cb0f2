package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/config"
)

const mapped = `
handlers:
  fs:
    address: unix:///run/fsd.sock
    secret_file: /etc/acphost/fs.secret
    paths: [{here: %s, there: /workspace/}]
`

func TestPathMaps_RejectLink(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := os.Mkdir(real, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	for _, here := range []string{link, link + "/sub"} {
		_, err = config.Load(write(t, fmt.Sprintf(mapped, here)), environment("HOME=/home/me"))
		if want := here + " leads to " + strings.Replace(here, link, real, 1) + " by a symbolic link"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", here, err, want)
		}
	}
	if _, err := config.Load(write(t, fmt.Sprintf(mapped, real)), environment("HOME=/home/me")); err != nil {
		t.Errorf("the folder itself: %v", err)
	}
}

func TestPathMaps_ExpandHomeAndTrimSlash(t *testing.T) {
	c, err := config.Load(write(t, fmt.Sprintf(mapped, "~/src")), environment("HOME=/nowhere/me"))
	if err != nil {
		t.Fatal(err)
	}
	maps, err := config.PathMaps(c.Effective().GetHandlers()["fs"])
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(maps.All()); got != "[{/nowhere/me/src /workspace}]" {
		t.Errorf("the maps are %s", got)
	}
}
