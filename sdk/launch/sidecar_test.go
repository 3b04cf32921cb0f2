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
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial(network, target)
		if err == nil {
			_ = conn.Close()
			return cmd
		}
		if time.Now().After(deadline) {
			t.Fatalf("the sidecar does not listen: %v", err)
		}
	}
}

func me() string { return strconv.Itoa(os.Geteuid()) }

func TestASidecarIsCalledLikeAChild(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	cmd := sidecar(t, 0, "--listen", "unix://"+path, "--allow-uid", me())
	i := start(t, launch.Spec{Name: "test", Address: "unix://" + path})
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
	other := start(t, launch.Spec{Name: "test", Address: "unix:" + path})
	if err := other.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := callEcho(t.Context(), i, "x"); err != nil {
		t.Errorf("after another host's Stop: %v", err)
	}

	_ = cmd.Process.Kill()
	within(t, 5*time.Second, i.Done(), "Done")
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
	sidecarAgain := exec.Command(self()[0], "--listen", "unix://"+path, "--allow-uid", me())
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
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if i, err := launch.Start(t.Context(), launch.Spec{Name: "test", Address: "unix://" + path}); err == nil {
			_ = i.Stop(t.Context())
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("a dead sidecar's socket is not replaced: %v", err)
		}
	}
}

func TestALivingSidecarKeepsItsSocket(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	sidecar(t, 0, "--listen", "unix://"+path, "--allow-uid", me())
	second := exec.Command(self()[0], "--listen", "unix://"+path, "--allow-uid", me())
	second.Env = append(os.Environ(), role+"=handler", noSleep)
	out, err := second.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "served by a living process") {
		t.Errorf("the second ended with %v and said %q", err, out)
	}
	start(t, launch.Spec{Name: "test", Address: "unix://" + path})
}

func TestASidecarRefusesOtherUsers(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	sidecar(t, 0, "--listen", "unix://"+path, "--allow-uid", strconv.Itoa(os.Geteuid()+1))
	i, err := launch.Start(t.Context(), launch.Spec{Name: "test", Address: "unix://" + path, HandshakeTimeout: 5 * time.Second})
	if err == nil {
		_ = i.Stop(t.Context())
		t.Fatal("this user was served, though another one is allowed")
	}
}

func TestAHostRefusesASocketOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("to run a sidecar as another user takes root")
	}
	dir := shortDir(t)
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
	path := filepath.Join(dir, "s")
	cmd := exec.Command(binary, "--listen", "unix://"+path, "--allow-uid", "0")
	cmd.Env = append(os.Environ(), role+"=handler", noSleep)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if conn, err := net.Dial("unix", path); err == nil {
			_ = conn.Close()
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("the sidecar does not listen: %v", err)
		}
	}
	_, err = launch.Start(t.Context(), launch.Spec{Name: "test", Address: "unix://" + path})
	if err == nil || !strings.Contains(err.Error(), "served by user 65534, not by 0") {
		t.Errorf("error = %v", err)
	}
	nobody := uint32(65534)
	start(t, launch.Spec{Name: "test", Address: "unix://" + path, UID: &nobody})
}

func TestMutualTLSOnBothKindsOfSocket(t *testing.T) {
	dir := shortDir(t)
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
				t.Errorf("%s: %s: error %v does not say that TLS failed", address, what, err)
			}
		}
	}
	short := launch.Spec{Name: "test", Address: unix, HandshakeTimeout: time.Second}
	if i, err := launch.Start(t.Context(), short); err == nil {
		_ = i.Stop(t.Context())
		t.Error("a client without TLS was accepted")
	}
}

func TestASidecarsSettingsAreItsOwn(t *testing.T) {
	dir := shortDir(t)
	path := filepath.Join(dir, "s")
	sidecar(t, 0, "--listen", "unix://"+path, "--allow-uid", me())
	i := start(t, launch.Spec{Name: "test", Address: "unix://" + path})
	answer, err := pluginv1.NewPluginServiceClient(i).Configure(t.Context(),
		&pluginv1.ConfigureRequest{Host: &pluginv1.Host{ProtectedPaths: []string{"/secret"}}})
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(answer.GetNotes(), "\n")
	if strings.Contains(notes, "/secret") || !strings.Contains(notes, "does not take protected paths") {
		t.Errorf("notes = %q", notes)
	}
}

func TestASidecarStopsThoughACallHangs(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	sidecar(t, 0, "--listen", "unix://"+path, "--allow-uid", me())
	i := start(t, launch.Spec{Name: "test", Address: "unix://" + path})
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
