package git

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
)

// maxIndex is the longest index, in bytes, that is read, and maxLinks how many submodules are told of.
const (
	maxIndex = 256 << 20
	maxLinks = 4096
)

var errIndex = errors.New("cannot be read")

// submodules are the folders of which an index says that each is a repository of its own. No index: none.
func submodules(file string) ([]string, error) {
	links, err := namesIn(file, func(mode uint32) bool { return mode == 0o160000 })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil || len(links) > maxLinks:
		return links, errIndex
	}
	return links, nil
}

// Tracked returns the names of the files that an index has, relative to the top of the repository; none without one. It is an error if there are
// more than most, or if the index cannot be read in full.
func Tracked(file string, most int) ([]string, error) {
	folders := false
	names, err := namesIn(file, func(mode uint32) bool {
		folders = folders || mode == 0o040000 // a sparse index has folders in place of the files in them
		return true
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) || folders || len(names) > most {
		return nil, errIndex
	}
	return names, nil
}

// namesIn are the names in an index of those entries whose type is wanted.
func namesIn(file string, wanted func(mode uint32) bool) ([]string, error) {
	f, info, err := open(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil:
		return nil, errIndex
	}
	defer f.Close()
	if info.Size() > maxIndex {
		return nil, errIndex
	}
	return readIndex(bufio.NewReaderSize(f, 1<<16), info.Size(), wanted)
}

// readIndex reads the format that gitformat-index(5) describes, versions 2 to 4. Object ids of 20 bytes and of 32 are told
// apart by trying both.
func readIndex(r *bufio.Reader, size int64, wanted func(mode uint32) bool) ([]string, error) {
	head := make([]byte, 12)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, errIndex
	}
	version, count, ok := indexHead(head, size)
	if !ok {
		return nil, errIndex
	}
	rest := make([]byte, size-12)
	if _, err := io.ReadFull(r, rest); err != nil {
		return nil, errIndex
	}
	for _, id := range []int{20, 32} {
		if names, end, ok := entries(rest, version, count, id, wanted); ok {
			if shared(rest[end:], id) {
				return names, errIndex
			}
			return names, nil
		}
	}
	return nil, errIndex
}

// indexHead reads the first 12 bytes of an index of size bytes.
func indexHead(head []byte, size int64) (version, count uint32, ok bool) {
	version, count = binary.BigEndian.Uint32(head[4:]), binary.BigEndian.Uint32(head[8:])
	return version, count, string(head[:4]) == "DIRC" && version >= 2 && version <= 4 && int64(count)*62 <= size
}

// entries reads the entries of an index whose object ids have id bytes; not ok if they cannot be such.
func entries(data []byte, version, count uint32, id int, wanted func(mode uint32) bool) (names []string, end int, ok bool) {
	fixed := 40 + id + 2
	name, at := "", 0
	for range count {
		if at+fixed > len(data) {
			return nil, 0, false
		}
		mode := binary.BigEndian.Uint32(data[at+24:])
		start := at + fixed
		flags := binary.BigEndian.Uint16(data[start-2:])
		if flags&0x4000 != 0 {
			if version < 3 {
				return nil, 0, false
			}
			start += 2
		}
		keep := 0
		if version == 4 {
			drop, n := varint(data[min(start, len(data)):])
			if n == 0 || drop > len(name) {
				return nil, 0, false
			}
			start, keep = start+n, len(name)-drop
		}
		length := bytes.IndexByte(data[min(start, len(data)):], 0)
		if length < 0 || !plausible(mode) {
			return nil, 0, false
		}
		name = name[:keep] + string(data[start:start+length])
		const longest = 0xfff // the length of such a name, or of a longer one
		if name == "" || version == 4 && keep > len(name) || int(flags&longest) != min(len(name), longest) {
			return nil, 0, false
		}
		if version == 4 {
			at = start + length + 1
		} else {
			at += (start + length - at + 8) &^ 7
		}
		if wanted(mode & 0o170000) {
			names = append(names, name)
		}
	}
	return names, at, at <= len(data)
}

// plausible reports whether an index entry may have that mode.
func plausible(mode uint32) bool {
	switch mode & 0o170000 {
	case 0o100000, 0o120000, 0o160000, 0o040000:
		return mode>>16 == 0
	}
	return false
}

// varint reads the number in front of a name in version 4, and how many bytes it takes; 0 if there is none.
func varint(data []byte) (value, size int) {
	for i, c := range data {
		if i == 4 {
			return 0, 0
		}
		if i > 0 {
			value++
		}
		value = value<<7 | int(c&0x7f)
		if c&0x80 == 0 {
			return value, i + 1
		}
	}
	return 0, 0
}

// shared reports whether an index has a part of its entries in another file, or its extensions cannot be read.
func shared(data []byte, id int) bool {
	for len(data) > id {
		if len(data) < 8 {
			return true
		}
		size := binary.BigEndian.Uint32(data[4:])
		if string(data[:4]) == "link" || int64(size) > int64(len(data)-8) {
			return true
		}
		data = data[8+size:]
	}
	return false
}
