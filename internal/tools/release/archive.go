package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sumsFile has the SHA-256 of every other file of a release, in the format of sha256sum.
const sumsFile = "SHA256SUMS"

// signatureNamespace is the namespace of signatures of the checksums, so that signatures for other purposes are
// invalid.
const signatureNamespace = "acphost-release"

// archive writes the tree as name, in a folder of the archive's name.
func (t tree) archive(s source, name string) error {
	return s.writeArchive(name, strings.TrimSuffix(filepath.Base(name), ".tar.gz")+"/", t.files)
}

// writeArchive writes files, below top, as the compressed archive name.
func (s source) writeArchive(name, top string, files []file) error {
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := writeTar(z, s, top, files); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(name, packed.Bytes(), 0o644) //nolint:gosec // a release is public
}

// writeTar writes files and the folders above them, below top, sorted, owned by root and with the commit's time.
func writeTar(w io.Writer, s source, top string, files []file) error {
	out := tar.NewWriter(w)
	folders := map[string]bool{".": true}
	for _, f := range sorted(files) {
		var above []string
		for dir := filepath.Dir(top + f.name); !folders[dir]; dir = filepath.Dir(dir) {
			folders[dir] = true
			above = append(above, dir)
		}
		for _, dir := range slices.Backward(above) {
			if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: s.time, Format: tar.FormatUSTAR}); err != nil {
				return err
			}
		}
		text, err := os.ReadFile(f.from)
		if err != nil {
			return err
		}
		if err := out.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: top + f.name, Size: int64(len(text)), Mode: int64(f.mode.Perm()), ModTime: s.time, Format: tar.FormatUSTAR,
		}); err != nil {
			return err
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	return out.Close()
}

func sorted(files []file) []file {
	return slices.SortedFunc(slices.Values(files), func(a, b file) int { return strings.Compare(a.name, b.name) })
}

// checksums writes the checksums of all files below dir, and signs them with key, unless it is empty.
func checksums(ctx context.Context, dir, key string) error {
	var sums strings.Builder
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error { // in lexical order
		if err != nil || entry.IsDir() {
			return err
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, f); err != nil {
			return err
		}
		below, err := filepath.Rel(dir, name)
		fmt.Fprintf(&sums, "%x  %s\n", sum.Sum(nil), filepath.ToSlash(below))
		return err
	})
	if err != nil {
		return fmt.Errorf("sum up the release: %w", err)
	}
	name := filepath.Join(dir, sumsFile)
	if err := os.WriteFile(name, []byte(sums.String()), 0o644); err != nil { //nolint:gosec // a release is public
		return err
	}
	if key == "" {
		return nil
	}
	if key, err = filepath.Abs(key); err != nil {
		return err
	}
	if _, err := output(ctx, dir, nil, "ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", signatureNamespace, name); err != nil {
		return fmt.Errorf("sign the checksums by the key %s: %w", key, err)
	}
	return nil
}
