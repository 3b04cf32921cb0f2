package wire

import (
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"
)

// gRPC keeps buffers of 256 bytes, 4, 16, 32 KiB and 1 MiB, and clears a whole buffer before a message is written into
// it: for a file of 33 KiB that is a megabyte. With a buffer size for each power of two, a buffer is at most twice as
// large as its message. A program's own init runs later, and may set another pool.
func init() {
	pool, err := mem.NewBinaryTieredBufferPool(8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22)
	if err != nil {
		panic(err) // only with sizes that are impossible
	}
	experimental.SetDefaultBufferPool(pool)
}
