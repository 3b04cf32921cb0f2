//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/adversary/orders"
)

func init() {
	deeds["run"] = run
	deeds["write"] = write
	deeds["exec"] = execute
	deeds["link"] = link
	deeds["symlink"] = symlink
	deeds["remove"] = remove
	deeds["mkdir"] = mkdir
	deeds["rename"] = rename
	deeds["exchange"] = exchange
	deeds["fifo"] = fifo
	deeds["read"] = read
	deeds["flood"] = flood
}

// run PROGRAM ARGS... runs a program. It worked if the program ended well; what it said is brought.
func run(args []string) ([]orders.Try, error) {
	cmd := exec.Command(args[0], args[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if cmd.ProcessState == nil && !errors.Is(err, os.ErrPermission) {
		return nil, err
	}
	what := filepath.Base(args[0])
	for _, arg := range args[1:] {
		what += " " + arg
	}
	return []orders.Try{got(what, out.String(), err)}, nil
}

// execute PROGRAM puts a program in place of this process. There is an answer only if that fails.
func execute(args []string) ([]orders.Try, error) {
	return []orders.Try{tried("exec "+filepath.Base(args[0]), unix.Exec(args[0], args, os.Environ()))}, nil
}

// write FILE TEXT writes a file.
func write(args []string) ([]orders.Try, error) {
	return []orders.Try{tried("write "+filepath.Base(args[0]), os.WriteFile(args[0], []byte(args[1]), 0o600))}, nil
}

// read FILE reads a file.
func read(args []string) ([]orders.Try, error) {
	text, err := os.ReadFile(args[0])
	return []orders.Try{got("read "+filepath.Base(args[0]), string(text), err)}, nil
}

// link OLD NEW makes a second name of a file.
func link(args []string) ([]orders.Try, error) {
	return []orders.Try{tried("link", os.Link(args[0], args[1]))}, nil
}

// symlink TARGET PATH makes a symbolic link.
func symlink(args []string) ([]orders.Try, error) {
	return []orders.Try{tried("symlink "+filepath.Base(args[1]), os.Symlink(args[0], args[1]))}, nil
}

// remove PATH removes a file or an empty folder.
func remove(args []string) ([]orders.Try, error) {
	return []orders.Try{tried("remove "+filepath.Base(args[0]), os.Remove(args[0]))}, nil
}

// mkdir PATH makes a folder, and those above it.
func mkdir(args []string) ([]orders.Try, error) {
	return []orders.Try{tried("mkdir "+filepath.Base(args[0]), os.MkdirAll(args[0], 0o700))}, nil
}

// rename OLD NEW gives a file or a folder another name.
func rename(args []string) ([]orders.Try, error) {
	return []orders.Try{tried("rename "+filepath.Base(args[0]), os.Rename(args[0], args[1]))}, nil
}

// exchange ONE OTHER has two files or folders swap their names.
func exchange(args []string) ([]orders.Try, error) {
	return []orders.Try{tried("exchange "+filepath.Base(args[0]), unix.Renameat2(unix.AT_FDCWD, args[0], unix.AT_FDCWD, args[1], unix.RENAME_EXCHANGE))}, nil
}

// fifo PATH makes one.
func fifo(args []string) ([]orders.Try, error) {
	return []orders.Try{tried("mkfifo", unix.Mkfifo(args[0], 0o600))}, nil
}

// flood ADDRESS N opens up to N connections, says nothing on them, and keeps them. The kernel's queue may be full before.
func flood(args []string) ([]orders.Try, error) {
	n := 0
	var last error
	for range number(args[1]) {
		conn, err := net.DialTimeout("tcp", args[0], testkit.Scale(answerTimeout/20))
		if err != nil {
			last = err
			break
		}
		kept = append(kept, conn)
		n++
	}
	if n == 0 {
		return nil, errors.Join(errors.New("not one connection"), last)
	}
	return []orders.Try{got("flood", fmt.Sprint(n), nil)}, nil
}
