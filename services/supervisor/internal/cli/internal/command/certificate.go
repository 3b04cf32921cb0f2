package command

import "strings"

// CertificateRefusal recognizes errors of crypto/tls about a rejected certificate. It describes which end rejected the
// other's certificate, why, and what to do. TLS reports the rejection of our certificate as an alert.
func CertificateRefusal(text string) (message string, refused bool) {
	if _, why, refused := strings.Cut(text, "tls: failed to verify certificate: x509: "); refused {
		why = strings.TrimSuffix(why, `"`) // gRPC quotes the error
		message = "the certificate of the other end is not accepted: " + why
		switch {
		case strings.HasPrefix(why, "certificate has expired"):
			message += `; "acphost certs renew" on its machine makes a new one`
		case strings.Contains(why, "unknown authority"):
			message += "; the certificate of its authority belongs into the ca.crt of --tls-dir, or into the file of --ca"
		case strings.Contains(why, "valid for"), strings.Contains(why, "IP SANs"), strings.Contains(why, "not valid for any names"):
			message += `; use a name that is in the certificate, or make one for this name: "acphost certs init DIR --host NAME"`
		}
		return message, true
	}
	_, alert, refused := strings.Cut(text, "remote error: tls: ")
	if !refused || !strings.Contains(alert, "certificate") {
		return "", false
	}
	alert = strings.TrimSuffix(alert, `"`)
	message = "the other end refuses our certificate: " + alert
	switch {
	case strings.HasPrefix(alert, "expired"):
		message += `; "acphost certs renew" makes a new one`
	case strings.HasPrefix(alert, "certificate required"):
		message += "; name one by --tls-dir, or by --cert and --key"
	default:
		message += `; use one of the authority that it accepts: "acphost certs client" makes one`
	}
	return message, true
}
