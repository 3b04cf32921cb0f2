package launch_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/acphost/acphost/internal/testkit"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"github.com/acphost/acphost/sdk/launch"
)

// sidecar starts the test handler as a sidecar at address and waits until it listens.
func sidecar(t *testing.T, uid int, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(self()[0], args...)
	cmd.Env = append(os.Environ(), role+"=handler", noSleep)
	cmd.Stderr = os.Stderr
	if uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	var address string
	for n, a := range args {
		if a == "--listen" {
			address = args[n+1]
		}
	}
	network, target := "unix", strings.TrimPrefix(address, "unix://")
	if rest, ok := strings.CutPrefix(address, "tcp://"); ok {
		network, target = "tcp", rest
	}
	listens(t, network, target)
	return cmd
}

// listens waits for a listener at an address.
func listens(t *testing.T, network, address string) {
	t.Helper()
	testkit.Eventually(t, "a sidecar listens at "+address, func() bool {
		conn, err := net.Dial(network, address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

const aSecret = "0123456789abcdef0123456789abcdef"

// secretFile is a file that holds aSecret.
func secretFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(aSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// rawClient calls a sidecar's socket as any process that can connect could.
func rawClient(t *testing.T, path string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestSidecar_IsCalledLikeChild(t *testing.T) {
	path, key := filepath.Join(testkit.ShortDir(t), "s"), secretFile(t)
	cmd := sidecar(t, 0, "--listen", "unix://"+path, "--secret-file", key)
	i := start(t, launch.Spec{Name: "test", Address: "unix://" + path, SecretFile: key})
	if got, err := callEcho(t.Context(), i, "x"); err != nil || got != "x" {
		t.Errorf("Echo = %q, %v", got, err)
	}
	if err := i.Ping(t.Context()); err != nil {
		t.Errorf("Ping: %v", err)
	}
	if !i.Sidecar() || i.PID() != 0 || i.MutualTLS() || i.Digest() != "" {
		t.Errorf("Sidecar %v, PID %d, MutualTLS %v, Digest %q", i.Sidecar(), i.PID(), i.MutualTLS(), i.Digest())
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v; want mode 0600", info, err)
	}
	other := start(t, launch.Spec{Name: "test", Address: "unix:" + path, SecretFile: key})
	if err := other.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := callEcho(t.Context(), i, "x"); err != nil {
		t.Errorf("after another host's Stop: %v", err)
	}

	_ = cmd.Process.Kill()
	within(t, i.Done(), "Done")
	if err := i.Err(); err == nil || !strings.Contains(err.Error(), "is lost") {
		t.Errorf("Err = %v", err)
	}
	if _, err := callEcho(t.Context(), i, "x"); status.Code(err) != codes.Unavailable {
		t.Errorf("a call after Done: %v, want UNAVAILABLE", err)
	}
	_ = cmd.Wait()
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the dead sidecar's socket: %v, want it left behind for this test", err)
	}
	sidecarAgain := exec.Command(self()[0], "--listen", "unix://"+path, "--secret-file", key)
	sidecarAgain.Env = append(os.Environ(), role+"=handler", noSleep)
	if err := sidecarAgain.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = sidecarAgain.Process.Signal(syscall.SIGTERM)
		if err := sidecarAgain.Wait(); err != nil {
			t.Errorf("after SIGTERM: %v, want status 0", err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("the socket stays behind after SIGTERM")
		}
	}()
	testkit.Eventually(t, "a dead sidecar's socket is replaced", func() bool {
		i, err := launch.Start(t.Context(), launch.Spec{Name: "test", Address: "unix://" + path, SecretFile: key})
		if err == nil {
			_ = i.Stop(t.Context())
		}
		return err == nil
	})
}

func TestSidecar_KeepsSocketFromSecondOne(t *testing.T) {
	path, key := filepath.Join(testkit.ShortDir(t), "s"), secretFile(t)
	sidecar(t, 0, "--listen", "unix://"+path, "--secret-file", key)
	second := exec.Command(self()[0], "--listen", "unix://"+path, "--secret-file", key)
	second.Env = append(os.Environ(), role+"=handler", noSleep)
	out, err := second.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "served by a living process") {
		t.Errorf("the second ended with %v and printed %q", err, out)
	}
	start(t, launch.Spec{Name: "test", Address: "unix://" + path, SecretFile: key})
}

func TestSidecar_RejectsOtherUsers(t *testing.T) {
	path, key := filepath.Join(testkit.ShortDir(t), "s"), secretFile(t)
	sidecar(t, 0, "--listen", "unix://"+path, "--secret-file", key, "--allow-uid", strconv.Itoa(os.Geteuid()+1))
	i, err := launch.Start(t.Context(), launch.Spec{Name: "test", Address: "unix://" + path, SecretFile: key, HandshakeTimeout: testkit.Timeout()})
	if err == nil {
		_ = i.Stop(t.Context())
		t.Fatal("this user was served, though another one is allowed")
	}
}

func TestDialSidecar_RejectsSocketOfOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("to run a sidecar as another user takes root")
	}
	dir := testkit.ShortDir(t)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	// The other user must be able to run the test binary.
	binary := filepath.Join(dir, "handler")
	data, err := os.ReadFile(self()[0])
	if err == nil {
		err = os.WriteFile(binary, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	// Each reads its own file; the other user's file must not be readable by others, either.
	key, theirs := secretFile(t), filepath.Join(dir, "theirs")
	if err = os.WriteFile(theirs, []byte(aSecret), 0o600); err == nil {
		err = os.Chown(theirs, 65534, 65534)
	}
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	cmd := exec.Command(binary, "--listen", "unix://"+path, "--secret-file", theirs, "--allow-uid", "0")
	cmd.Env = append(os.Environ(), role+"=handler", noSleep)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}()
	listens(t, "unix", path)
	_, err = launch.Start(t.Context(), launch.Spec{Name: "test", Address: "unix://" + path, SecretFile: key})
	if err == nil || !strings.Contains(err.Error(), "runs as user 65534, and has to run as user 0") {
		t.Errorf("error = %v", err)
	}
	nobody := uint32(65534)
	start(t, launch.Spec{Name: "test", Address: "unix://" + path, SecretFile: key, UID: &nobody})
}

func TestSidecar_MutualTLS(t *testing.T) {
	dir := testkit.ShortDir(t)
	ours, theirs := newAuthority(t, dir, "ours"), newAuthority(t, dir, "theirs")
	server, client := ours.issue(t, "server"), ours.issue(t, "client")
	flags := []string{"--tls-ca", ours.file, "--tls-cert", server.Cert, "--tls-key", server.Key}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tcp := "tcp://" + free.Addr().String()
	_ = free.Close()
	unix := "unix://" + filepath.Join(dir, "s")
	for _, address := range []string{unix, tcp} {
		sidecar(t, 0, append([]string{"--listen", address}, flags...)...)
		i := start(t, launch.Spec{Name: "test", Address: address, TLS: &client})
		if got, err := callEcho(t.Context(), i, "x"); err != nil || got != "x" || !i.MutualTLS() {
			t.Errorf("%s: Echo = %q, %v; MutualTLS %v", address, got, err, i.MutualTLS())
		}
		foreign := theirs.issue(t, "foreign")
		foreign.CA = ours.file
		impostor := client
		impostor.CA = theirs.file
		misnamed := client
		misnamed.ServerName = "elsewhere"
		for what, files := range map[string]*launch.TLSFiles{
			"a certificate of another authority": &foreign,
			"a server of another authority":      &impostor,
			"a server of another name":           &misnamed,
		} {
			if i, err := launch.Start(t.Context(), launch.Spec{Name: "test", Address: address, TLS: files}); err == nil {
				_ = i.Stop(t.Context())
				t.Errorf("%s: %s was accepted", address, what)
			} else if !strings.Contains(err.Error(), "with mutual TLS") {
				t.Errorf("%s: %s: error %v does not state that TLS failed", address, what, err)
			}
		}
	}
	short := launch.Spec{Name: "test", Address: unix, SecretFile: secretFile(t), HandshakeTimeout: time.Second}
	if i, err := launch.Start(t.Context(), short); err == nil {
		_ = i.Stop(t.Context())
		t.Error("a client without TLS was accepted")
	}
}

// TestSidecar_RequiresSecret connects as an agent of the sidecar's own user can, with arbitrary messages.
func TestSidecar_RequiresSecret(t *testing.T) {
	path, key := filepath.Join(testkit.ShortDir(t), "s"), secretFile(t)
	sidecar(t, 0, "--listen", "unix://"+path, "--secret-file", key, "--allow-uid", strconv.Itoa(os.Geteuid()))
	conn := rawClient(t, path)
	for what, headers := range map[string][]string{
		"nothing":                  nil,
		"an empty header":          {"authorization", ""},
		"no token":                 {"authorization", "Bearer "},
		"another secret":           {"authorization", "Bearer " + strings.ToUpper(aSecret)},
		"the beginning":            {"authorization", "Bearer " + aSecret[:31]},
		"more than the secret":     {"authorization", "Bearer " + aSecret + "0"},
		"the secret alone":         {"authorization", aSecret},
		"another scheme":           {"authorization", "Basic " + aSecret},
		"another header":           {"x-secret", "Bearer " + aSecret},
		"two, one of them right":   {"authorization", "Bearer x", "authorization", "Bearer " + aSecret},
		"the digest of the secret": {"authorization", "Bearer a8ae6e6ee929abea3afcfc5258c8ccd6f85273e0d4626d26c7279f3250f77c8e"},
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), headers...)
		calls := map[string]error{
			"a service": conn.Invoke(ctx, "/test.Echo/Echo", wrapperspb.String("x"), &wrapperspb.StringValue{}),
			"a method that there is not": conn.Invoke(ctx, "/test.Echo/Unheard", wrapperspb.String("x"),
				&wrapperspb.StringValue{}),
			"a body that cannot be decoded": conn.Invoke(ctx, "/test.Echo/Echo", nil, nil, grpc.ForceCodec(garbage{})),
		}
		_, calls["health"] = grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		_, calls["Describe"] = pluginv1.NewPluginServiceClient(conn).Describe(ctx, &pluginv1.DescribeRequest{})
		_, calls["Configure"] = pluginv1.NewPluginServiceClient(conn).Configure(ctx, &pluginv1.ConfigureRequest{})
		if stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx); err != nil {
			calls["reflection"] = err
		} else {
			_, calls["reflection"] = stream.Recv()
		}
		for call, err := range calls {
			if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "--secret-file") {
				t.Errorf("%s with %s: %v, want UNAUTHENTICATED and why", call, what, err)
			}
		}
	}
	with := metadata.AppendToOutgoingContext(t.Context(), "authorization", "bearer "+aSecret)
	if err := conn.Invoke(with, "/test.Echo/Echo", wrapperspb.String("x"), &wrapperspb.StringValue{}); err != nil {
		t.Errorf("with the secret: %v", err)
	}
}

