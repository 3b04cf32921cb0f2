package git

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/zlib"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// maxObjects bounds the objects of a pack, and the loose ones, that are looked at.
	maxObjects = 1 << 21
	// maxIndexes limits the size of indexes of packs in bytes: of each, and of those that are in memory together.
	maxIndexes = maxObjects * (idSize + 8)
	// maxTree is how long a folder's object, or what makes one of another, may be, in bytes.
	maxTree = 8 << 20
	// maxKept bounds, in bytes, the folders that are kept in memory while a pack is read, and maxChain how many are made one of
	// another.
	maxKept  = 32 << 20
	maxChain = 4096
	// idSize is the length of an object's id. Repositories with longer ids are not read.
	idSize = 20
	// settled is how old a folder must be for its time to say that nothing was added since it was read.
	settled = 2 * time.Second
)

var errObject = errors.New("the object cannot be read")

// History reads the names of the files and folders that a repository has, or had in any commit. Objects do not change, so it
// reads each once. It is not for concurrent use.
type History struct {
	dir   string // "objects"
	packs map[string]*pack
	loose map[string]*looseFolder
	blind bool // something cannot be read
	in    *inflater
}

type looseFolder struct {
	read time.Time // the folder's time when it was read; zero: it may have changed since
	seen map[string]bool
}

// NewHistory returns a History of the repository that is kept in gitDir, an absolute path ("/w/.git").
func NewHistory(gitDir string) *History {
	h := &History{dir: filepath.Join(gitDir, "objects"), packs: map[string]*pack{}, loose: map[string]*looseFolder{}, in: &inflater{}}
	config, err := bounded(filepath.Join(gitDir, "config"), maxConfig)
	h.blind = err != nil && !errors.Is(err, fs.ErrNotExist) || strings.Contains(strings.ToLower(string(config)), "objectformat")
	for _, elsewhere := range []string{filepath.Join(h.dir, "info", "alternates"), filepath.Join(gitDir, "commondir")} {
		if _, err := os.Lstat(elsewhere); err == nil {
			h.blind = true
		}
	}
	return h
}

