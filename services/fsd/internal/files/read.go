package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
	"unicode/utf8"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/textform"
)

const (
	// readAhead is the number of bytes read between two checks of the context, and the size of the buffer for skipping
	// lines.
	readAhead = 256 << 10
	// readStep is the same for whole reads, where one system call should suffice for nearly every file.
	readStep = 4 << 20
	// readFirst is the first buffer size for a whole read of a file without a size (as in /proc).
	readFirst = 16 << 10
)

// Text is the result of a read.
type Text struct {
	// Content is UTF-8 without NUL; line endings are as in the file.
	Content string
	// Digest is "sha256:" and lower-case hexadecimal of the file's content. It is empty unless Content is complete, and
	// with Bounds.NoDigest.
	Digest string
	// Kept is the form of the content that a write keeps. It is the zero value unless Content is complete, and with
	// Bounds.NoDigest or Config.AsSent.
	Kept textform.Form
	// Path is the resolved path: absolute, without symbolic links.
	Path string
}

// Range selects lines of a file. A line ends after its '\n', which belongs to it, or at the end of the file; so
// successive ranges, concatenated, are the file.
type Range struct {
	// First is the first line, from 1; 0 means 1. Beyond the end: no content.
	First uint32
	// Limit is the maximum number of lines. nil: all.
	Limit *uint32
}

// Read returns a text file, or some lines of it.
//
// It returns at most Config.MaxContent bytes, and uses about that much memory regardless of the size of the file. Only
// the returned part must be text: lines of a file that is binary elsewhere can be read. If the file changes meanwhile,
// Read returns the data as it was read. A file with size 0 is also read to its end (/proc). Read stops when ctx ends.
func (d *Disk) Read(ctx context.Context, b Bounds, path string, lines Range) (Text, error) {
	if err := ctx.Err(); err != nil {
		return Text{}, err
	}
	s := d.state.Load()
	p, err := s.locate(b, path, readAccess)
	if err != nil {
		return Text{}, err
	}
	if !p.exists() {
		return Text{}, errMissing(path)
	}
	if err := checkRegular(path, p.meta); err != nil {
		return Text{}, err
	}
	if p.asDirectory {
		return Text{}, errTrailingSlash(path)
	}
	fd, m, err := s.openFile(p, unix.O_RDONLY)
	if err != nil {
		return Text{}, err
	}
	defer func() { _ = unix.Close(fd) }()

	r := &reader{ctx: ctx, fd: fd, path: path, size: m.size, max: s.maxContent}
	content, whole, err := r.read(lines)
	if err != nil {
		return Text{}, err
	}
	if !isText(content) {
		return Text{}, errNotText(path)
	}
	// No other code keeps or writes the bytes: they become the string without a copy.
	text := Text{Content: unsafe.String(unsafe.SliceData(content), len(content)), Path: p.path} //nolint:gosec // nothing else keeps the bytes
	if whole && !b.NoDigest {
		text.Digest = digestOf(content)
		if !s.asSent {
			text.Kept = textform.Of(text.Content)
		}
	}
	return text, nil
}

func isText(content []byte) bool {
	return bytes.IndexByte(content, 0) < 0 && utf8.Valid(content)
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return digestText(sum[:])
}

func digestText(sum []byte) string { return "sha256:" + hex.EncodeToString(sum) }

// reader reads one open file once, from its start.
type reader struct {
	ctx  context.Context
	fd   int
	path string
	size int64 // when the file was opened
	max  int64
}

// read returns the requested lines, and whether they are the whole file.
func (r *reader) read(lines Range) (content []byte, whole bool, err error) {
	if lines.Limit == nil && lines.First <= 1 {
		content, err = r.whole()
		return content, true, err
	}
	if lines.Limit != nil && *lines.Limit == 0 {
		return nil, false, nil
	}
	return r.some(lines)
}

// whole reads the whole file: one buffer, and for nearly every file one read, which returns the file's size and leaves
// room in the buffer.
func (r *reader) whole() ([]byte, error) {
	if r.size > r.max {
		return nil, fail(TooLarge, "the file has %d bytes, more than the %d that are read at once: read it in parts, with line "+
			"(the first line, from 1) and limit (how many lines): %s", r.size, r.max, r.path)
	}
	size := int64(readFirst)
	if r.size > 0 {
		size = r.size + 1
	}
	buffer := make([]byte, 0, size)
	for {
		if len(buffer) == cap(buffer) {
			grown := make([]byte, len(buffer), min(2*int64(cap(buffer)), r.max+1))
			copy(grown, buffer)
			buffer = grown
		}
		room := buffer[len(buffer):min(cap(buffer), len(buffer)+readStep)]
		n, err := r.next(room)
		if err != nil {
			return nil, err
		}
		buffer = buffer[:len(buffer)+n]
		if n == 0 || n < len(room) && int64(len(buffer)) == r.size {
			return buffer, nil
		}
		if int64(len(buffer)) > r.max {
			return nil, fail(TooLarge, "the file has more than the %d bytes that are read at once: read it in parts, with line "+
				"(the first line, from 1) and limit (how many lines): %s", r.max, r.path)
		}
	}
}

// chunks reuses the buffers of partial reads.
var chunks = sync.Pool{New: func() any { return new([readAhead]byte) }}

// some streams through the file. It uses the memory of one chunk and of the result.
func (r *reader) some(lines Range) (content []byte, whole bool, err error) {
	chunk := chunks.Get().(*[readAhead]byte)
	defer chunks.Put(chunk)
	cut := newSlicer(lines)
	for {
		n, err := r.next(chunk[:])
		if err != nil {
			return nil, false, err
		}
		if n == 0 {
			return content, lines.First <= 1, nil
		}
		piece, done := cut.next(chunk[:n])
		if int64(len(content)+len(piece)) > r.max {
			return nil, false, fail(TooLarge, "the lines asked for, of a file of %d bytes, have more than the %d bytes that are read at once: ask for fewer, with line "+
				"(the first line, from 1) and limit (how many lines): %s", r.size, r.max, r.path)
		}
		if bytes.IndexByte(piece, 0) >= 0 {
			return nil, false, errNotText(r.path)
		}
		content = append(content, piece...)
		if !done {
			continue
		}
		if lines.First > 1 || len(piece) < n {
			return content, false, nil
		}
		// The limit may be exactly the end of the file.
		n, err = r.next(chunk[:1])
		return content, n == 0, err
	}
}

// next reads into the buffer. 0 is the end.
func (r *reader) next(buffer []byte) (n int, err error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if n, err = retried(func() (int, error) { return unix.Read(r.fd, buffer) }); err != nil {
		return 0, errSystem("read", r.path, err)
	}
	return n, nil
}

// digestFile is digestOf for an open file, read from its beginning without moving its offset.
func digestFile(fd int) (string, error) {
	chunk := chunks.Get().(*[readAhead]byte)
	defer chunks.Put(chunk)
	hash := sha256.New()
	for offset := int64(0); ; {
		n, err := pread(fd, chunk[:], offset)
		if err != nil {
			return "", err
		}
		if n == 0 {
			return digestText(hash.Sum(nil)), nil
		}
		hash.Write(chunk[:n])
		offset += int64(n)
	}
}

func pread(fd int, buffer []byte, offset int64) (n int, err error) {
	return retried(func() (int, error) { return unix.Pread(fd, buffer, offset) })
}

func isPermission(err error) bool {
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EROFS)
}
