package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// The floor is the minimum for a host whose parts use gRPC over mutual TLS: a process reads a line of the agent, calls
// a server for the file, or first a server that decides and then one for the file, and writes the answer. It checks
// nothing, knows no sessions, and parses no other message.

// floor compares routed reads with those of a bare chain of gRPC, and with a client that opens the file itself.
func (b *bench) floor() error {
	silent, err := b.configured("floor", readingRules(), "  audit: {disabled: true}\n", "agent")
	if err != nil {
		return err
	}
	chain := func(servers int) []string {
		return b.bare(append([]string{"chain", strconv.Itoa(servers)}, b.bare("agent")...)...)
	}
	own := &trial{name: "coder/acp-go-sdk, in process", argv: b.bare(append([]string{"reencode"}, b.bare("agent")...)...)}
	one := &trial{name: "bare chain: a process and a file server", argv: chain(1)}
	two := &trial{name: "bare chain: a process, a decision server and a file server", argv: chain(2)}
	free := &trial{name: "acphost + fsd", argv: b.supervised("agent")}
	gated := &trial{name: "acphost + permd with 50 rules + fsd", argv: silent}
	for _, size := range []int{4 << 10, 64 << 10} {
		path := filepath.Join(b.dir, fmt.Sprintf("floor-%d", size))
		if err := os.WriteFile(path, []byte(strings.Repeat("0123456789abcde\n", size/16)), 0o600); err != nil {
			return err
		}
		times := map[*trial][]time.Duration{}
		trials := []*trial{own, one, free, two, gated}
		if err := b.interleave(trials, func(t *trial) error {
			_, err := t.front.prompt("read 1 " + path)
			return err
		}, func(t *trial) error {
			d, err := t.front.prompt("read 200 " + path)
			times[t] = append(times[t], d...)
			return err
		}); err != nil {
			return err
		}
		fmt.Printf("\n| fs/read_text_file of %d KiB, round trip | median | relative to in process | relative to its chain |\n|---|---|---|---|\n", size>>10)
		least := map[*trial]*trial{free: one, gated: two}
		for _, t := range trials {
			m, toChain := median(times[t]), ""
			if c := least[t]; c != nil {
				toChain = fmt.Sprintf("%.2f×", float64(m)/float64(median(times[c])))
			}
			fmt.Printf("| %s | %v | %.2f× | %s |\n", t.name, m, float64(m)/float64(median(times[own])), toChain)
		}
	}
	return nil
}

// chain runs an agent, and answers its reads by the given number of servers: the last one has the file, one before it
// decides.
func chain(args []string) error {
	servers, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(1) // as acphost and its handlers do while there is little work
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "acphost-floor-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := writeIdentity(dir); err != nil {
		return err
	}
	trust, err := mutual(dir)
	if err != nil {
		return err
	}
	var conns []*grpc.ClientConn
	for i := range servers {
		socket := filepath.Join(dir, fmt.Sprintf("server-%d.sock", i))
		cmd := exec.Command(self, "role", "serve", socket, dir)
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe() // it ends when this does
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		defer func() { _ = in.Close(); _ = cmd.Wait() }()
		conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(credentials.NewTLS(trust)), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		conns = append(conns, conn)
	}
	return standIn(args[1:], func(agentIn io.WriteCloser, agentOut io.Reader) error {
		return passOrCall(conns, agentIn, agentOut)
	})
}

// passOrCall hands on the agent's lines, and answers those that read a file.
func passOrCall(conns []*grpc.ClientConn, agentIn io.WriteCloser, agentOut io.Reader) error {
	var writing sync.Mutex
	answer := func(p []byte) error {
		writing.Lock()
		defer writing.Unlock()
		_, err := agentIn.Write(p)
		return err
	}
	go func() {
		front := bufio.NewReaderSize(os.Stdin, 1<<20)
		for {
			line, err := front.ReadBytes('\n')
			if err != nil || answer(line) != nil {
				_ = agentIn.Close()
				return
			}
		}
	}()
	files := fsv1.NewFileSystemServiceClient(conns[len(conns)-1])
	in := bufio.NewReaderSize(agentOut, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !bytes.Contains(line[:min(len(line), 80)], []byte(`"fs/read_text_file"`)) {
			if _, err := os.Stdout.Write(line); err != nil {
				return err
			}
			continue
		}
		var msg struct {
			ID     json.RawMessage
			Params struct {
				SessionID string
				Path      string
			}
		}
		if err := json.Unmarshal(line, &msg); err != nil {
			return err
		}
		ctx := context.Background()
		if len(conns) > 1 {
			action := &permissionv1.Action{Kind: "fs.read", SessionId: msg.Params.SessionID, Paths: []*permissionv1.PathAccess{{Path: msg.Params.Path}}}
			if _, err := permissionv1.NewPermissionServiceClient(conns[0]).Decide(ctx, &permissionv1.DecideRequest{Action: action}); err != nil {
				return err
			}
		}
		res, err := files.ReadTextFile(ctx, &fsv1.ReadTextFileRequest{SessionId: msg.Params.SessionID, Path: msg.Params.Path})
		if err != nil {
			return err
		}
		content, err := json.Marshal(res.GetContent())
		if err != nil {
			return err
		}
		if err := answer(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"content":%s}}`+"\n", msg.ID, content)); err != nil {
			return err
		}
	}
}

// serve is the server of a chain: it opens files, and allows everything.
func serve(args []string) error {
	trust, err := mutual(args[1])
	if err != nil {
		return err
	}
	lis, err := net.Listen("unix", args[0])
	if err != nil {
		return err
	}
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(trust)))
	fsv1.RegisterFileSystemServiceServer(s, plainFiles{})
	permissionv1.RegisterPermissionServiceServer(s, yes{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		s.Stop()
	}()
	return s.Serve(lis)
}

type plainFiles struct {
	fsv1.UnimplementedFileSystemServiceServer
}

func (plainFiles) ReadTextFile(_ context.Context, r *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
	b, err := os.ReadFile(r.GetPath())
	return &fsv1.ReadTextFileResponse{Content: string(b)}, err
}

type yes struct {
	permissionv1.UnimplementedPermissionServiceServer
}

func (yes) Decide(context.Context, *permissionv1.DecideRequest) (*permissionv1.DecideResponse, error) {
	return &permissionv1.DecideResponse{}, nil
}

// writeIdentity makes a key and a certificate that all of a chain share.
func writeIdentity(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"chain"}, NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	both := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})...)
	return os.WriteFile(filepath.Join(dir, "identity.pem"), both, 0o600)
}

// mutual is TLS between those that share the identity in dir.
func mutual(dir string) (*tls.Config, error) {
	data, err := os.ReadFile(filepath.Join(dir, "identity.pem"))
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(data, data)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(pair.Leaf)
	return &tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool, ServerName: "chain",
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	}, nil
}
