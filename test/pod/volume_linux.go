package pod

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Volume is the folder, or the file, of a volume on this machine.
func (p *Pod) Volume(name string) string {
	for _, v := range p.spec.Volumes {
		if v.Name == name && v.HostPath != nil {
			return v.HostPath.Path
		}
	}
	return filepath.Join(p.dir, "volumes", name)
}

// makeVolume makes a volume as a kubelet does: fsGroup owns it, and may read the files of ConfigMaps and Secrets.
func (p *Pod) makeVolume(v Volume) error {
	dir := p.Volume(v.Name)
	if v.HostPath != nil {
		_, err := os.Stat(dir)
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if v.Owner != nil {
		return errors.Join(os.Chown(dir, v.Owner.UID, v.Owner.GID), os.Chmod(dir, v.Owner.Mode))
	}
	if v.EmptyDir != nil || v.Claim != nil {
		group, mode := 0, fs.FileMode(0o777)
		if g := p.spec.SecurityContext.FSGroup; g != nil {
			group, mode = *g, mode|fs.ModeSetgid
		}
		return errors.Join(os.Chown(dir, 0, group), os.Chmod(dir, mode))
	}
	return p.fill(v)
}

// fill writes the files of a ConfigMap or of a Secret: into their own folder, to which a link is then changed, so that
// a reader gets all old files or all new ones.
func (p *Pod) fill(v Volume) error {
	files := v.ConfigMap
	if files == nil {
		files = v.Secret
	}
	if files == nil {
		return errors.New("its kind is not known to the harness")
	}
	name := files.Name + files.SecretName
	data, ok := p.cluster.Files[name]
	if !ok && !files.Optional {
		return fmt.Errorf("there is no ConfigMap or Secret %s", name)
	}
	items := files.Items
	if items == nil {
		for key := range data {
			items = append(items, struct {
				Key, Path string
				Mode      *int
			}{Key: key, Path: key})
		}
	}
	dir := p.Volume(v.Name)
	now := "..data_" + strconv.FormatInt(time.Now().UnixNano(), 36)
	if err := os.Mkdir(filepath.Join(dir, now), 0o755); err != nil {
		return err
	}
	for _, item := range items {
		text, ok := data[item.Key]
		if !ok {
			return fmt.Errorf("%s has no %s", name, item.Key)
		}
		mode := 0o644
		for _, m := range []*int{files.DefaultMode, item.Mode} {
			if m != nil {
				mode = *m
			}
		}
		group := 0
		if g := p.spec.SecurityContext.FSGroup; g != nil {
			group, mode = *g, mode|0o440
		}
		at := filepath.Join(dir, now, item.Path)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if err = errors.Join(err, os.WriteFile(at, []byte(text), 0o600)); err != nil {
			return err
		}
		if err := errors.Join(os.Chown(at, 0, group), os.Chmod(at, fs.FileMode(mode))); err != nil {
			return err
		}
		first, _, _ := strings.Cut(item.Path, "/")
		if err := os.Symlink(filepath.Join("..data", first), filepath.Join(dir, first)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	old, _ := os.Readlink(filepath.Join(dir, "..data"))
	if err := os.Symlink(now, filepath.Join(dir, "..data_tmp")); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		return err
	}
	if old != "" {
		return os.RemoveAll(filepath.Join(dir, old))
	}
	return nil
}

// Change changes a file of a ConfigMap or of a Secret under the running Pod.
func (p *Pod) Change(name, key, text string) {
	p.t.Helper()
	files := map[string]string{}
	for k, v := range p.cluster.Files[name] {
		files[k] = v
	}
	files[key] = text
	all := map[string]map[string]string{}
	for n, f := range p.cluster.Files {
		all[n] = f
	}
	all[name] = files
	p.cluster.Files = all
	for _, v := range p.spec.Volumes {
		if (v.ConfigMap != nil && v.ConfigMap.Name == name) || (v.Secret != nil && v.Secret.SecretName == name) {
			if err := p.fill(v); err != nil {
				p.t.Fatalf("change %s: %v", name, err)
			}
		}
	}
}
