// Package decisions carries the decisions about what a sandbox's processes do between the sandbox and the supervisor that has
// started it: one socket, one frame for each message, many questions at once.
//
// The sandbox asks (Dial), the supervisor answers (Serve). If the other side is gone, or takes too long, the sandbox refuses.
// The package bounds what either side takes from the other. It knows no policies.
package decisions

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"
)

// Bounds on a frame.
const (
	// maxFrame is the longest message in bytes.
	maxFrame = 2 << 20
	// maxStrings is how many bytes of arguments and environment are told of a program; more is cut.
	maxStrings = 1 << 20
	// maxWords is how many bytes of a reason are passed on.
	maxWords = 480
)

// errFrame says that a message is longer than one may be.
var errFrame = errors.New("a message of the sandbox's is too long")

// write writes a message. It is for one caller at a time.
func write(w io.Writer, m proto.Message) error {
	b, err := frame(m)
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

// frame is a message as it is written.
func frame(m proto.Message) ([]byte, error) {
	b, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, 4, 256), m)
	if err != nil {
		return nil, fmt.Errorf("encode a message: %w", err)
	}
	if len(b)-4 > maxFrame {
		return nil, errFrame
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b, nil
}

// firstFrame is the first message in what has been read, and how long it is with its head; 0: it is not all there.
func firstFrame(b []byte) (message []byte, n int, err error) {
	if len(b) < 4 {
		return nil, 0, nil
	}
	size := binary.BigEndian.Uint32(b)
	if size > maxFrame {
		return nil, 0, errFrame
	}
	if n = 4 + int(size); len(b) < n {
		return nil, 0, nil
	}
	return b[4:n], n, nil
}

// read reads a message into m.
func read(r io.Reader, m proto.Message) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return errFrame
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(r, frame); err != nil {
		return err
	}
	return proto.Unmarshal(frame, m)
}
