package command

import (
	"strings"
	"testing"
)

func TestCertificateRefusal_NamesReason(t *testing.T) {
	const ours = `connection error: desc = "transport: authentication handshake failed: tls: failed to verify certificate: x509: `
	for text, want := range map[string][2]string{
		ours + `certificate signed by unknown authority"`:                                {"of the other end is not accepted: certificate signed by unknown authority;", "--tls-dir"},
		ours + `certificate has expired or is not yet valid: current time 2026"`:         {"not accepted: certificate has expired", "acphost certs renew"},
		ours + `certificate is valid for localhost, not build"`:                          {"valid for localhost, not build;", "--host NAME"},
		ours + `cannot validate certificate for 127.0.0.1 because of no IP SANs"`:        {"because", "not accepted"},
		`error reading server preface: remote error: tls: unknown certificate authority`: {"refuses our certificate: unknown certificate authority;", "acphost certs client"},
		`error reading server preface: remote error: tls: expired certificate`:           {"refuses our certificate: expired certificate;", "acphost certs renew"},
		`error reading server preface: remote error: tls: certificate required`:          {"refuses our certificate: certificate required;", "--tls-dir"},
	} {
		got, refused := CertificateRefusal(text)
		if !refused || !strings.Contains(got, want[0]) || !strings.Contains(got, want[1]) {
			t.Errorf("%s: %q, %v; want %q", text, got, refused, want)
		}
	}
	for _, text := range []string{"connection refused", "remote error: tls: handshake failure"} {
		if got, refused := CertificateRefusal(text); refused {
			t.Errorf("%s: %q, want no refusal of a certificate", text, got)
		}
	}
}
