// Package decisions connects a sandbox to the supervisor that started it, to decide on the operations of the sandbox's processes: one
// socket, one frame for each message, many concurrent questions.
//
// The sandbox asks (Dial), the supervisor answers (Serve). If the supervisor is gone or does not answer in time, the sandbox rejects
// the operation. The package limits what each side accepts from the other. It must not know policies.
package decisions

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/sandbox"
)

// Limits of a frame.
const (
	// maxFrame is the maximum size of a message in bytes.
	maxFrame = sandbox.MaxContent + 2<<20
	// maxStrings limits the bytes of a program's arguments and environment in a question; more is cut.
	maxStrings = 1 << 20
	// maxWords limits the bytes of a reason.
	maxWords = 480
)

// errFrame says that a message exceeds maxFrame.
var errFrame = errors.New("a message of the sandbox's is too long")

// write writes a message. It is not safe for concurrent use.
func write(w io.Writer, m proto.Message) error {
	b, err := frame(m)
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

// frame encodes a message with its length.
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

// firstFrame returns the first message in b and its length with its header; 0: the message is incomplete.
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
