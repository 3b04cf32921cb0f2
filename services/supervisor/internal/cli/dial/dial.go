// Package dial implements "acphost dial": connects a program to a supervisor's socket that the program cannot use
// itself.
//
// For the supervisor, this process is the caller. So it must not forward calls of a process that the supervisor would
// reject: it checks the program at its other end as a supervisor checks a caller, and accepts only data of this
// program.
package dial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/internal/peer"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/reach"
)

const long = `Connect the program that started this command to a supervisor: the command copies
data between its standard input and output and the supervisor's socket. It is for
languages that cannot connect to the socket or identify its server, such as Node.js;
@acphost/client uses it. Use gRPC without TLS over the connection.

The command first prints a line, "connected PID", with the supervisor's process id.
Wait for this line before you write. --fd names one open file instead of standard
input and output.

Standard input and output must be unix sockets that the program has created
(socketpair), one for both or one for each, and only this program may write to them.
For the supervisor, this command is the caller. Therefore it refuses agents,
handlers and processes that they have started.`

// New returns the command "dial".
func New(call *command.Call) *cobra.Command {
	var which reach.Flags
	var fd int
	cmd := &cobra.Command{
		Use:   "dial",
		Short: "Connect a program to a supervisor",
		Long:  long,
		Args:  command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := which.Check(cmd); err != nil {
				return err
			}
			if fd == 0 {
				return dial(cmd.Context(), call, &which, call.Stdin, call.Stdout)
			}
			if fd < 3 {
				return command.UsageErrorf(cmd, "--fd: expected 3 or more, got %d", fd)
			}
			one := os.NewFile(uintptr(fd), "file "+strconv.Itoa(fd))
			defer one.Close()
			return dial(cmd.Context(), call, &which, one, one)
		},
	}
	cmd.Flags().IntVar(&fd, "fd", 0, "the open file `NUMBER` in place of standard input and output")
	which.RegisterLocal(cmd)
	return cmd
}

func dial(ctx context.Context, call *command.Call, f *reach.Flags, in, out *os.File) error {
	// The connection has the user's rights, so no other process of the user may access it.
	if err := proc.Undumpable(); err != nil && !errors.Is(err, proc.ErrUnsupported) {
		return err
	}
	c, err := callerOn(in, out)
	if err != nil {
		return err
	}
	defer c.Close()
	target, err := find(ctx, call, f)
	if err != nil {
		return err
	}
	conn, err := target.Connect(ctx)
	if err != nil {
		return fmt.Errorf("connect to supervisor %d: %w", target.PID, reach.CallErrorLine(err))
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(c.out, "connected %d\n", target.PID); err != nil {
		return err
	}
	return c.join(ctx, conn)
}

// find returns the one supervisor that the flags select.
func find(ctx context.Context, call *command.Call, f *reach.Flags) (client.Supervisor, error) {
	if f.Socket != "" {
		s := client.Supervisor{Socket: f.Socket}.Named(ctx)
		if s.Err != nil {
			return s, fmt.Errorf("no supervisor answers at %s: %w", f.Socket, reach.CallErrorLine(s.Err))
		}
		s.PID = int(s.Status.GetPid())
		return s, nil
	}
	return reach.One(ctx, call, f)
}

// caller is the program whose calls this process forwards.
type caller struct {
	in      net.Conn
	out     net.Conn
	process peer.Process // nil if the system does not identify it
}

// callerOn returns the caller at the other end of standard input and output.
func callerOn(stdin, stdout *os.File) (*caller, error) {
	in, by, err := socket("input", stdin)
	if err != nil {
		return nil, err
	}
	out, of, err := socket("output", stdout)
	of.Close()
	if err != nil {
		in.Close()
		by.Close()
		return nil, err
	}
	c := &caller{in: in, out: out, process: by.Process}
	if of.PID != by.PID {
		err = fmt.Errorf("standard input belongs to process %d, and standard output to process %d: both must belong to the program that connects", by.PID, of.PID)
	} else {
		err = checkCaller(by)
	}
	if err == nil {
		err = peer.ReportSenders(in)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	c.in, c.process = peer.BySender(in, by)
	return c, nil
}

// socket returns a standard file as a unix socket, and the process that created it.
func socket(name string, file *os.File) (*net.UnixConn, peer.Peer, error) {
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, peer.Peer{}, fmt.Errorf("standard %s is not a unix socket: make one with socketpair, as Node.js does for its child processes: %w", name, err)
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		_ = conn.Close()
		return nil, peer.Peer{}, fmt.Errorf("standard %s is a %s socket, not a unix socket", name, conn.LocalAddr().Network())
	}
	p, err := peer.Of(unix)
	if err != nil {
		p.Close()
		_ = unix.Close()
		return nil, peer.Peer{}, fmt.Errorf("ask who is at the other end of standard %s: %w", name, err)
	}
	return unix, p, nil
}

// checkCaller returns an error for a caller that a supervisor would reject.
func checkCaller(c peer.Peer) error {
	if c.UID != os.Geteuid() && c.UID != 0 {
		return fmt.Errorf("user %d may not connect through a command of user %d", c.UID, os.Geteuid())
	}
	why, err := peer.Descent(c.PID, os.Getpid())
	if errors.Is(err, proc.ErrUnsupported) {
		return nil // on this system, supervisors accept no calls over a socket that change something
	}
	if err == nil && why == "" {
		var has, own int
		if has, own, err = peer.Filters(c.PID, os.Getpid()); has > own {
			why = fmt.Sprintf("process %d has %d seccomp filters and this command has %d", c.PID, has, own)
		}
	}
	if err == nil && c.Process == nil {
		err = errors.New("its process cannot be seen from here")
	}
	if err == nil {
		err = c.Process.Alive()
	}
	switch {
	case err != nil:
		return fmt.Errorf("cannot determine whether an agent connects: %w", err)
	case why != "":
		return fmt.Errorf("agents, handlers and what they start may not connect: %s", why)
	}
	return nil
}

// join copies between the caller and a supervisor until one of them closes the connection, or ctx ends.
func (c *caller) join(ctx context.Context, supervisor net.Conn) error {
	stop := context.AfterFunc(ctx, func() { c.Close(); supervisor.Close() })
	defer stop()
	result := make(chan error, 1)
	go func() {
		result <- c.copyFromCaller(supervisor)
		supervisor.Close() // ends the other direction
	}()
	_, err := io.Copy(c.out, supervisor)
	c.in.Close()
	if refused := <-result; refused != nil {
		return refused
	}
	// one of them has closed the connection, perhaps with unread data
	for _, hungUp := range []error{net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, hungUp) {
			return nil
		}
	}
	return err
}

// copyFromCaller copies the data of the caller, and rejects data of other processes.
func (c *caller) copyFromCaller(to io.Writer) error {
	buffer := make([]byte, 64<<10)
	for {
		n, err := c.in.Read(buffer)
		if n > 0 && c.process != nil {
			if gone := c.process.Alive(); gone != nil {
				return fmt.Errorf("the connection is closed: %w", gone)
			}
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return nil //nolint:nilerr // the supervisor has hung up: it is not this command that fails
			}
		}
		if err != nil {
			return nil //nolint:nilerr // the caller has hung up
		}
	}
}

// Close closes the caller's sockets.
func (c *caller) Close() {
	c.in.Close()
	c.out.Close()
	if c.process != nil {
		c.process.Close()
	}
}
