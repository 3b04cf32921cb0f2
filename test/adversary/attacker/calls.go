//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/acphost/acphost/internal/testkit"
	_ "github.com/acphost/acphost/proto/acphost/fs/v1" // the messages that are called with
	_ "github.com/acphost/acphost/proto/acphost/permission/v1"
	_ "github.com/acphost/acphost/proto/acphost/plugin/v1"
	_ "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	_ "github.com/acphost/acphost/proto/acphost/terminal/v1"

	"github.com/acphost/acphost/test/adversary/orders"
)

func init() {
	deeds["doors"] = doors
	deeds["call"] = call
	deeds["call-tls"] = callTLS
}

// answerTimeout is how long an attacker waits for an answer on an idle machine.
const answerTimeout = 10 * time.Second

// doors PID tries every abstract socket that anybody listens on. A Try's What is the address; it worked where we are
// connected with the process PID. Those of others are hung up on at once, and left out.
func doors(args []string) ([]orders.Try, error) {
	names, err := abstractSockets()
	if err != nil {
		return nil, err
	}
	tries := []orders.Try{tried("list abstract sockets", nil)}
	for _, name := range names {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: name})
		cred, credErr := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		_ = unix.Close(fd)
		switch {
		case err == nil && credErr == nil && int(cred.Pid) == number(args[0]), errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
			tries = append(tries, tried("unix:"+name, err))
		}
	}
	return tries, nil
}

// abstractSockets are the names of those that are listened on, "@" first.
func abstractSockets() ([]string, error) {
	data, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	const acceptsConnections = 1 << 16 // __SO_ACCEPTCON
	var names []string
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line) // Num RefCount Protocol Flags Type St Inode Path
		if len(f) < 8 || !strings.HasPrefix(f[7], "@") {
			continue
		}
		if flags, err := strconv.ParseUint(f[3], 16, 64); err == nil && flags&acceptsConnections != 0 {
			names = append(names, f[7])
		}
	}
	return names, nil
}

// call ADDRESS (METHOD JSON)... calls methods, "acphost.supervisor.v1.AgentService/StopAgent", without TLS. The address is
// unix:PATH, unix:@NAME, or HOST:PORT; with held: before it, the connection stays and is used again the next time.
func call(args []string) ([]orders.Try, error) {
	return callAll(args[0], insecure.NewCredentials(), args[1:])
}

// callTLS CA DIR ADDRESS (METHOD JSON)... calls with the keys client.crt and client.key of DIR; "": with none. What of the
// files cannot be read is the end of it.
func callTLS(args []string) ([]orders.Try, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: x509.NewCertPool()}
	authority, err := os.ReadFile(args[0])
	if err != nil {
		return []orders.Try{got("read "+args[0], "", err)}, nil
	}
	config.RootCAs.AppendCertsFromPEM(authority)
	if args[1] != "" {
		pair, err := tls.LoadX509KeyPair(args[1]+"/client.crt", args[1]+"/client.key")
		if err != nil {
			return []orders.Try{got("read the keys in "+args[1], "", err)}, nil
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return callAll(args[2], credentials.NewTLS(config), args[3:])
}

func callAll(address string, with credentials.TransportCredentials, calls []string) ([]orders.Try, error) {
	conn, err := dial(address, with)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(address, "held:") {
		defer conn.Close()
	}
	var tries []orders.Try
	for i := 0; i+1 < len(calls); i += 2 {
		t, err := callOne(conn, calls[i], calls[i+1])
		if err != nil {
			return nil, err
		}
		tries = append(tries, t)
	}
	return tries, nil
}

// held are connections by their addresses.
var held = map[string]*grpc.ClientConn{}

func dial(address string, with credentials.TransportCredentials) (*grpc.ClientConn, error) {
	if conn := held[address]; conn != nil {
		return conn, nil
	}
	target, hold := strings.CutPrefix(address, "held:")
	options := []grpc.DialOption{grpc.WithTransportCredentials(with)}
	if path, ok := strings.CutPrefix(target, "unix:"); ok {
		target = "passthrough:///localhost"
		options = append(options, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}))
	}
	conn, err := grpc.NewClient(target, options...)
	if err == nil && hold {
		held[address] = conn
	}
	return conn, err
}

func callOne(conn *grpc.ClientConn, method, text string) (orders.Try, error) {
	service, name, _ := strings.Cut(method, "/")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + name))
	if err != nil {
		return orders.Try{}, err
	}
	m := found.(protoreflect.MethodDescriptor)
	req, err := newMessage(m.Input())
	if err != nil {
		return orders.Try{}, err
	}
	if err := protojson.Unmarshal([]byte(text), req); err != nil {
		return orders.Try{}, fmt.Errorf("%s: %w", method, err)
	}
	resp, err := newMessage(m.Output())
	if err != nil {
		return orders.Try{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Scale(answerTimeout))
	defer cancel()
	if m.IsStreamingServer() {
		var stream grpc.ClientStream
		stream, err = conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/"+method)
		if err == nil {
			if err = stream.SendMsg(req); err == nil {
				if err = stream.CloseSend(); err == nil {
					err = stream.RecvMsg(resp)
				}
			}
		}
	} else {
		err = conn.Invoke(ctx, "/"+method, req, resp)
	}
	t := got(name, "", err)
	if err == nil {
		t.Got = protojson.MarshalOptions{}.Format(resp)
	}
	return t, nil
}

func newMessage(d protoreflect.MessageDescriptor) (proto.Message, error) {
	t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		return nil, err
	}
	return t.New().Interface(), nil
}
