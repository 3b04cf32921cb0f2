// Package listeners finds the TCP sockets of this machine that listen, and the processes that have them open.
//
// It is not a part of package proc, because guards import proc and must not initialise packages for addresses.
package listeners

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/acphost/acphost/internal/proc"
)

// Exist reports whether a socket listens on a TCP port of this machine, at any address, in the network namespace of the
// caller.
func Exist(port uint16) (bool, error) {
	listening, err := listenersAt(port)
	return len(listening) > 0, err
}

// Belong reports whether a TCP port of this machine belongs to some process trees: at least one socket listens on the
// port, at any address, and each such socket is open in one of the processes roots or in one of their descendants.
// It reads /proc in the network namespace of the caller. A socket whose process is not readable counts as another's.
func Belong(port uint16, roots ...int) (bool, error) {
	listening, err := listenersAt(port)
	if err != nil || len(listening) == 0 {
		return false, err
	}
	err = eachSocket(roots, func(_ int, inode string) bool {
		delete(listening, inode)
		return len(listening) > 0
	})
	return err == nil && len(listening) == 0, err
}

// Listener is a TCP socket that listens.
type Listener struct {
	Address netip.AddrPort
	// PID is a process that has the socket open.
	PID int
}

// List returns the TCP sockets that listen and that are open in one of the processes roots or in one of their
// descendants, by address. It reads /proc in the network namespace of the caller.
func List(roots ...int) ([]Listener, error) {
	listening := map[string]netip.AddrPort{}
	err := eachListener(func(at netip.AddrPort, inode string) { listening[inode] = at })
	if err != nil || len(listening) == 0 {
		return nil, err
	}
	var found []Listener
	err = eachSocket(roots, func(pid int, inode string) bool {
		if at, ok := listening[inode]; ok {
			found = append(found, Listener{at, pid})
			delete(listening, inode)
		}
		return len(listening) > 0
	})
	slices.SortFunc(found, func(a, b Listener) int { return a.Address.Compare(b.Address) })
	return found, err
}

// eachSocket calls visit with each open socket of the processes roots and of their descendants, until visit returns
// false.
func eachSocket(roots []int, visit func(pid int, inode string) bool) error {
	var pids []int
	for _, root := range roots {
		below, err := proc.Descendants(root)
		if err != nil {
			return err
		}
		pids = append(append(pids, below...), root)
	}
	for _, pid := range pids {
		folder := "/proc/" + strconv.Itoa(pid) + "/fd/"
		files, _ := os.ReadDir(folder)
		for _, file := range files {
			target, _ := os.Readlink(folder + file.Name())
			if inode, ok := strings.CutPrefix(target, "socket:["); ok && !visit(pid, strings.TrimSuffix(inode, "]")) {
				return nil
			}
		}
	}
	return nil
}

// listenersAt returns the inodes of the sockets that listen on a port.
func listenersAt(port uint16) (map[string]bool, error) {
	listening := map[string]bool{}
	err := eachListener(func(at netip.AddrPort, inode string) {
		if at.Port() == port {
			listening[inode] = true
		}
	})
	return listening, err
}

// eachListener calls visit with the address and the inode of each TCP socket that listens.
func eachListener(visit func(at netip.AddrPort, inode string)) error {
	for _, table := range []string{"tcp", "tcp6"} {
		data, err := os.ReadFile("/proc/self/net/" + table)
		if os.IsNotExist(err) && table == "tcp6" {
			continue // a kernel without IPv6
		}
		if err != nil {
			return fmt.Errorf("list the sockets that listen: %w", err)
		}
		const local, state, inode = 1, 3, 9
		for line := range bytes.Lines(data) {
			fields := strings.Fields(string(line))
			if len(fields) <= inode || fields[state] != "0A" {
				continue
			}
			if at, ok := socketAddress(fields[local]); ok {
				visit(at, fields[inode])
			}
		}
	}
	return nil
}

// socketAddress parses an address of a table such as /proc/net/tcp: words of four bytes in the order of the processor,
// and the port.
func socketAddress(text string) (at netip.AddrPort, ok bool) {
	host, port, _ := strings.Cut(text, ":")
	data, err := hex.DecodeString(host)
	n, errPort := strconv.ParseUint(port, 16, 16)
	if err != nil || errPort != nil || len(data)%4 != 0 {
		return at, false
	}
	for word := data; len(word) > 0; word = word[4:] {
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	addr, ok := netip.AddrFromSlice(data)
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), ok
}
