package files

import "bytes"

// slicer extracts a range of lines from a stream of chunks.
type slicer struct {
	skip uint64 // newlines left before the first line
	take uint64 // newlines left before the end, if ends
	ends bool
}

func newSlicer(lines Range) *slicer {
	c := &slicer{}
	if lines.First > 1 {
		c.skip = uint64(lines.First) - 1
	}
	if lines.Limit != nil {
		c.ends, c.take = true, uint64(*lines.Limit)
	}
	return c
}

// next returns the part of the chunk that is in the range, and whether later chunks cannot contain any. It must not be
// called again then.
func (c *slicer) next(chunk []byte) (part []byte, done bool) {
	if c.skip > 0 {
		var passed uint64
		chunk, passed = afterLines(chunk, c.skip)
		c.skip -= passed
		if c.skip > 0 {
			return nil, false
		}
	}
	if !c.ends {
		return chunk, false
	}
	rest, passed := afterLines(chunk, c.take)
	c.take -= passed
	return chunk[:len(chunk)-len(rest)], c.take == 0
}

// afterLines returns the text after the first n newlines. If there are fewer, it returns nothing and their number.
func afterLines(chunk []byte, n uint64) (rest []byte, passed uint64) {
	// Counting is several times as fast as searching for each newline; most chunks of a large file are skipped whole.
	if count := uint64(bytes.Count(chunk, []byte{'\n'})); count < n {
		return chunk[len(chunk):], count
	}
	for passed < n {
		chunk = chunk[bytes.IndexByte(chunk, '\n')+1:]
		passed++
	}
	return chunk, passed
}
