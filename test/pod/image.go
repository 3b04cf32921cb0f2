package pod

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Image is an unpacked image: its files and its configuration.
type Image struct {
	Root       string      // a folder with its files; containers get copies of it, by hard links
	Binds      [][2]string // folders of this machine, and where the container has them; read-only
	Env        []string
	Entrypoint []string
	Cmd        []string
	WorkingDir string
	User       string
}

type descriptor struct {
	MediaType string
	Digest    string
	Platform  struct{ OS, Architecture string }
}

// Unpack unpacks the archive of an OCI layout into the folder dir, which it makes.
func Unpack(archive, dir string) (*Image, error) {
	blobs := dir + ".layout"
	defer os.RemoveAll(blobs)
	f, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := untar(f, blobs); err != nil {
		return nil, fmt.Errorf("unpack %s: %w", archive, err)
	}
	blob := func(digest string) string {
		return filepath.Join(blobs, "blobs", strings.ReplaceAll(digest, ":", "/"))
	}
	// An index names indexes or manifests; the one for this machine is looked for.
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	for name := filepath.Join(blobs, "index.json"); ; {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var index struct{ Manifests []descriptor }
		if err := json.Unmarshal(text, &index); err != nil {
			return nil, fmt.Errorf("%s: %w", archive, err)
		}
		if len(index.Manifests) == 0 {
			if err := json.Unmarshal(text, &manifest); err != nil {
				return nil, fmt.Errorf("%s: %w", archive, err)
			}
			break
		}
		name = ""
		for _, m := range index.Manifests {
			if p := m.Platform; p.OS == "" || p.OS == "linux" && p.Architecture == runtime.GOARCH {
				name = blob(m.Digest)
			}
		}
		if name == "" {
			return nil, fmt.Errorf("%s has no image for linux/%s", archive, runtime.GOARCH)
		}
	}
	for _, l := range manifest.Layers {
		if err := unpackLayer(blob(l.Digest), l.MediaType, dir); err != nil {
			return nil, fmt.Errorf("unpack a layer of %s: %w", archive, err)
		}
	}
	text, err := os.ReadFile(blob(manifest.Config.Digest))
	if err != nil {
		return nil, err
	}
	var config struct{ Config Image }
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", archive, err)
	}
	config.Config.Root = dir
	return &config.Config, nil
}

func unpackLayer(name, mediaType, dir string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if !strings.HasSuffix(mediaType, "gzip") {
		return untar(f, dir)
	}
	packed, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	return untar(packed, dir)
}

// untar unpacks folders, files and links, with their owners and modes. Images of ours have nothing else, and nothing of
// a layer removes what is in another.
func untar(r io.Reader, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := filepath.Clean(strings.TrimPrefix(h.Name, "/"))
		mode := h.FileInfo().Mode()
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeDir:
			if err := root.MkdirAll(name, 0o755); err != nil {
				return err
			}
		case tar.TypeReg:
			f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			_, err = io.Copy(f, in)
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
		case tar.TypeSymlink:
			if err := root.Symlink(h.Linkname, name); err != nil {
				return err
			}
			continue
		default:
			return fmt.Errorf("%s is of the kind %q, which is not known", h.Name, h.Typeflag)
		}
		if err := errors.Join(root.Chown(name, h.Uid, h.Gid), root.Chmod(name, mode)); err != nil {
			return err
		}
	}
}
