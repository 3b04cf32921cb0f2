package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the user of the programs in images: not a user of the machine, and a number, so that "must not be root"
// can be checked.
const imageUser = 65532

// imageNames is the repository of the images' names. It names no registry: images that are loaded from a release are
// local, and a runtime without them cannot pull this name from elsewhere.
const imageNames = "localhost/acphost/"

// imageName returns the whole name of an image: repository and tag.
func (s source) imageName(image string) string {
	return imageNames + image + ":" + strings.TrimPrefix(s.version, "v")
}

// images are the programs of each image. A container runs the first. termd's image is only for copying the program out
// of it: a container of termd needs the tools that agents' commands use.
var images = map[string][]string{
	"acphost": {"acphost", "fsd", "termd", "permd", "demoagent"},
	"fsd":     {"fsd"},
	"permd":   {"permd"},
	"termd":   {"termd"},
	// Programs with web code are not in an image with programs that access files.
	"gatewayd": {"gatewayd"},
}

// tryImages makes images of existing programs, for this machine, as a release of a commit would.
func tryImages(ctx context.Context, o options, log io.Writer) error {
	repo, err := filepath.Abs(o.repo)
	if err != nil {
		return err
	}
	s := source{dir: repo, version: o.version}
	committed, err := output(ctx, repo, nil, "git", "log", "-1", "--format=%H %cI")
	if err != nil {
		return err
	}
	commit, date, _ := strings.Cut(committed, " ")
	if s.time, err = time.Parse(time.RFC3339, date); err != nil {
		return fmt.Errorf("read the time of the commit %s: %w", commit, err)
	}
	s.commit, s.time = commit, s.time.UTC()
	t := tree{platform: platform{"linux", runtime.GOARCH}}
	for _, name := range append([]string{"gatewayd"}, images["acphost"]...) {
		t.files = append(t.files, file{"bin/" + name, filepath.Join(o.bin, name), 0o755})
	}
	work, err := os.MkdirTemp("", "acphost-images-")
	if err != nil {
		return fmt.Errorf("make a folder to work in: %w", err)
	}
	defer removeAll(work)
	if err := s.nameLicences(ctx); err != nil {
		return err
	}
	licences, err := s.licences(ctx, []tree{t})
	if err != nil {
		return err
	}
	list := filepath.Join(work, "licences")
	if err := os.WriteFile(list, licences, 0o644); err != nil { //nolint:gosec // an image is public
		return err
	}
	shared := []file{{documents + "LICENSE", filepath.Join(repo, "LICENSE"), 0o644}, {documents + "THIRD_PARTY_LICENSES", list, 0o644}}
	if err := s.writeImages([]tree{t}, shared, work, o.out); err != nil {
		return err
	}
	fmt.Fprintf(log, "images of the programs in %s are in %s\n", o.bin, o.out)
	return nil
}

// writeImages writes an archive of an OCI layout for each image into the folder out, with a manifest for each of the
// trees.
func (s source) writeImages(trees []tree, shared []file, work, out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for name, programs := range images {
		whole := s.imageName(name)
		index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
		for _, t := range trees {
			image, err := s.image(name, programs, t, shared, filepath.Join(work, name+"_"+t.platform.arch))
			if err != nil {
				return fmt.Errorf("make the image %s for %s: %w", name, t.platform, err)
			}
			index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
				Platform: &v1.Platform{OS: t.platform.os, Architecture: t.platform.arch},
			}})
		}
		named := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{Add: index, Descriptor: v1.Descriptor{
			// podman and skopeo read the first annotation, containerd and Docker the second. A name without its
			// repository would be the same for all images, so each loaded image would replace the one before.
			Annotations: map[string]string{"org.opencontainers.image.ref.name": whole, "io.containerd.image.name": whole},
		}})
		dir := filepath.Join(work, name)
		if _, err := layout.Write(dir, named); err != nil {
			return fmt.Errorf("write the image %s: %w", name, err)
		}
		if err := s.packImage(dir, filepath.Join(out, name+".oci.tar")); err != nil {
			return fmt.Errorf("pack the image %s: %w", name, err)
		}
	}
	return nil
}

// packImage writes the files of a layout as one archive.
func (s source) packImage(dir, name string) error {
	var files []file
	err := filepath.WalkDir(dir, func(from string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		below, err := filepath.Rel(dir, from)
		files = append(files, file{filepath.ToSlash(below), from, 0o644})
		return err
	})
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	if err := writeTar(&packed, s, "", files); err != nil {
		return err
	}
	return os.WriteFile(name, packed.Bytes(), 0o644) //nolint:gosec // a release is public
}