func TestDialSidecar_NamesAddressOnce(t *testing.T) {
	path := filepath.Join(testkit.ShortDir(t), "s")
	_, err := launch.Start(t.Context(), launch.Spec{Name: "test", Address: "unix://" + path, SecretFile: secretFile(t)})
	if err == nil || strings.Count(err.Error(), "dial") != 1 || strings.Count(err.Error(), path) != 1 ||
		!strings.Contains(err.Error(), "no such file or directory (is the sidecar running?)") {
		t.Errorf("error = %v, want dial and the address once, and the reason", err)
	}
}

// garbage is a codec that writes what no message begins with.
type garbage struct{}

func (garbage) Marshal(any) ([]byte, error) { return []byte{0xff}, nil }
func (garbage) Unmarshal([]byte, any) error { return nil }
func (garbage) Name() string                { return "proto" }

func TestSidecar_RejectsOtherSecret(t *testing.T) {
	path := filepath.Join(testkit.ShortDir(t), "s")
	sidecar(t, 0, "--listen", "unix://"+path, "--secret-file", secretFile(t))
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte(strings.Repeat("x", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		spec launch.Spec
		want string
	}{
		"another secret": {launch.Spec{SecretFile: other}, "rejects this secret"},
		"no secret":      {launch.Spec{}, "must know who calls"},
		"a bare user id": {launch.Spec{UID: new(uint32)}, "must know who calls"},
		"no such file":   {launch.Spec{SecretFile: other + "-gone"}, "no such file"},
		"both":           {launch.Spec{SecretFile: other, TLS: &launch.TLSFiles{}}, "choose one"},
	} {
		c.spec.Name, c.spec.Address = "test", "unix://"+path
		i, err := launch.Start(t.Context(), c.spec)
		if err == nil {
			_ = i.Stop(t.Context())
			t.Errorf("%s: it was served", what)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v does not contain %q", what, err, c.want)
		}
	}
}

func TestDialSidecar_RejectsSidecarWithoutSecret(t *testing.T) {
	path := filepath.Join(testkit.ShortDir(t), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var seen atomic.Bool
	server := grpc.NewServer(grpc.InTapHandle(func(ctx context.Context, call *tap.Info) (context.Context, error) {
		if len(call.Header.Get("authorization")) > 0 {
			seen.Store(true)
		}
		return ctx, nil
	}))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() { server.Stop(); <-served }()
	i, err := launch.Start(t.Context(), launch.Spec{Name: "test", Address: "unix://" + path, SecretFile: secretFile(t)})
	if err == nil {
		_ = i.Stop(t.Context())
		t.Fatal("it was used")
	}
	if !strings.Contains(err.Error(), "answers calls without its secret") {
		t.Errorf("error = %v", err)
	}
	if seen.Load() {
		t.Error("it was shown the secret")
	}
}

func TestSidecar_KeepsOwnSettings(t *testing.T) {
	path, key := filepath.Join(testkit.ShortDir(t), "s"), secretFile(t)
	sidecar(t, 0, "--listen", "unix://"+path, "--secret-file", key)
	i := start(t, launch.Spec{Name: "test", Address: "unix://" + path, SecretFile: key})
	answer, err := pluginv1.NewPluginServiceClient(i).Configure(t.Context(),
		&pluginv1.ConfigureRequest{Host: &pluginv1.Host{ProtectedPaths: []string{"/of-the-supervisor"}}})
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(answer.GetNotes(), "\n")
	if strings.Contains(notes, "/of-the-supervisor") || !strings.Contains(notes, "does not take protected paths") {
		t.Errorf("notes = %q", notes)
	}
}

func TestSidecar_StopsDuringHangingCall(t *testing.T) {
	path, key := filepath.Join(testkit.ShortDir(t), "s"), secretFile(t)
	sidecar(t, 0, "--listen", "unix://"+path, "--secret-file", key)
	i := start(t, launch.Spec{Name: "test", Address: "unix://" + path, SecretFile: key})
	hanging := make(chan error, 1)
	go func() {
		_, err := callEcho(context.Background(), i, "hang")
		hanging <- err
	}()
	if err := i.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-hanging; status.Code(err) != codes.Unavailable {
		t.Errorf("the call in flight: %v, want UNAVAILABLE", err)
	}
}

// authority is a certificate authority in files.
type authority struct {
	dir, file string
	cert      *x509.Certificate
	key       *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	a := &authority{dir: dir, file: filepath.Join(dir, name+"-ca.pem")}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

// issue makes a certificate for both sides' use.
func (a *authority) issue(t *testing.T, name string) launch.TLSFiles {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	files := launch.TLSFiles{
		CA: a.file, Cert: filepath.Join(a.dir, name+".pem"), Key: filepath.Join(a.dir, name+"-key.pem"),
	}
	writePEM(t, files.Cert, "CERTIFICATE", der)
	writePEM(t, files.Key, "EC PRIVATE KEY", secret)
	return files
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
