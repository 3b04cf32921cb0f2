package git

import (
	"bytes"
	"crypto/sha1" // #nosec G505 -- git's own ids
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// maxRefs limits the refs of a snapshot, and maxRefBytes the size of packed-refs in bytes.
	maxRefs     = 1 << 14
	maxRefBytes = 4 << 20
	// maxCommits limits the commits that one question about a snapshot reads.
	maxCommits = 4096
)

// A Snapshot is what the refs of a repository pointed to at one time. It is immutable, and safe for concurrent use.
//
// Objects are read later, by their ids: git's ids are hashes, so processes that change the repository meanwhile cannot
// change what a commit contains.
type Snapshot struct {
	top, dir string
	tips     []string
}

// TakeSnapshot returns a snapshot of the repository of a working tree. folder is the working tree's top folder or lies
// below it, absolute and without symbolic links. It returns nil if there is no such repository, or if it cannot be
// read: its objects lie elsewhere, too, or have longer ids.
func TakeSnapshot(folder string) *Snapshot {
	found := Find(folder)
	if !found.Plain && !found.Linked {
		return nil
	}
	own, common := found.folders()
	if NewHistory(common).blind {
		return nil
	}
	s := &Snapshot{top: found.Top, dir: common}
	if !s.readRefs(own) || own != common && !s.readRefs(common) {
		return nil
	}
	return s
}

// readRefs adds the ids of all refs in a repository's folder; false: there are too many, or they cannot be read.
func (s *Snapshot) readRefs(dir string) bool {
	for _, name := range []string{"HEAD", "ORIG_HEAD"} {
		s.add(filepath.Join(dir, name))
	}
	packed, err := bounded(filepath.Join(dir, "packed-refs"), maxRefBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	for line := range strings.Lines(string(packed)) {
		s.addID(strings.TrimPrefix(line, "^"))
	}
	err = filepath.WalkDir(filepath.Join(dir, "refs"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			s.add(path)
		}
		if len(s.tips) > maxRefs {
			return errObject
		}
		return nil
	})
	return err == nil && len(s.tips) <= maxRefs
}

// add adds the id in a file of a ref. A symbolic ref has none.
func (s *Snapshot) add(file string) {
	if data, err := bounded(file, maxLink); err == nil {
		s.addID(string(data))
	}
}

func (s *Snapshot) addID(line string) {
	if len(line) >= 2*idSize {
		if _, err := hex.DecodeString(line[:2*idSize]); err == nil {
			s.tips = append(s.tips, line[:2*idSize])
		}
	}
}

// SharesRefs reports whether two snapshots are of the same repository, in one working tree or in two.
func (s *Snapshot) SharesRefs(other *Snapshot) bool { return s.dir == other.dir }

// Top returns the top folder of the working tree.
func (s *Snapshot) Top() string { return s.top }

// Contains reports whether a file lies in the working tree.
func (s *Snapshot) Contains(file string) bool {
	return strings.HasPrefix(file, strings.TrimSuffix(s.top, "/")+"/")
}

// Has reports whether the file had exactly this content in a commit that a ref of the snapshot leads to. It is false,
// too, if that is not found until the deadline, or in the first few thousand commits.
func (s *Snapshot) Has(file string, content []byte, deadline time.Time) bool {
	if !s.Contains(file) {
		return false
	}
	names := strings.Split(strings.TrimPrefix(file, strings.TrimSuffix(s.top, "/")+"/"), "/")
	want := sha1.Sum(append([]byte("blob "+strconv.Itoa(len(content))+"\x00"), content...)) // #nosec G401 -- git's own ids
	r := &objectReader{history: NewHistory(s.dir), trees: map[string][]byte{}}
	defer r.close()
	found := false
	end := func() bool { return found || time.Now().After(deadline) }
	r.walk(s.tips, map[string]bool{}, maxCommits, end, func(commit []byte) {
		for _, tree := range headers(commit, "tree") {
			found = found || r.blobIn(tree, names) == hex.EncodeToString(want[:])
		}
	})
	return found
}

// headers returns the values of a header of a commit or tag.
func headers(data []byte, name string) (values []string) {
	for line := range bytes.Lines(data) {
		if len(line) == 1 {
			break
		}
		if value, ok := bytes.CutPrefix(line, []byte(name+" ")); ok {
			values = append(values, string(bytes.TrimSpace(value)))
		}
	}
	return values
}

