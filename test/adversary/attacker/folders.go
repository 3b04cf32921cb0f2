//go:build linux

package main

import (
	"errors"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/test/adversary/orders"
)

func init() {
	deeds["bind"] = bind
	deeds["await-folder"] = awaitFolder
	deeds["send-folder"] = sendFolder
	deeds["write-there"] = writeThere
	deeds["run-there"] = runThere
	deeds["move-and-fill"] = moveAndFill
	deeds["lease"] = lease
}

// awaited is where an open folder may come.
var awaited *net.UnixListener

// bind FROM TO mounts a folder at another place, too.
func bind(args []string) ([]orders.Try, error) {
	return []orders.Try{tried("bind", unix.Mount(args[0], args[1], "", unix.MS_BIND, ""))}, nil
}

// awaitFolder SOCKET has a folder come.
func awaitFolder(args []string) (_ []orders.Try, err error) {
	awaited, err = net.ListenUnix("unix", &net.UnixAddr{Name: args[0], Net: "unix"})
	return []orders.Try{tried("listen", err)}, err
}

// sendFolder SOCKET FOLDER hands a folder that is held open over to another process.
func sendFolder(args []string) ([]orders.Try, error) {
	fd, err := unix.Open(args[1], unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: args[0], Net: "unix"})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_, _, err = conn.WriteMsgUnix([]byte("x"), unix.UnixRights(fd), nil)
	return []orders.Try{tried("send", err)}, err
}

// receive is the folder that comes.
func receive() (int, error) {
	conn, err := awaited.AcceptUnix()
	if err != nil {
		return -1, err
	}
	defer conn.Close()
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(make([]byte, 1), rights)
	if err != nil {
		return -1, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) == 0 {
		return -1, errors.Join(err, errors.New("nothing came"))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return -1, err
	}
	return fds[0], nil
}

// writeThere NAME writes a file in the folder that comes.
func writeThere(args []string) ([]orders.Try, error) {
	folder, err := receive()
	if err != nil {
		return nil, err
	}
	defer unix.Close(folder)
	fd, err := unix.Openat(folder, args[0], unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err == nil {
		_ = unix.Close(fd)
	}
	return []orders.Try{tried("write "+args[0], err)}, nil
}

// runThere PROGRAM ARGS... runs a program in the folder that comes.
func runThere(args []string) ([]orders.Try, error) {
	was, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	folder, err := receive()
	if err == nil {
		err = unix.Fchdir(folder)
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(folder)
	tries, err := run(args)
	return tries, errors.Join(err, os.Chdir(was))
}

// moveAndFill FROM TO FILE gives a folder another name, and makes a file in it while that is decided on.
func moveAndFill(args []string) ([]orders.Try, error) {
	moved := make(chan error, 1)
	go func() { moved <- os.Rename(args[0], args[1]) }()
	for {
		select {
		case err := <-moved:
			return []orders.Try{tried("move", err)}, nil
		case <-time.After(10 * time.Millisecond): // the folder has been looked at by then, and there is much in it
			if err := os.WriteFile(args[2], []byte("x"), 0o600); err == nil {
				return []orders.Try{tried("move", <-moved)}, nil
			}
		}
	}
}

// lease FILE has whoever opens a file wait for this process. It is given back at once.
func lease(args []string) ([]orders.Try, error) {
	f, err := os.Open(args[0])
	if err != nil {
		return nil, err
	}
	defer f.Close()
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	return []orders.Try{tried("lease "+args[0], err)}, nil
}
