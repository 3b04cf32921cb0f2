package certs_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/certs"
)

func TestRenew_KeepsNamesAndRoles(t *testing.T) {
	begun := time.Now().AddDate(0, 0, -6)
	dir := authority(t, certs.Options{Hosts: []string{"acp.example.org"}, Days: 7, Now: begun})
	away := filepath.Join(t.TempDir(), "approver")
	if err := os.Rename(filepath.Join(dir, "approver"), away); err != nil {
		t.Fatal(err)
	}
	server, err := certs.NewServer(certs.ServerFiles(filepath.Join(dir, certs.ServerDir)), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	before, old := parse(t, certs.ServerFiles(filepath.Join(dir, certs.ServerDir)).Cert), clientConfig(t, filepath.Join(dir, "viewer"), "acp.example.org")

	renewed, err := certs.Renew(dir, certs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{certs.ServerFiles(filepath.Join(dir, certs.ServerDir)).Cert, certs.ClientFiles(filepath.Join(dir, "operator")).Cert, certs.ClientFiles(filepath.Join(dir, "viewer")).Cert}
	if !slices.Equal(renewed, want) {
		t.Errorf("renewed are %q, want %q", renewed, want)
	}
	after := parse(t, certs.ServerFiles(filepath.Join(dir, certs.ServerDir)).Cert)
	if after.NotAfter.Sub(before.NotAfter) < 300*24*time.Hour || after.SerialNumber.Cmp(before.SerialNumber) == 0 || !slices.Equal(after.DNSNames, before.DNSNames) {
		t.Errorf("the server's is valid until %v for %q, before until %v for %q", after.NotAfter, after.DNSNames, before.NotAfter, before.DNSNames)
	}
	// Old and new certificates have the same authority, so not all peers have to be updated at once.
	for name, client := range map[string]string{"renewed": filepath.Join(dir, "viewer"), "taken away before": away} {
		if _, err := shake(t, server.Config(), clientConfig(t, client, "acp.example.org")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := shake(t, server.Config(), old); err != nil {
		t.Errorf("the old one: %v", err)
	}
	if cert := parse(t, certs.ClientFiles(filepath.Join(dir, "operator")).Cert); cert.Subject.CommonName != "operator" {
		t.Errorf("the name is %q", cert.Subject.CommonName)
	} else if role, err := certs.RoleOf(cert); role != certs.Operator {
		t.Errorf("the role is %v, %v", role, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	if err != nil || left != nil {
		t.Errorf("left are %q, %v", left, err)
	}
	info, err := os.Stat(certs.ServerFiles(filepath.Join(dir, certs.ServerDir)).Key)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key has mode %v, %v", info.Mode(), err)
	}
}

func TestRenew_SkipsForeignCertificates(t *testing.T) {
	dir, other := authority(t, certs.Options{}), authority(t, certs.Options{})
	foreign := filepath.Join(dir, "viewer")
	if err := errors.Join(os.RemoveAll(foreign), os.Rename(filepath.Join(other, "viewer"), foreign)); err != nil {
		t.Fatal(err)
	}
	before := parse(t, certs.ClientFiles(foreign).Cert)
	if _, err := certs.Renew(dir, certs.Options{}); err == nil || !strings.Contains(err.Error(), "not of this authority") {
		t.Errorf("error is %v", err)
	}
	if after := parse(t, certs.ClientFiles(foreign).Cert); after.SerialNumber.Cmp(before.SerialNumber) != 0 {
		t.Error("another's certificate was replaced")
	}
	if _, err := certs.Renew(t.TempDir(), certs.Options{}); err == nil || !strings.Contains(err.Error(), "no folder of an authority") {
		t.Errorf("without an authority: %v", err)
	}
}

// Keys of services belong to the users of the services. Root renews them, and the services must be able to read the new
// ones.
func TestRenew_KeepsOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to other users: run this as root")
	}
	dir := filepath.Join(t.TempDir(), "fs")
	if err := certs.InitSidecar(dir, "fs", certs.Options{}); err != nil {
		t.Fatal(err)
	}
	files := certs.ServerFiles(filepath.Join(dir, certs.SidecarDir))
	for _, name := range []string{files.Key, files.Cert} {
		if err := os.Chown(name, 2002, 2003); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := certs.Renew(dir, certs.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{files.Key, files.Cert} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if owner := info.Sys().(*syscall.Stat_t); owner.Uid != 2002 || owner.Gid != 2003 {
			t.Errorf("%s belongs to %d:%d, want 2002:2003", name, owner.Uid, owner.Gid)
		}
	}
}
