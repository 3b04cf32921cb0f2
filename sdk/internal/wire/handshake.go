package wire

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

// CheckHandshake checks a child's handshake line, "1|1|NETWORK|ADDRESS|grpc|CERTIFICATE", and returns the parts for
// go-plugin: the first five, and with mutualTLS the certificate. go-plugin itself would dereference nil if a
// certificate arrived without TLS.
func CheckHandshake(line string, mutualTLS bool) (string, error) {
	parts := strings.Split(line, "|")
	if len(parts) < 5 {
		return "", NotHandshake(line)
	}
	if _, err := strconv.Atoi(parts[0]); err != nil {
		return "", NotHandshake(line)
	}
	core, version, network, address, protocol := parts[0], parts[1], parts[2], parts[3], parts[4]
	switch {
	case core != "1":
		return "", fmt.Errorf("speaks go-plugin's core protocol %.20q, not 1", core)
	case version != strconv.Itoa(ProtocolVersion):
		return "", fmt.Errorf("speaks plugin protocol version %.20q, not %d", version, ProtocolVersion)
	case protocol != "grpc":
		return "", fmt.Errorf("serves %.20q, not grpc", protocol)
	}
	if err := checkSocket(network, address, mutualTLS); err != nil {
		return "", err
	}
	kept := []string{core, version, network, address, protocol}
	if mutualTLS {
		if len(parts) < 6 || parts[5] == "" {
			return "", errors.New("answers without a certificate: it cannot do mutual TLS (no_tls allows that, " +
				"for a handler that any process of this user may call)")
		}
		der, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(parts[5], "="))
		if err == nil {
			_, err = x509.ParseCertificate(der)
		}
		if err != nil {
			return "", fmt.Errorf("answers with a certificate that cannot be read: %w", err)
		}
		kept = append(kept, base64.RawStdEncoding.EncodeToString(der))
	}
	return strings.Join(kept, "|"), nil
}

func checkSocket(network, address string, mutualTLS bool) error {
	switch network {
	case "unix":
		if !filepath.IsAbs(address) {
			return fmt.Errorf("names the socket %.120q, which is not an absolute path", address)
		}
	case "tcp":
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return fmt.Errorf("names the address %.120q: %w", address, err)
		}
		if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
			return fmt.Errorf("names the address %.120q, which is not on this machine's loopback", address)
		}
		if !mutualTLS {
			return errors.New("listens on TCP without mutual TLS, where any user could call it: let it use a unix socket")
		}
	default:
		return fmt.Errorf("names the network %.20q: neither unix nor tcp", network)
	}
	return nil
}

// NotHandshake returns the error for a line that is not a handshake.
func NotHandshake(line string) error {
	return fmt.Errorf("its first line on stdout is not a handler's handshake (is it a handler?): %.80q", line)
}
