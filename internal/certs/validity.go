package certs

import (
	"fmt"
	"time"
)

// RenewHint is advice for users: how to replace a certificate before or after it expires.
const RenewHint = "where the authority's key (ca.key) is, run \"acphost certs renew DIR\" with the authority's folder, and put the new certificate and key in place of the old ones"

// Validity is the period in which a certificate is valid.
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

// RenewFrom returns the time from which on the certificate should be renewed: when less than 30 days, and less than a
// third of its whole validity, are left. "acphost doctor" warns from then on. It is the value of the metric
// acphost_certificate_renewal_seconds, which the alert uses.
func (v Validity) RenewFrom() time.Time {
	return v.Until.Add(-min(30*24*time.Hour, v.Until.Sub(v.From)/3))
}

// RenewalDue reports whether the time now is after RenewFrom.
func (v Validity) RenewalDue(now time.Time) bool { return now.After(v.RenewFrom()) }

// Remaining describes how much of the validity is left at the time now.
func (v Validity) Remaining(now time.Time) string {
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