// Read calls name with each name in a folder of any commit that was not read before; often with the same one. It goes on until
// everything is read, or until is past; the next call continues. It reports whether all is read. name must not keep its
// argument.
func (h *History) Read(until time.Time, name func([]byte)) (complete bool) {
	if h.blind {
		return false
	}
	entries, err := os.ReadDir(filepath.Join(h.dir, "pack"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	for _, e := range entries {
		file, is := strings.CutSuffix(e.Name(), ".idx")
		if !is {
			continue
		}
		p := h.packs[file]
		if p == nil {
			p = &pack{path: filepath.Join(h.dir, "pack", file)}
			h.packs[file] = p
		}
		if p.blind || !p.read(h.in, until, name) {
			return false
		}
	}
	return h.readLoose(until, name)
}

func (h *History) readLoose(until time.Time, name func([]byte)) bool {
	folders, err := os.ReadDir(h.dir)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	for _, e := range folders {
		if !e.IsDir() || len(e.Name()) != 2 {
			continue
		}
		dir := filepath.Join(h.dir, e.Name())
		info, err := os.Stat(dir)
		if err != nil {
			return false
		}
		f := h.loose[e.Name()]
		if f == nil {
			f = &looseFolder{seen: map[string]bool{}}
			h.loose[e.Name()] = f
		}
		if f.read.Equal(info.ModTime()) && !f.read.IsZero() {
			continue
		}
		objects, err := os.ReadDir(dir)
		if err != nil {
			return false
		}
		for _, o := range objects {
			if f.seen[o.Name()] || len(o.Name()) != 2*idSize-2 {
				continue
			}
			if time.Now().After(until) || len(f.seen) > maxObjects/256 {
				return false
			}
			kind, content, err := h.in.loose(filepath.Join(dir, o.Name()), true)
			if err != nil || kind == "tree" && !eachName(content, name) {
				return false
			}
			f.seen[o.Name()] = true
		}
		if f.read = info.ModTime(); time.Since(f.read) < settled {
			f.read = time.Time{}
		}
	}
	return true
}

// Types returns the types ("blob") of the objects whose ids begin with prefix, in hexadecimal. It is an error if these cannot be
// told.
func (h *History) Types(prefix string) (types []string, err error) {
	if h.blind || len(prefix) < 4 || len(prefix) > 2*idSize {
		return nil, errObject
	}
	objects, err := os.ReadDir(filepath.Join(h.dir, prefix[:2]))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, o := range objects {
		if strings.HasPrefix(o.Name(), prefix[2:]) {
			kind, _, err := h.in.loose(filepath.Join(h.dir, prefix[:2], o.Name()), false)
			if err != nil {
				return nil, err
			}
			types = append(types, kind)
		}
	}
	packs, err := os.ReadDir(filepath.Join(h.dir, "pack"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range packs {
		file, is := strings.CutSuffix(e.Name(), ".idx")
		if !is {
			continue
		}
		p := pack{path: filepath.Join(h.dir, "pack", file)}
		found, err := p.typesOf(h.in, prefix)
		if err != nil {
			return nil, err
		}
		types = append(types, found...)
	}
	return types, nil
}

// eachName calls f with the names in a folder's object.
func eachName(tree []byte, f func([]byte)) bool {
	for len(tree) > 0 {
		blank := bytes.IndexByte(tree, ' ')
		if blank < 0 {
			return false
		}
		end := bytes.IndexByte(tree[blank:], 0)
		if end < 0 || len(tree) < blank+end+1+idSize {
			return false
		}
		f(tree[blank+1 : blank+end])
		tree = tree[blank+end+1+idSize:]
	}
	return true
}

// inflater reads what is compressed.
type inflater struct {
	from *bufio.Reader
	z    io.ReadCloser
}

func (i *inflater) open(r io.Reader) {
	if i.from == nil {
		i.from = bufio.NewReaderSize(r, 4096)
	} else {
		i.from.Reset(r)
	}
}

// start begins to inflate where the reader stands.
func (i *inflater) start() (io.Reader, error) {
	var err error
	if i.z == nil {
		i.z, err = zlib.NewReader(i.from)
	} else {
		err = i.z.(zlib.Resetter).Reset(i.from, nil)
	}
	return i.z, err
}

// exactly inflates size bytes.
func (i *inflater) exactly(size uint64) ([]byte, error) {
	if size > maxTree {
		return nil, errObject
	}
	r, err := i.start()
	if err != nil {
		return nil, err
	}
	data := make([]byte, size)
	_, err = io.ReadFull(r, data)
	return data, err
}

// loose reads an object that has a file of its own: its type and, of a folder if it is wanted, the content.
func (i *inflater) loose(file string, wanted bool) (kind string, content []byte, err error) {
	f, _, err := open(file)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	i.open(f)
	r, err := i.start()
	if err != nil {
		return "", nil, err
	}
	head := make([]byte, 0, 32)
	for len(head) < cap(head) {
		n, err := r.Read(head[len(head) : len(head)+1])
		if n == 0 && err != nil {
			return "", nil, err
		}
		if head = head[:len(head)+n]; n > 0 && head[len(head)-1] == 0 {
			break
		}
	}
	kind, size, ok := strings.Cut(strings.TrimSuffix(string(head), "\x00"), " ")
	if !ok {
		return "", nil, errObject
	}
	if kind != "tree" || !wanted {
		return kind, nil, nil
	}
	length := 0
	for _, c := range size {
		if length = length*10 + int(c-'0'); c < '0' || c > '9' || length > maxTree {
			return "", nil, errObject
		}
	}
	content = make([]byte, length)
	_, err = io.ReadFull(r, content)
	return kind, content, err
}

// The types of objects in a pack.
const (
	isTree     = 2
	isOffset   = 6
	isByID     = 7
	isNotKnown = 0
)

var typeNames = map[byte]string{1: "commit", isTree: "tree", 3: "blob", 4: "tag"}

// packIndex is how the index of a pack begins, in version 2.
const packIndex = "\377tOc\x00\x00\x00\x02"

// pack is one of many objects, as gitformat-pack(5) describes it.
type pack struct {
	path    string // without ".pack"
	done    bool
	blind   bool
	offsets []uint64 // sorted
	types   []byte   // of each; isNotKnown: it is not read yet
	ids     []byte   // sorted
	places  []uint64 // of each id
	next    int

	file *os.File // while it is read
	in   *inflater
	kept map[uint64][]byte
	size int
}

// read is History.Read for one pack.
func (p *pack) read(in *inflater, until time.Time, name func([]byte)) bool {
	if p.done {
		return true
	}
	if p.offsets == nil && !p.index() {
		p.blind = true
		return false
	}
	f, _, err := open(p.path + ".pack")
	if err != nil {
		return false
	}
	defer f.Close()
	p.file, p.in, p.kept, p.size = f, in, map[uint64][]byte{}, 0
	defer func() { p.file, p.in, p.kept = nil, nil, nil }()
	for ; p.next < len(p.offsets); p.next++ {
		if p.next%16 == 0 && time.Now().After(until) {
			return false
		}
		kind, err := p.typeOf(p.offsets[p.next])
		if err == nil && kind == isTree {
			var tree []byte
			if tree, err = p.content(p.offsets[p.next], 0); err == nil && !eachName(tree, name) {
				err = errObject
			}
		}
		if err != nil {
			p.blind = true
			return false
		}
		p.types[p.next] = kind
	}
	*p = pack{path: p.path, done: true}
	return true
}

// index reads where the objects of the pack are.
func (p *pack) index() bool {
	data, err := bounded(p.path+".idx", maxIndexes)
	if err != nil || len(data) < 8+1024 || string(data[:8]) != packIndex {
		return false
	}
	n := int(binary.BigEndian.Uint32(data[8+1020:]))
	at := 8 + 1024
	if n > maxObjects || len(data) < at+n*(idSize+8) {
		return false
	}
	p.ids = data[at : at+n*idSize]
	small := data[at+n*(idSize+4):]
	large := small[4*n:]
	p.places, p.offsets, p.types = make([]uint64, n), make([]uint64, n), make([]byte, n)
	for i := range n {
		offset := uint64(binary.BigEndian.Uint32(small[4*i:]))
		if offset&(1<<31) != 0 {
			j := 8 * int(offset&^(1<<31))
			if j+8 > len(large) {
				return false
			}
			offset = binary.BigEndian.Uint64(large[j:])
		}
		p.places[i] = offset
	}
	copy(p.offsets, p.places)
	slices.Sort(p.offsets)
	return true
}

// entry reads the head of an object: its type and size, and where the object is that it is made of, if it is made of one. The
// inflater stands at its data then.
func (p *pack) entry(offset uint64) (kind byte, size, base uint64, err error) {
	p.in.open(io.NewSectionReader(p.file, int64(offset), 1<<62)) // #nosec G115 -- an offset beyond the file reads nothing
	c, err := p.in.from.ReadByte()
	if err != nil {
		return 0, 0, 0, err
	}
	kind, size = c>>4&7, uint64(c&15)
	for shift := 4; c&0x80 != 0; shift += 7 {
		if c, err = p.in.from.ReadByte(); err != nil || shift > 56 {
			return 0, 0, 0, errObject
		}
		size |= uint64(c&0x7f) << shift
	}
	switch kind {
	case isOffset:
		var back uint64
		for first := true; first || c&0x80 != 0; first = false {
			if c, err = p.in.from.ReadByte(); err != nil || back > 1<<55 {
				return 0, 0, 0, errObject
			}
			if !first {
				back++
			}
			back = back<<7 | uint64(c&0x7f)
		}
		if back == 0 || back > offset {
			return 0, 0, 0, errObject
		}
		base = offset - back
	case isByID:
		var id [idSize]byte
		if _, err := io.ReadFull(p.in.from, id[:]); err != nil {
			return 0, 0, 0, err
		}
		n, found := p.find(id[:])
		if !found {
			return 0, 0, 0, errObject
		}
		base = p.places[n]
	}
	return kind, size, base, nil
}

// find is the position of an id.
func (p *pack) find(id []byte) (int, bool) {
	low, high := 0, len(p.places)
	for low < high {
		mid := (low + high) / 2
		switch c := bytes.Compare(p.ids[mid*idSize:(mid+1)*idSize], id); {
		case c == 0:
			return mid, true
		case c < 0:
			low = mid + 1
		default:
			high = mid
		}
	}
	return low, false
}

// typeOf is the type of the object at an offset, or of the one that it is made of in the end.
func (p *pack) typeOf(offset uint64) (byte, error) {
	for range maxChain {
		i, found := slices.BinarySearch(p.offsets, offset)
		if found && p.types[i] != isNotKnown {
			return p.types[i], nil
		}
		kind, _, base, err := p.entry(offset)
		if err != nil {
			return 0, err
		}
		if kind != isOffset && kind != isByID {
			if typeNames[kind] == "" {
				return 0, errObject
			}
			return kind, nil
		}
		offset = base
	}
	return 0, errObject
}

// content is the folder's object at an offset. What it is made of is read first, so that little is held at a time.
func (p *pack) content(offset uint64, depth int) ([]byte, error) {
	if have := p.kept[offset]; have != nil {
		return have, nil
	}
	kind, size, base, err := p.entry(offset)
	if err != nil || depth > maxChain {
		return nil, cmp.Or(err, errObject)
	}
	var data []byte
	if kind == isOffset || kind == isByID {
		from, err := p.content(base, depth+1)
		if err != nil {
			return nil, err
		}
		if _, size, _, err = p.entry(offset); err != nil {
			return nil, err
		}
		delta, err := p.in.exactly(size)
		if err != nil {
			return nil, err
		}
		if data, err = patched(from, delta); err != nil {
			return nil, err
		}
	} else if data, err = p.in.exactly(size); err != nil {
		return nil, err
	}
	if p.size += len(data); p.size > maxKept {
		p.kept, p.size = map[uint64][]byte{}, len(data)
	}
	p.kept[offset] = data
	return data, nil
}

// patched applies a delta.
func patched(from, delta []byte) ([]byte, error) {
	length := func() uint64 {
		var n uint64
		for shift := 0; len(delta) > 0 && shift < 63; shift += 7 {
			c := delta[0]
			delta = delta[1:]
			if n |= uint64(c&0x7f) << shift; c&0x80 == 0 {
				return n
			}
		}
		return 1 << 62
	}
	source, size := length(), length()
	if source != uint64(len(from)) || size > maxTree {
		return nil, errObject
	}
	to := make([]byte, 0, size)
	for len(delta) > 0 {
		op := delta[0]
		delta = delta[1:]
		if op&0x80 == 0 {
			n := int(op)
			if n == 0 || n > len(delta) {
				return nil, errObject
			}
			to, delta = append(to, delta[:n]...), delta[n:]
			continue
		}
		var parts [7]byte
		for bit := range parts {
			if op&(1<<bit) == 0 {
				continue
			}
			if len(delta) == 0 {
				return nil, errObject
			}
			parts[bit], delta = delta[0], delta[1:]
		}
		at := int(parts[0]) | int(parts[1])<<8 | int(parts[2])<<16 | int(parts[3])<<24
		n := cmp.Or(int(parts[4])|int(parts[5])<<8|int(parts[6])<<16, 0x10000)
		if at+n > len(from) || uint64(len(to)+n) > size {
			return nil, errObject
		}
		to = append(to, from[at:at+n]...)
	}
	if uint64(len(to)) != size {
		return nil, errObject
	}
	return to, nil
}

// typesOf is History.Types for one pack, of which nothing but that is read.
func (p *pack) typesOf(in *inflater, prefix string) (types []string, err error) {
	low, err := hex.DecodeString((prefix + strings.Repeat("0", 2*idSize))[:2*idSize])
	if err != nil {
		return nil, err
	}
	index, _, err := open(p.path + ".idx")
	if err != nil {
		return nil, err
	}
	defer index.Close()
	var head [8 + 1024]byte
	if _, err := index.ReadAt(head[:], 0); err != nil || string(head[:8]) != packIndex {
		return nil, errObject
	}
	count := func(first int) int64 { // the objects whose first byte is at most that
		if first < 0 {
			return 0
		}
		return int64(binary.BigEndian.Uint32(head[8+4*first:]))
	}
	from, to, all := count(int(low[0])-1), count(int(low[0])), count(255)
	if from > to || to-from > maxObjects {
		return nil, errObject
	}
	ids := make([]byte, (to-from)*idSize)
	if _, err := index.ReadAt(ids, int64(len(head))+from*idSize); err != nil && len(ids) > 0 {
		return nil, err
	}
	for i := int64(0); i < to-from; i++ {
		if !strings.HasPrefix(hex.EncodeToString(ids[i*idSize:(i+1)*idSize]), prefix) {
			continue
		}
		var place [4]byte
		if _, err := index.ReadAt(place[:], int64(len(head))+all*(idSize+4)+4*(from+i)); err != nil || place[0]&0x80 != 0 {
			return nil, errObject
		}
		if p.file == nil {
			if p.file, _, err = open(p.path + ".pack"); err != nil {
				return nil, err
			}
			defer p.file.Close()
			p.in = in
		}
		kind, err := p.typeOf(uint64(binary.BigEndian.Uint32(place[:])))
		if err != nil {
			return nil, err
		}
		types = append(types, typeNames[kind])
	}
	return types, nil
}
