package certs

import (
	"fmt"
	"time"
)

// RenewHint says how a certificate is replaced before or after it expires.
const RenewHint = "where the authority's key (ca.key) is, run \"acphost certs renew DIR\" with the authority's folder, and put the new certificate and key in place of the old ones"

// Validity is the time in which a certificate is valid.
type Validity struct {
	From, Until time.Time
}

// ValidityOf reads the validity of the first certificate of a PEM file.
func ValidityOf(file string) (Validity, error) {
	cert, err := readCert(file)
	if err != nil {
		return Validity{}, err
	}
	return Validity{From: cert.NotBefore, Until: cert.NotAfter}, nil
}

// Soon reports whether the certificate has expired at the time now, or has to be renewed soon: fewer than 30 days are left,
// and less than a third of its whole validity.
func (v Validity) Soon(now time.Time) bool {
	return v.Until.Sub(now) < min(30*24*time.Hour, v.Until.Sub(v.From)/3)
}

// Left says in words how much of the validity is left at the time now.
func (v Validity) Left(now time.Time) string {
	on := v.Until.UTC().Format("2006-01-02 15:04 MST")
	switch left := v.Until.Sub(now); {
	case left <= 0:
		return "expired on " + on
	case now.Before(v.From):
		return "not valid before " + v.From.UTC().Format("2006-01-02 15:04 MST")
	case left < 48*time.Hour:
		return fmt.Sprintf("expires in %v, on %s", left.Round(time.Second), on)
	default:
		return fmt.Sprintf("%d days left, until %s", int(left/(24*time.Hour)), on)
	}
}