// objectReader reads objects of a repository by their ids. It is not for concurrent use.
type objectReader struct {
	history *History
	packs   []*pack
	opened  bool
	trees   map[string][]byte // read before, by id
}

func (r *objectReader) close() {
	for _, p := range r.packs {
		_ = p.file.Close()
	}
}

// blobIn returns the id of the regular file at a path below a tree; empty: there is none.
func (r *objectReader) blobIn(tree string, names []string) string {
	for i, name := range names {
		data, known := r.trees[tree]
		if !known {
			kind, read, err := r.read(tree)
			if err != nil || kind != typeNames[isTree] {
				return ""
			}
			if len(r.trees) < maxCommits {
				r.trees[tree] = read
			}
			data = read
		}
		mode, id := entryOf(data, name)
		last := i == len(names)-1
		if last && strings.HasPrefix(mode, "100") {
			return id
		}
		if last || mode != "40000" {
			return ""
		}
		tree = id
	}
	return ""
}

// entryOf returns the mode and id of a name in a tree; empty: it is not there.
func entryOf(tree []byte, name string) (mode, id string) {
	for len(tree) > 0 {
		head, rest, ok := bytes.Cut(tree, []byte{0})
		if !ok || len(rest) < idSize {
			return "", ""
		}
		if mode, at, ok := strings.Cut(string(head), " "); ok && at == name {
			return mode, hex.EncodeToString(rest[:idSize])
		}
		tree = rest[idSize:]
	}
	return "", ""
}

// read returns an object's type and content, which is the one that the id is the hash of.
func (r *objectReader) read(id string) (kind string, data []byte, err error) {
	raw, err := hex.DecodeString(id)
	if err != nil || len(raw) != idSize {
		return "", nil, errObject
	}
	kind, data, err = r.loose(id)
	if err != nil {
		kind, data, err = r.packed(raw)
	}
	if err != nil {
		return "", nil, err
	}
	sum := sha1.Sum(append([]byte(kind+" "+strconv.Itoa(len(data))+"\x00"), data...)) // #nosec G401 -- git's own ids
	if !bytes.Equal(sum[:], raw) {
		return "", nil, errObject
	}
	return kind, data, nil
}

// loose reads an object that has a file of its own.
func (r *objectReader) loose(id string) (kind string, data []byte, err error) {
	f, _, err := open(filepath.Join(r.history.dir, id[:2], id[2:]))
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	r.history.in.open(f)
	from, err := r.history.in.start()
	if err != nil {
		return "", nil, err
	}
	all, err := io.ReadAll(io.LimitReader(from, maxTree))
	if err != nil {
		return "", nil, err
	}
	head, data, ok := bytes.Cut(all, []byte{0})
	kind, _, named := strings.Cut(string(head), " ")
	if !ok || !named {
		return "", nil, errObject
	}
	return kind, data, nil
}

// packed reads an object from the packs.
func (r *objectReader) packed(id []byte) (kind string, data []byte, err error) {
	if !r.opened {
		r.opened = true
		r.openPacks()
	}
	for _, p := range r.packs {
		n, found := p.find(id)
		if !found {
			continue
		}
		t, err := p.typeOf(p.places[n])
		if err != nil {
			return "", nil, err
		}
		data, err := p.content(p.places[n], 0)
		return typeNames[t], data, err
	}
	return "", nil, fs.ErrNotExist
}

// openPacks opens the packs that can be read, until their indexes are too large together: they are kept in memory, and
// processes may write any number of them.
func (r *objectReader) openPacks() {
	indexes, _ := filepath.Glob(filepath.Join(r.history.dir, "pack", "*.idx"))
	left := int64(maxIndexes)
	for _, index := range indexes {
		info, err := os.Stat(index)
		if err != nil || info.Size() > left {
			continue
		}
		left -= info.Size()
		p := &pack{path: strings.TrimSuffix(index, ".idx"), in: r.history.in, kept: map[uint64][]byte{}}
		if !p.index() {
			continue
		}
		file, _, err := open(p.path + ".pack")
		if err != nil {
			continue
		}
		p.file = file
		r.packs = append(r.packs, p)
	}
}