// image returns an image of a tree's programs, made from scratch. work is a folder for it, which does not exist yet.
func (s source) image(name string, programs []string, t tree, shared []file, work string) (v1.Image, error) {
	if err := os.MkdirAll(work, 0o755); err != nil {
		return nil, err
	}
	held := tree{platform: t.platform}
	for _, f := range t.files {
		if path.Dir(f.name) == "bin" && slices.Contains(programs, path.Base(f.name)) {
			held.files = append(held.files, f)
		}
	}
	bom, err := held.contents(s)
	if err != nil {
		return nil, err
	}
	list := filepath.Join(work, "sbom.cdx.json")
	if err := os.WriteFile(list, bom, 0o644); err != nil { //nolint:gosec // an image is public
		return nil, err
	}
	held.files = append(held.files, file{documents + "sbom.cdx.json", list, 0o644})
	for _, f := range shared {
		if f.name == documents+"LICENSE" || f.name == documents+"THIRD_PARTY_LICENSES" {
			held.files = append(held.files, f)
		}
	}
	var base, content bytes.Buffer
	if err := s.baseLayer(&base); err != nil {
		return nil, err
	}
	if err := writeTar(&content, s, "usr/", held.files); err != nil {
		return nil, err
	}
	layers := make([]v1.Layer, 2)
	for i, packed := range [][]byte{base.Bytes(), content.Bytes()} {
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil }
		if layers[i], err = tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer)); err != nil {
			return nil, err
		}
	}
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layers...)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = t.platform.os, t.platform.arch
	config.Created = v1.Time{Time: s.time}
	config.Config = v1.Config{
		User:       fmt.Sprintf("%d:%d", imageUser, imageUser),
		Env:        []string{"PATH=/usr/bin", "HOME=/home/acphost"},
		WorkingDir: "/home/acphost",
		Entrypoint: []string{"/usr/bin/" + programs[0]},
		Labels: map[string]string{
			"org.opencontainers.image.title":    name,
			"org.opencontainers.image.version":  strings.TrimPrefix(s.version, "v"),
			"org.opencontainers.image.revision": s.commit,
			"org.opencontainers.image.created":  s.time.Format(time.RFC3339),
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.source":   "https://github.com/acphost/acphost",
		},
	}
	return mutate.ConfigFile(image, config)
}

// baseLayer writes files that programs expect on any system: users, certificates of authorities, a home, and a folder
// for temporary files.
func (s source) baseLayer(w io.Writer) error {
	var certificates bytes.Buffer
	for root := range bundle.Roots() {
		if err := pem.Encode(&certificates, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return err
		}
	}
	out := tar.NewWriter(w)
	for _, e := range []struct {
		name string
		mode int64
		uid  int
		text string // empty: a folder
	}{
		{"etc/", 0o755, 0, ""},
		{"etc/group", 0o644, 0, fmt.Sprintf("root:x:0:\nacphost:x:%d:\n", imageUser)},
		{"etc/passwd", 0o644, 0, fmt.Sprintf("root:x:0:0:root:/:/sbin/nologin\nacphost:x:%d:%d:acphost:/home/acphost:/sbin/nologin\n", imageUser, imageUser)},
		{"etc/ssl/", 0o755, 0, ""},
		{"etc/ssl/certs/", 0o755, 0, ""},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, 0, certificates.String()},
		{"home/", 0o755, 0, ""},
		{"home/acphost/", 0o755, imageUser, ""}, // containers may run as other users, and start in it
		{"tmp/", 0o1777, 0, ""},
	} {
		kind := byte(tar.TypeReg)
		if strings.HasSuffix(e.name, "/") {
			kind = tar.TypeDir
		}
		err := out.WriteHeader(&tar.Header{
			Typeflag: kind, Name: e.name, Mode: e.mode, Uid: e.uid, Gid: e.uid, Size: int64(len(e.text)), ModTime: s.time, Format: tar.FormatUSTAR,
		})
		if err == nil {
			_, err = io.WriteString(out, e.text)
		}
		if err != nil {
			return err
		}
	}
	return out.Close()
}

// flatten writes the files of an image for this machine, from the folder of a layout, as one archive: the root file
// system of a container.
func flatten(dir string, p platform, w io.Writer) error {
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return fmt.Errorf("read the image in %s: %w", dir, err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		return err
	}
	inner, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		return err
	}
	if manifest, err = inner.IndexManifest(); err != nil {
		return err
	}
	for _, m := range manifest.Manifests {
		if m.Platform == nil || m.Platform.OS != p.os || m.Platform.Architecture != p.arch {
			continue
		}
		image, err := inner.Image(m.Digest)
		if err != nil {
			return err
		}
		files := mutate.Extract(image)
		defer files.Close()
		_, err = io.Copy(w, files)
		return err
	}
	return fmt.Errorf("the image in %s has nothing for %s", dir, p)
}
