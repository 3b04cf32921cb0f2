package usage

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Times are durations, with their sum, and each with a precision of an eighth. The zero value is empty.
type Times struct {
	n       uint64
	sum     uint64 // microseconds
	buckets map[uint16]uint64
}

// Count returns the number of durations.
func (t *Times) Count() uint64 { return t.n }

// Add adds a duration; a negative one counts as 0.
func (t *Times) Add(d time.Duration) {
	micros := uint64(max(0, d.Microseconds()))
	t.put(bucketOf(micros), 1)
	t.sum += micros
}

func (t *Times) put(bucket uint16, n uint64) {
	if t.buckets == nil {
		t.buckets = map[uint16]uint64{}
	}
	t.buckets[bucket] += n
	t.n += n
}

func (t *Times) merge(o *Times) {
	for bucket, n := range o.buckets {
		t.put(bucket, n)
	}
	t.sum += o.sum
}

// bucketOf returns the bucket of a number: numbers below 16 have a bucket each, and greater ones are grouped by their
// four highest bits.
func bucketOf(n uint64) uint16 {
	if n < 16 {
		return uint16(n)
	}
	shift := bits.Len64(n) - 4
	return uint16(shift*8) + uint16(n>>shift)
}

// middle returns the number in the middle of a bucket.
func middle(bucket uint16) uint64 {
	if bucket < 16 {
		return uint64(bucket)
	}
	shift := (bucket - 8) / 8
	low := uint64(bucket-shift*8) << shift
	return low + 1<<shift/2
}

// lastBucket is the bucket of the greatest number.
var lastBucket = bucketOf(math.MaxUint64)

// quantile returns a number that the fraction q of the durations do not exceed.
func (t *Times) quantile(q float64) uint64 {
	rank := max(1, uint64(math.Ceil(q*float64(t.n))))
	for _, bucket := range slices.Sorted(maps.Keys(t.buckets)) {
		if n := t.buckets[bucket]; n < rank {
			rank -= n
			continue
		}
		return middle(bucket)
	}
	return 0
}

func (t *Times) message() *supervisorv1.Durations {
	if t.n == 0 {
		return nil
	}
	return &supervisorv1.Durations{Count: t.n, SumMicros: t.sum, MedianMicros: t.quantile(0.5), P95Micros: t.quantile(0.95)}
}

// AppendBinary implements encoding.BinaryAppender.
func (t *Times) AppendBinary(b []byte) ([]byte, error) {
	b = binary.AppendUvarint(b, t.sum)
	for _, bucket := range slices.Sorted(maps.Keys(t.buckets)) {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(bucket)), t.buckets[bucket])
	}
	return b, nil
}

var errTimes = errors.New("these are no durations")

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (t *Times) UnmarshalBinary(b []byte) error {
	*t = Times{}
	next := func() (uint64, bool) {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return 0, false
		}
		b = b[n:]
		return v, true
	}
	sum, ok := next()
	if !ok {
		return errTimes
	}
	t.sum = sum
	for len(b) > 0 {
		bucket, ok := next()
		n, more := next()
		if !ok || !more || bucket > uint64(lastBucket) {
			return errTimes
		}
		t.put(uint16(bucket), n)
	}
	return nil
}
