package handler

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"github.com/acphost/acphost/sdk/internal/wire"
)

// asChild makes this test binary a handler.
const asChild = "ACPHOST_TEST_AS_CHILD"

func TestChildTLS_KeyIsOnP256(t *testing.T) {
	_, host, err := wire.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	config, text, err := childTLS(host)
	if err != nil {
		t.Fatal(err)
	}
	der, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	if key, ok := certificate.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		t.Errorf("the key is %T %v", certificate.PublicKey, certificate.PublicKey)
	}
	if !certificate.Equal(config.Certificates[0].Leaf) && string(config.Certificates[0].Certificate[0]) != string(der) {
		t.Error("the handshake names another certificate than is served")
	}
	if config, text, err := childTLS(""); config != nil || text != "" || err != nil {
		t.Errorf("a host without TLS gets %v, %q, %v", config, text, err)
	}
	if _, _, err := childTLS("nonsense"); err == nil || !strings.Contains(err.Error(), "PLUGIN_CLIENT_CERT") {
		t.Errorf("an invalid certificate: %v", err)
	}
}

func TestChildTLS_AddsCertificateToHandshakeLine(t *testing.T) {
	for line, want := range map[string]string{
		"1|1|unix|/x|grpc|":      "1|1|unix|/x|grpc|CERT\n",
		"1|1|unix|/x|grpc||true": "1|1|unix|/x|grpc|CERT|true\n", // a host that multiplexes
		"1|1|unix|/x|grpc|OWN":   "1|1|unix|/x|grpc|OWN\n",
		"a line that is none":    "a line that is none\n",
	} {
		read, stdout := io.Pipe()
		w, err := addCertificate("CERT", stdout)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			t.Fatal(err)
		}
		got, err := bufio.NewReader(read).ReadString('\n')
		if err != nil || got != want {
			t.Errorf("%q becomes %q (%v), want %q", line, got, err, want)
		}
		_ = w.Close()
	}
}

// TestChildTLS_AcceptsHostOfGoPlugin uses go-plugin's client, so that every host that uses go-plugin can call a child.
func TestChildTLS_AcceptsHostOfGoPlugin(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), asChild+"=1")
	stdin, life, err := os.Pipe() // a handler ends when its stdin does
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	defer life.Close()
	defer func(own *os.File) { os.Stdin = own }(os.Stdin)
	os.Stdin = stdin // which go-plugin gives to children
	host := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: wire.Handshake(), Plugins: plugin.PluginSet{"test": caller{}}, Cmd: cmd, AutoMTLS: true,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, Logger: hclog.NewNullLogger(),
	})
	defer host.Kill()
	protocol, err := host.Client()
	if err != nil {
		t.Fatal(err)
	}
	client, err := protocol.Dispense("test")
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.(pluginv1.PluginServiceClient).Describe(t.Context(), &pluginv1.DescribeRequest{})
	if err != nil || got.GetName() != "test" {
		t.Errorf("Describe = %v, %v", got, err)
	}
}

// caller is a host's side of a handler.
type caller struct{ plugin.NetRPCUnsupportedPlugin }

func (caller) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error { return nil }

func (caller) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return pluginv1.NewPluginServiceClient(conn), nil
}
