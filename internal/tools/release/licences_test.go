package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func TestContents_HaveLicences(t *testing.T) {
	t.Parallel()
	// In a clone: to list modules changes go.work.sum.
	s, err := prepare(t.Context(), options{repo: root, commit: "HEAD", version: "v1.2.3"}, filepath.Join(t.TempDir(), "src"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.nameLicences(t.Context()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	built, err := s.buildTree(t.Context(), platform{runtime.GOOS, runtime.GOARCH}, dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := built.contents(s)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.CreateTemp(dir, "bom")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(f, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if len(*bom.Components) < 50 {
		t.Errorf("the list has %d components, want those of all programs", len(*bom.Components))
	}
	known := map[string]string{
		"std": "BSD-3-Clause", "google.golang.org/grpc": "Apache-2.0", "github.com/spf13/cobra": "Apache-2.0", "github.com/creack/pty": "MIT",
		"github.com/hashicorp/go-plugin": "MPL-2.0", "golang.org/x/sys": "BSD-3-Clause",
	}
	for _, c := range *bom.Components {
		if c.Licenses == nil || len(*c.Licenses) == 0 {
			t.Errorf("%s has no licence", c.Name)
			continue
		}
		if want := known[c.Name]; want != "" && (*c.Licenses)[0].License.ID != want {
			t.Errorf("%s has the licence %s, want %s", c.Name, (*c.Licenses)[0].License.ID, want)
		}
		t.Log(c.Name, (*c.Licenses)[0].License.ID, len(*c.Licenses))
	}
}
