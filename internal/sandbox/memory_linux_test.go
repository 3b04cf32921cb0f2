//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// twoPages are two pages of this process's memory, before one that is missing.
func twoPages(t *testing.T) (memory []byte, at uint64) {
	t.Helper()
	all, err := unix.MmapPtr(-1, 0, nil, 3*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.MunmapPtr(all, 2*page) })
	if err := unix.MunmapPtr(unsafe.Add(all, 2*page), page); err != nil {
		t.Fatal(err)
	}
	return unsafe.Slice((*byte)(all), 2*page), uint64(uintptr(all))
}

func ownCall() *call { return &call{notification: notification{pid: uint32(os.Getpid())}} }

func TestMemory_ReadsTextAtEndOfMapping(t *testing.T) {
	memory, at := twoPages(t)
	copy(memory[page-2:], "across\x00")
	copy(memory[2*page-5:], "last\x00")
	c := ownCall()
	for address, want := range map[uint64]string{at + page - 2: "across", at + 2*page - 5: "last", at + 2*page - 1: ""} {
		if got, err := c.text(address, unix.PathMax, unix.ENAMETOOLONG); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	memory[2*page-1] = 'x'
	if got, err := ownCall().text(at+2*page-5, unix.PathMax, unix.ENAMETOOLONG); !errors.Is(err, unix.EFAULT) {
		t.Errorf("got %q, %v of a text that goes on in missing memory, want EFAULT", got, err)
	}
	copy(memory, bytes.Repeat([]byte("x"), page))
	memory[9] = 0
	for longest, want := range map[int]error{10: nil, 9: unix.ENAMETOOLONG} {
		if got, err := ownCall().text(at, longest, unix.ENAMETOOLONG); !errors.Is(err, want) || want == nil && got != strings.Repeat("x", 9) {
			t.Errorf("got %q, %v with room for %d bytes, want error %v", got, err, longest, want)
		}
	}
}

func TestMemory_ReadsArrayAcrossPages(t *testing.T) {
	memory, at := twoPages(t)
	copy(memory, "one\x00two\x00")
	for i, p := range []uint64{at, at + 4, 0} { // the second pointer begins in one page and ends in the next
		binary.NativeEndian.PutUint64(memory[page-12+8*i:], p)
	}
	room := 100
	got, err := ownCall().strings(at+page-12, &room)
	if err != nil || !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("got %q, %v", got, err)
	}
	if want := 100 - 2*(3+9); room != want {
		t.Errorf("got room for %d bytes more, want %d", room, want)
	}
}

func TestMemory_ReadsPageOnce(t *testing.T) {
	memory, at := twoPages(t)
	copy(memory, "decided\x00")
	c := ownCall()
	for range 2 {
		if got, err := c.text(at, unix.PathMax, unix.ENAMETOOLONG); err != nil || got != "decided" {
			t.Errorf("got %q, %v, want what was there first", got, err)
		}
		copy(memory, "changed")
	}
}
