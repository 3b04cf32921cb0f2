package handler

import (
	"crypto/x509"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckClient_RequiresClientCertificate(t *testing.T) {
	own := &x509.Certificate{RawSubjectPublicKeyInfo: []byte("own"), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for name, c := range map[string]struct {
		client *x509.Certificate
		want   string // of the error; empty: none
	}{
		"a client's": {&x509.Certificate{RawSubjectPublicKeyInfo: []byte("other"), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, ""},
		"the sidecar's own, whatever it is for": {&x509.Certificate{
			RawSubjectPublicKeyInfo: []byte("own"), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		}, "own certificate"},
		"another sidecar's":       {&x509.Certificate{RawSubjectPublicKeyInfo: []byte("other"), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, "clientAuth"},
		"one without a key usage": {&x509.Certificate{RawSubjectPublicKeyInfo: []byte("other")}, "clientAuth"},
		"a caller's of supervisors": {&x509.Certificate{
			RawSubjectPublicKeyInfo: []byte("other"), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, URIs: []*url.URL{{Scheme: "acphost", Opaque: "role:viewer"}},
		}, "certs sidecar"},
		"one for anything": {&x509.Certificate{RawSubjectPublicKeyInfo: []byte("other"), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}, "clientAuth"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkClient(c.client, own)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want %q", err, c.want)
			}
		})
	}
}

func TestProbe_ReportsListeningSidecar(t *testing.T) {
	t.Parallel()
	o := parseArgs([]string{"--probe", "--listen", "unix://" + filepath.Join(t.TempDir(), "s")})
	if err := o.tryAddress(); err == nil {
		t.Error("no error without a listener")
	}
	_, path, err := o.address()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.tryAddress(); err != nil {
		t.Errorf("one listens: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
