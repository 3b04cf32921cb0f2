package policytool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/ownfile"
	"github.com/acphost/acphost/internal/paths"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// TrustStore is the trust store: a file with the workspace rule files that may allow actions, in the JSON format of
// TrustStore. permd reads it. Several processes may use it at once.
type TrustStore struct {
	file string
	now  func() time.Time
}

// OpenTrustStore returns the trust store in a file, an absolute path. The file may be missing. Without a path, no
// file is trusted, and Add fails.
func OpenTrustStore(file string) *TrustStore { return &TrustStore{file: file, now: time.Now} }

// Contains reports whether a rule file is trusted with this content. name is absolute and without symbolic links.
func (t *TrustStore) Contains(name string, content []byte) (bool, error) {
	files, err := t.List()
	sum := digest(content)
	return slices.ContainsFunc(files, func(f *permissionv1.TrustedFile) bool {
		return f.GetPath() == name && f.GetSha256() == sum
	}), err
}

// List returns the trusted files, sorted by their paths.
func (t *TrustStore) List() ([]*permissionv1.TrustedFile, error) {
	if t.file == "" {
		return nil, nil
	}
	f, err := ownfile.Read(t.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("trust store: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, fmt.Errorf("trust store: read %s: %w", t.file, err)
	}
	store := &permissionv1.TrustStore{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, store); err != nil && len(bytes.TrimSpace(data)) > 0 {
		return nil, fmt.Errorf("trust store: %s is not what acphost writes; move it away to trust nothing", t.file)
	}
	slices.SortFunc(store.Files, func(a, b *permissionv1.TrustedFile) int {
		return bytes.Compare([]byte(a.GetPath()), []byte(b.GetPath()))
	})
	return store.GetFiles(), nil
}

// Add trusts a rule file with this content, and removes earlier entries of the same file. name is absolute and without
// symbolic links. When Add returns, the entry is on disk.
func (t *TrustStore) Add(name string, content []byte) error {
	return t.change(func(files []*permissionv1.TrustedFile) []*permissionv1.TrustedFile {
		files = slices.DeleteFunc(files, func(f *permissionv1.TrustedFile) bool { return f.GetPath() == name })
		return append(files, &permissionv1.TrustedFile{Path: name, Sha256: digest(content), Time: timestamppb.New(t.now())})
	})
}

// Remove removes a rule file, and reports whether it was trusted.
func (t *TrustStore) Remove(name string) (found bool, err error) {
	err = t.change(func(files []*permissionv1.TrustedFile) []*permissionv1.TrustedFile {
		left := slices.DeleteFunc(slices.Clone(files), func(f *permissionv1.TrustedFile) bool { return f.GetPath() == name })
		found = len(left) < len(files)
		return left
	})
	return found, err
}

// change replaces the list by the result of edit. A lock file excludes concurrent changes. Readers get the old list or
// the new one.
func (t *TrustStore) change(edit func([]*permissionv1.TrustedFile) []*permissionv1.TrustedFile) error {
	if t.file == "" {
		return errors.New("there is no place for the trust store: set $HOME or $XDG_STATE_HOME to an absolute path")
	}
	lock, err := ownfile.Append(t.file + ".lock")
	if err != nil {
		return fmt.Errorf("trust store: %w", err)
	}
	defer lock.Close()
	if err := ownfile.Lock(lock, time.Now().Add(ownfile.LockTimeout)); err != nil {
		return fmt.Errorf("trust store: %w", err)
	}
	files, err := t.List()
	if err != nil {
		return err
	}
	text, err := storeText(edit(files))
	if err != nil {
		return fmt.Errorf("trust store: %w", err)
	}
	if err := ownfile.Write(t.file, true, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}); err != nil {
		return fmt.Errorf("trust store: %w", err)
	}
	return ownfile.SyncDir(filepath.Dir(t.file))
}

func storeText(files []*permissionv1.TrustedFile) ([]byte, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(&permissionv1.TrustStore{Files: files})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return nil, err
	}
	// protojson varies the spaces between members. After indenting, there is one space after each colon.
	return append(out.Bytes(), '\n'), nil
}

// PrintTrusted lists trusted files, and whether their contents are unchanged.
func PrintTrusted(w io.Writer, s Style, files []*permissionv1.TrustedFile) {
	if len(files) == 0 {
		return
	}
	rows := [][]cell{{{"TRUSTED", bold}, {"NOW", bold}, {"FILE", bold}}}
	for _, f := range files {
		state := cell{"the same", green}
		switch content, err := ReadFile(f.GetPath(), nil); {
		case errors.Is(err, fs.ErrNotExist):
			state = cell{"gone", dim}
		case err != nil:
			state = cell{"not readable", yellow}
		case digest(content) != f.GetSha256():
			state = cell{"changed, not trusted", yellow}
		}
		when := "-"
		if f.GetTime() != nil {
			when = f.GetTime().AsTime().Local().Format(time.DateTime)
		}
		rows = append(rows, []cell{{text: when}, state, {text: f.GetPath()}})
	}
	s.table(w, "", rows)
}

// WorkspaceFile returns the workspace rule file for a folder or a file, absolute and, if it exists, without symbolic
// links. relative is its path below a folder.
func WorkspaceFile(name, relative string) (string, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		name = filepath.Join(name, relative)
	}
	return paths.Real(name), nil
}
