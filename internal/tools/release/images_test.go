package main

import (
	"debug/buildinfo"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// releasedImages writes images of the version v1.2.3 with programs of this machine, and returns their folder.
func releasedImages(t *testing.T) string {
	t.Helper()
	self, err := os.Executable() // a program of Go, whose modules can be listed
	if err != nil {
		t.Fatal(err)
	}
	held := tree{platform: platform{"linux", runtime.GOARCH}}
	for _, program := range append([]string{"gatewayd"}, images["acphost"]...) {
		held.files = append(held.files, file{"bin/" + program, self, 0o755})
	}
	out := filepath.Join(t.TempDir(), "images")
	s := source{version: "v1.2.3", commit: strings.Repeat("0", 40), time: time.Unix(1_700_000_000, 0).UTC()}
	info, err := buildinfo.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	s.licenceOf = map[string][]string{"std": {"BSD-3-Clause"}}
	for _, m := range append(info.Deps, &info.Main) {
		s.licenceOf[m.Path] = []string{"MIT"}
	}
	if err := s.writeImages([]tree{held}, nil, t.TempDir(), out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestImages_HaveUniqueNames(t *testing.T) {
	t.Parallel()
	out := releasedImages(t)
	const want = "localhost/acphost/"
	t.Run("annotations", func(t *testing.T) {
		for image := range images {
			text, err := output(t.Context(), out, nil, "tar", "-xOf", image+".oci.tar", "index.json")
			if err != nil {
				t.Fatal(err)
			}
			var index struct {
				Manifests []struct{ Annotations map[string]string }
			}
			if err := json.Unmarshal([]byte(text), &index); err != nil || len(index.Manifests) != 1 {
				t.Fatalf("%s: the index is %s (%v)", image, text, err)
			}
			for _, name := range []string{"org.opencontainers.image.ref.name", "io.containerd.image.name"} {
				if got := index.Manifests[0].Annotations[name]; got != want+image+":1.2.3" {
					t.Errorf("%s: %s is %q, want %s%s:1.2.3", image, name, got, want, image)
				}
			}
		}
	})
	t.Run("skopeo", func(t *testing.T) {
		if _, err := exec.LookPath("skopeo"); err != nil {
			t.Skip("skopeo is not installed")
		}
		for image, programs := range images {
			text, err := output(t.Context(), out, nil, "skopeo", "inspect", "--config", "oci-archive:"+image+".oci.tar:"+want+image+":1.2.3")
			if err != nil {
				t.Fatal(err)
			}
			var config struct {
				Config struct{ Entrypoint []string }
			}
			if err := json.Unmarshal([]byte(text), &config); err != nil || !slices.Equal(config.Config.Entrypoint, []string{"/usr/bin/" + programs[0]}) {
				t.Errorf("%s: skopeo reads %s (%v)", image, text, err)
			}
		}
	})
	t.Run("podman", func(t *testing.T) {
		if _, err := exec.LookPath("podman"); err != nil || os.Geteuid() != 0 {
			t.Skip("podman is not installed, or this is not run as root")
		}
		store, err := os.MkdirTemp("", "podman-") // podman refuses a path of more than 50 characters
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(store) })
		podman := []string{"--root", filepath.Join(store, "root"), "--runroot", filepath.Join(store, "run"), "--storage-driver", "vfs"}
		var names []string
		for image := range images {
			if _, err := output(t.Context(), out, nil, "podman", slices.Concat(podman, []string{"load", "--quiet", "--input", image + ".oci.tar"})...); err != nil {
				t.Fatal(err)
			}
			names = append(names, want+image+":1.2.3")
		}
		list, err := output(t.Context(), out, nil, "podman", slices.Concat(podman, []string{"images", "--format", "{{.Repository}}:{{.Tag}}"})...)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		if loaded := slices.Sorted(strings.Lines(list + "\n")); strings.TrimSpace(strings.Join(loaded, "")) != strings.Join(names, "\n") {
			t.Errorf("podman has loaded\n%s\nwant\n%s", list, strings.Join(names, "\n"))
		}
	})
}
