package proc

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Listens reports whether a socket listens on a TCP port of this machine, at any address, in the network namespace of
// the caller.
func Listens(port uint16) (bool, error) {
	listening, err := listenersAt(port)
	return len(listening) > 0, err
}

// ListensAlone reports whether a TCP port of this machine belongs to some process trees: at least one socket listens on the port, at
// any address, and each such socket is open in one of the processes roots or in one of their descendants. It reads /proc in the network
// namespace of the caller. A socket whose process is not readable counts as another's.
func ListensAlone(port uint16, roots ...int) (bool, error) {
	listening, err := listenersAt(port)
	if err != nil {
		return false, err
	}
	if len(listening) == 0 {
		return false, nil
	}
	var pids []int
	for _, root := range roots {
		below, err := Descendants(root)
		if err != nil {
			return false, err
		}
		pids = append(append(pids, below...), root)
	}
	for _, of := range pids {
		folder := "/proc/" + strconv.Itoa(of) + "/fd/"
		files, _ := os.ReadDir(folder)
		for _, file := range files {
			target, _ := os.Readlink(folder + file.Name())
			if inode, ok := strings.CutPrefix(target, "socket:["); ok {
				delete(listening, strings.TrimSuffix(inode, "]"))
			}
		}
		if len(listening) == 0 {
			return true, nil
		}
	}
	return false, nil
}

// listenersAt returns the inodes of the sockets that listen on a port.
func listenersAt(port uint16) (map[string]bool, error) {
	listening := map[string]bool{}
	for _, table := range []string{"tcp", "tcp6"} {
		data, err := os.ReadFile("/proc/self/net/" + table)
		if os.IsNotExist(err) && table == "tcp6" {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("list the sockets that listen: %w", err)
		}
		listeners(data, port, listening)
	}
	return listening, nil
}

// listeners adds the inodes of the sockets that listen on a port, from a table such as /proc/net/tcp.
func listeners(table []byte, port uint16, inodes map[string]bool) {
	const local, state, inode = 1, 3, 9
	suffix := fmt.Sprintf(":%04X", port)
	lines := bufio.NewScanner(bytes.NewReader(table))
	for lines.Scan() {
		fields := slices.Collect(strings.FieldsSeq(lines.Text()))
		if len(fields) > inode && fields[state] == "0A" && strings.HasSuffix(fields[local], suffix) {
			inodes[fields[inode]] = true
		}
	}
}
