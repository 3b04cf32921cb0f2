package peer

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// NoPersonTCP returns the reason why the process at the other end of a local TCP connection is not controlled by a
// person: it, or one of its ancestors, is an agent's guard, a handler or a supervisor, which connects for agents too.
// Empty: no evidence was found, or the other end is on another machine. It returns an error if the evidence cannot be
// read; access checks should then reject the connection. local and remote are the ends of the connection, self is the
// process that asks.
//
// The process is found by its open files. Some processes hide these (other users' processes, and processes that cannot
// be dumped). If the connection is not found among the visible files, then no process of the same user that hides its
// files may belong to an agent.
func NoPersonTCP(local, remote netip.AddrPort, self int) (why string, err error) {
	if !onThisMachine(local, remote) {
		return "", nil
	}
	inode, uid, err := socketOf(remote, local)
	if err != nil {
		return "", err
	}
	holders, hidden, err := holdersOf(inode, uid)
	if err != nil {
		return "", err
	}
	if len(holders) == 0 {
		holders = hidden
	}
	for _, pid := range holders {
		why, err := Descent(pid, self)
		if err != nil && isGone(pid) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("determine the parents of process %d: %w", pid, err)
		}
		if why != "" {
			return fmt.Sprintf("process %d has the connection, or may have it: %s", pid, why), nil
		}
	}
	return "", nil
}

// onThisMachine reports whether a connection comes from this machine.
func onThisMachine(local, remote netip.AddrPort) bool {
	from := remote.Addr().Unmap()
	if from.IsLoopback() || from == local.Addr().Unmap() {
		return true
	}
	addresses, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(addresses, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr().Unmap() == from.WithZone("")
	})
}

// socketOf returns the inode of the TCP socket with the given ends, and the user who opened it.
func socketOf(own, other netip.AddrPort) (inode string, uid int, err error) {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		inode, uid, err := socketIn(table, own, other)
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return inode, uid, err
		}
	}
	return "", 0, fmt.Errorf("no process of this machine has the connection from %s any more, or it lives in another network namespace", own)
}

// socketIn searches one table of the kernel. The error is os.ErrNotExist if the socket is not in it.
func socketIn(table string, own, other netip.AddrPort) (inode string, uid int, err error) {
	f, err := os.Open(table)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || kernelAddress(fields[1]) != plain(own) || kernelAddress(fields[2]) != plain(other) || fields[9] == "0" {
			continue
		}
		uid, err := strconv.Atoi(fields[7])
		return fields[9], uid, err
	}
	return "", 0, os.ErrNotExist
}

func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// kernelAddress parses an address of /proc/net/tcp: words of 32 bits in the machine's byte order, which is
// little-endian on all systems that acphost supports. The result is zero if the address is invalid.
func kernelAddress(text string) netip.AddrPort {
	address, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(address)
	number, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}
	}
	for i := 0; i < len(raw); i += 4 {
		slices.Reverse(raw[i : i+4])
	}
	a, _ := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(a.Unmap(), uint16(number))
}

// holdersOf returns the processes that have a socket open, and the processes of a user that hide their open files.
func holdersOf(inode string, uid int) (holders, hidden []int, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, nil, err
	}
	link := "socket:[" + inode + "]"
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		has, err := hasOpen(pid, link)
		switch {
		case has:
			holders = append(holders, pid)
		case err != nil && !errors.Is(err, os.ErrNotExist) && isOf(pid, uid):
			hidden = append(hidden, pid)
		}
	}
	return holders, hidden, nil
}

// hasOpen reports whether a process has an open file whose link in /proc is link.
func hasOpen(pid int, link string) (bool, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	files, err := os.ReadDir(dir)
	for _, f := range files {
		if at, err := os.Readlink(dir + "/" + f.Name()); err == nil && at == link {
			return true, nil
		}
	}
	return false, err
}

// isOf reports whether a process may belong to a user: one of its user ids is the user's, or they cannot be read.
func isOf(pid, uid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return !isGone(pid)
	}
	for line := range strings.Lines(string(status)) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
			return slices.Contains(strings.Fields(ids), strconv.Itoa(uid))
		}
	}
	return true
}

func isGone(pid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	return errors.Is(err, os.ErrNotExist)
}
