package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/certs"
)

// authority creates an authority in its own folder.
func authority(t testing.TB, o certs.Options) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "keys")
	if err := certs.Init(dir, o); err != nil {
		t.Fatal(err)
	}
	return dir
}

// shake performs a handshake between a client with these keys and a server with those, and returns the result of each.
// The server's result counts: under TLS 1.3 a client receives a rejection only when it reads.
func shake(t testing.TB, server, client *tls.Config) (*x509.Certificate, error) {
	t.Helper()
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		conn := tls.Client(there, client)
		if err := conn.HandshakeContext(t.Context()); err == nil {
			_, _ = conn.Read(make([]byte, 1)) // until the server hangs up
		}
		_ = there.Close()
	})
	defer here.Close()
	conn := tls.Server(here, server)
	if err := conn.HandshakeContext(t.Context()); err != nil {
		return nil, err
	}
	return conn.ConnectionState().PeerCertificates[0], nil
}

func serverConfig(t testing.TB, f certs.Files) *tls.Config {
	t.Helper()
	s, err := certs.NewServer(f, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s.Config()
}

func clientConfig(t testing.TB, dir, host string) *tls.Config {
	t.Helper()
	c, err := certs.ClientFiles(dir).Client(host)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCertificates_HaveRoles(t *testing.T) {
	dir := authority(t, certs.Options{Hosts: []string{"acp.example.org", "192.0.2.7", "[2001:db8::1]"}})
	server := serverConfig(t, certs.ServerFiles(filepath.Join(dir, certs.ServerDir)))
	for name, want := range map[string]certs.Role{"viewer": certs.Viewer, "approver": certs.Approver, "operator": certs.Operator} {
		for _, host := range []string{"localhost", "127.0.0.1", "::1", "acp.example.org", "192.0.2.7", "2001:db8::1"} {
			cert, err := shake(t, server, clientConfig(t, filepath.Join(dir, name), host))
			if err != nil {
				t.Fatalf("%s to %s: %v", name, host, err)
			}
			if role, err := certs.RoleOf(cert); role != want || err != nil || cert.Subject.CommonName != name {
				t.Errorf("%s has the role %v and the name %q: %v", name, role, cert.Subject.CommonName, err)
			}
		}
	}
	if _, err := shake(t, server, clientConfig(t, filepath.Join(dir, "viewer"), "elsewhere.example.org")); err == nil {
		t.Error("a server of another name is taken for the right one")
	}
}

func TestRole_GatewayIsSeparate(t *testing.T) {
	all := []certs.Role{certs.NoRole, certs.Viewer, certs.Approver, certs.Operator, certs.Gateway}
	may := map[certs.Role]string{certs.NoRole: "none", certs.Viewer: "none viewer", certs.Approver: "none viewer approver", certs.Operator: "none viewer approver operator gateway", certs.Gateway: "none gateway"}
	for _, r := range all {
		var got []string
		for _, need := range all {
			if r.May(need) {
				got = append(got, need.String())
			}
		}
		if strings.Join(got, " ") != may[r] {
			t.Errorf("%v may what takes %q, want %q", r, got, may[r])
		}
	}
	dir := authority(t, certs.Options{Clients: []certs.Client{{Name: "edge", Role: certs.Gateway}}})
	cert, err := shake(t, serverConfig(t, certs.ServerFiles(filepath.Join(dir, certs.ServerDir))), clientConfig(t, filepath.Join(dir, "edge"), "localhost"))
	if err != nil {
		t.Fatal(err)
	}
	if role, err := certs.RoleOf(cert); role != certs.Gateway || err != nil {
		t.Errorf("the certificate contains %v (%v)", role, err)
	}
}

func TestServer_RefusesUnknownCertificates(t *testing.T) {
	dir, other := authority(t, certs.Options{}), authority(t, certs.Options{})
	server := serverConfig(t, certs.ServerFiles(filepath.Join(dir, certs.ServerDir)))
	good := clientConfig(t, filepath.Join(dir, "operator"), "localhost")
	with := func(change func(*tls.Config)) *tls.Config {
		c := good.Clone()
		change(c)
		return c
	}
	pair := func(f certs.Files) []tls.Certificate {
		p, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{p}
	}
	if _, err := shake(t, server, good); err != nil {
		t.Fatal(err)
	}
	for name, client := range map[string]*tls.Config{
		"without a certificate": with(func(c *tls.Config) { c.Certificates = nil }),
		"of another authority":  with(func(c *tls.Config) { c.Certificates = pair(certs.ClientFiles(filepath.Join(other, "operator"))) }),
		"the server's own":      with(func(c *tls.Config) { c.Certificates = pair(certs.ServerFiles(filepath.Join(dir, certs.ServerDir))) }),
		"over TLS 1.2":          with(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 }),
	} {
		if _, err := shake(t, server, client); err == nil {
			t.Errorf("%s: it was accepted", name)
		}
	}
	// A client checks the server's certificate as well.
	if _, err := shake(t, serverConfig(t, certs.ServerFiles(filepath.Join(other, certs.ServerDir))), good); err == nil {
		t.Error("a server of another authority is trusted")
	}
}

func TestAddClient_UsesSameAuthority(t *testing.T) {
	dir := authority(t, certs.Options{Clients: []certs.Client{{Name: "ci", Role: certs.Viewer}}})
	more := certs.Client{Name: "ops@host", Role: certs.Operator}
	if err := certs.AddClient(dir, more, certs.Options{Days: 7}); err != nil {
		t.Fatal(err)
	}
	cert, err := shake(t, serverConfig(t, certs.ServerFiles(filepath.Join(dir, certs.ServerDir))), clientConfig(t, filepath.Join(dir, "ops@host"), "localhost"))
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(cert.NotAfter); left < 6*24*time.Hour || left > 7*24*time.Hour {
		t.Errorf("it is valid for another %v, want 7 days", left)
	}
	if err := certs.AddClient(dir, more, certs.Options{}); err == nil || !strings.Contains(err.Error(), "nothing is overwritten") {
		t.Errorf("the same once more: %v", err)
	}
	if err := certs.AddClient(t.TempDir(), more, certs.Options{}); err == nil || !strings.Contains(err.Error(), "no folder of an authority") {
		t.Errorf("without an authority: %v", err)
	}
}

func TestInit_KeysArePrivate(t *testing.T) {
	dir := authority(t, certs.Options{})
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o644)
		switch {
		case d.IsDir():
			want = 0o700
		case filepath.Ext(path) == ".key":
			want = 0o600
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %04o, want %04o", path, got, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestInit_OverwritesNothing(t *testing.T) {
	parent := t.TempDir()
	full, file, empty := filepath.Join(parent, "full"), filepath.Join(parent, "file"), filepath.Join(parent, "empty")
	if err := errors.Join(os.Mkdir(full, 0o755), os.WriteFile(filepath.Join(full, "x"), []byte("x"), 0o600),
		os.WriteFile(file, []byte("x"), 0o600), os.Mkdir(empty, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{full, file} {
		if err := certs.Init(dir, certs.Options{}); err == nil || !strings.Contains(err.Error(), "nothing is overwritten") {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if err := certs.Init(empty, certs.Options{}); err != nil {
		t.Errorf("an empty folder: %v", err)
	}
	for name, o := range map[string]certs.Options{
		"a host with a port":   {Hosts: []string{"example.org:80"}},
		"two of a name":        {Clients: []certs.Client{{Name: "a", Role: certs.Viewer}, {Name: "A", Role: certs.Operator}}},
		"a name that leads up": {Clients: []certs.Client{{Name: "../a", Role: certs.Viewer}}},
		"the authority's name": {Clients: []certs.Client{{Name: "ca.key", Role: certs.Viewer}}},
		"too long":             {Days: 4000},
	} {
		dir := filepath.Join(parent, "new")
		if err := certs.Init(dir, o); err == nil {
			t.Errorf("%s: it was made", name)
		}
		left, err := os.ReadDir(parent)
		if err != nil || len(left) != 3 {
			t.Errorf("%s: something is left: %v, %v", name, left, err)
		}
	}
}

func TestLoad_ReportsUnusableKeys(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, f *certs.Files)
		want  string
	}{
		"a missing key": {func(_ *testing.T, f *certs.Files) { f.Key += ".gone" }, ".gone; \"acphost certs init DIR\" makes keys"},
		"no authority":  {func(_ *testing.T, f *certs.Files) { f.CA = "" }, "all three files are needed"},
		"an open key":   {func(t *testing.T, f *certs.Files) { chmod(t, f.Key, 0o644) }, "chmod 0600"},
		"another's key": {func(t *testing.T, f *certs.Files) {
			f.Key = certs.ServerFiles(filepath.Join(authority(t, certs.Options{}), certs.ServerDir)).Key
		}, "private key does not match"},
		"a client's": {func(_ *testing.T, f *certs.Files) {
			*f = certs.ClientFiles(filepath.Join(filepath.Dir(filepath.Dir(f.CA)), "viewer"))
		}, "not a certificate for servers"},
		"an empty authority": {func(t *testing.T, f *certs.Files) { overwrite(t, f.CA, nil) }, "no certificate in PEM"},
		"a folder":           {func(t *testing.T, f *certs.Files) { f.Cert = t.TempDir() }, "not a regular file"},
		"an expired one": {func(t *testing.T, f *certs.Files) {
			*f = certs.ServerFiles(filepath.Join(authority(t, certs.Options{Now: time.Now().AddDate(0, 0, -8), Days: 7}), certs.ServerDir))
		}, "expired on"},
		"one of the future": {func(t *testing.T, f *certs.Files) {
			*f = certs.ServerFiles(filepath.Join(authority(t, certs.Options{Now: time.Now().AddDate(0, 0, 8)}), certs.ServerDir))
		}, "not valid before"},
	} {
		t.Run(name, func(t *testing.T) {
			f := certs.ServerFiles(filepath.Join(authority(t, certs.Options{}), certs.ServerDir))
			c.spoil(t, &f)
			if _, err := certs.NewServer(f, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestRole_RejectsSeveralRoles(t *testing.T) {
	uris := func(list ...string) *x509.Certificate {
		c := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		for _, text := range list {
			u, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			c.URIs = append(c.URIs, u)
		}
		return c
	}
	for name, c := range map[string]struct {
		cert *x509.Certificate
		want certs.Role
	}{
		"one":                    {uris("acphost:role:approver"), certs.Approver},
		"one among others":       {uris("spiffe://x/y", "acphost:role:viewer"), certs.Viewer},
		"none":                   {uris(), certs.NoRole},
		"two":                    {uris("acphost:role:viewer", "acphost:role:operator"), certs.NoRole},
		"an invalid one":         {uris("acphost:role:none"), certs.NoRole},
		"an unheard one":         {uris("acphost:role:root"), certs.NoRole},
		"with a query":           {uris("acphost:role:operator?x"), certs.NoRole},
		"with an empty query":    {uris("acphost:role:operator?"), certs.NoRole},
		"with a fragment":        {uris("acphost:role:operator#x"), certs.NoRole},
		"a server's":             {&x509.Certificate{URIs: uris("acphost:role:operator").URIs, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, certs.NoRole},
		"for an unspecified use": {&x509.Certificate{URIs: uris("acphost:role:operator").URIs}, certs.NoRole},
		"for anything":           {&x509.Certificate{URIs: uris("acphost:role:operator").URIs, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}, certs.NoRole},
		"in another's words":     {uris("other:role:operator"), certs.NoRole},
	} {
		if role, err := certs.RoleOf(c.cert); role != c.want || (err == nil) != (c.want != certs.NoRole) {
			t.Errorf("%s: %v, %v, want %v", name, role, err, c.want)
		}
	}
}

func TestReload_AppliesFromNextHandshake(t *testing.T) {
	first, second := authority(t, certs.Options{}), authority(t, certs.Options{})
	dir := filepath.Join(t.TempDir(), "live")
	swap := func(from string) { // as a volume of secrets is swapped: by a link
		if err := errors.Join(os.Symlink(from, dir+".new"), os.Rename(dir+".new", dir)); err != nil {
			t.Fatal(err)
		}
	}
	swap(first)
	var logged strings.Builder
	s, err := certs.NewServer(certs.ServerFiles(filepath.Join(dir, certs.ServerDir)), slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	old, fresh := clientConfig(t, filepath.Join(first, "viewer"), "localhost"), clientConfig(t, filepath.Join(second, "viewer"), "localhost")
	greet := func(what string, client *tls.Config, want bool) {
		t.Helper()
		if _, err := shake(t, s.Config(), client); (err == nil) != want {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	greet("at first, the old one", old, true)
	greet("at first, the new one", fresh, false)
	swap(second)
	greet("then, the new one", fresh, true)
	greet("then, the old one", old, false)

	broken := authority(t, certs.Options{})
	overwrite(t, certs.ServerFiles(filepath.Join(broken, certs.ServerDir)).Cert, []byte("broken"))
	swap(broken)
	greet("with broken files, the new one", fresh, true)
	greet("with broken files, once more", fresh, true)
	if n := strings.Count(logged.String(), "cannot be used"); n != 1 {
		t.Errorf("it was reported %d times, want once: %s", n, logged.String())
	}
	swap(first)
	greet("at the end, the old one", old, true)
}

func TestReload_UnderLoad(t *testing.T) {
	dir := authority(t, certs.Options{})
	s, err := certs.NewServer(certs.ServerFiles(filepath.Join(dir, certs.ServerDir)), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	client := clientConfig(t, filepath.Join(dir, "viewer"), "localhost")
	stop := make(chan struct{})
	var changes sync.WaitGroup
	changes.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			when := time.Now().Add(time.Duration(i) * time.Second)
			if err := os.Chtimes(certs.ServerFiles(filepath.Join(dir, certs.ServerDir)).Cert, when, when); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 25 {
				if _, err := shake(t, s.Config(), client); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	close(stop)
	changes.Wait()
}

func TestParseClient_ReadsNameAndRole(t *testing.T) {
	for text, want := range map[string]certs.Client{
		"ci:viewer":        {Name: "ci", Role: certs.Viewer},
		"a.b-c_d:approver": {Name: "a.b-c_d", Role: certs.Approver},
	} {
		if got, err := certs.ParseClient(text); got != want || err != nil {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "ci", "ci:", ":viewer", "ci:none", "ci:root", ".x:viewer", "a/b:viewer", "a b:viewer", "x:viewer:y"} {
		if got, err := certs.ParseClient(text); err == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
}

func TestAddClient_EndsWithAuthority(t *testing.T) {
	dir := authority(t, certs.Options{Now: time.Now().AddDate(0, 0, -3000)})
	if err := certs.AddClient(dir, certs.Client{Name: "late", Role: certs.Viewer}, certs.Options{Days: 3650}); err != nil {
		t.Fatal(err)
	}
	if leaf, ca := parse(t, filepath.Join(dir, "late", certs.ClientFile)), parse(t, filepath.Join(dir, certs.CAFile)); leaf.NotAfter.After(ca.NotAfter) {
		t.Errorf("it is valid until %v, its authority until %v", leaf.NotAfter, ca.NotAfter)
	}
}

func parse(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func chmod(t *testing.T, name string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

func overwrite(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestGateway_CertificateHasCallerRole(t *testing.T) {
	dir := authority(t, certs.Options{})
	rights := func(name string) (certs.Role, certs.Role) {
		t.Helper()
		cert, err := shake(t, serverConfig(t, certs.ServerFiles(filepath.Join(dir, certs.ServerDir))), clientConfig(t, filepath.Join(dir, name), "localhost"))
		if err != nil {
			t.Fatal(err)
		}
		role, limit, err := certs.RightsOf(cert)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return role, limit
	}
	for _, limit := range []certs.Role{certs.NoRole, certs.Viewer, certs.Approver, certs.Operator} {
		name := "edge-" + limit.String()
		if err := certs.AddClient(dir, certs.Client{Name: name, Role: certs.Gateway, ActsAs: limit}, certs.Options{}); err != nil {
			t.Fatal(err)
		}
		if role, got := rights(name); role != certs.Gateway || got != limit {
			t.Errorf("%s: %v, %v", name, role, got)
		}
	}
	if _, err := certs.Renew(dir, certs.Options{}); err != nil {
		t.Fatal(err)
	}
	if role, got := rights("edge-approver"); role != certs.Gateway || got != certs.Approver {
		t.Errorf("renewed: %v, %v", role, got)
	}
	if role, got := rights("operator"); role != certs.Operator || got != certs.NoRole {
		t.Errorf("an operator: %v, %v", role, got)
	}
	for _, c := range []certs.Client{
		{Name: "a", Role: certs.Viewer, ActsAs: certs.Viewer}, {Name: "b", Role: certs.Operator, ActsAs: certs.Viewer}, {Name: "c", Role: certs.Metrics, ActsAs: certs.Viewer},
		{Name: "d", Role: certs.Gateway, ActsAs: certs.Gateway}, {Name: "e", Role: certs.Gateway, ActsAs: certs.Metrics},
	} {
		if err := certs.AddClient(dir, c, certs.Options{}); err == nil {
			t.Errorf("a certificate was made for %+v", c)
		}
	}
	uri := func(text string) *url.URL {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for name, uris := range map[string][]string{
		"a viewer that calls for others": {"acphost:role:viewer", "acphost:acts-as:operator"},
		"repeated":                       {"acphost:role:gateway", "acphost:acts-as:viewer", "acphost:acts-as:operator"},
		"for a gateway":                  {"acphost:role:gateway", "acphost:acts-as:gateway"},
		"for an unknown role":            {"acphost:role:gateway", "acphost:acts-as:root"},
		"without a role":                 {"acphost:acts-as:viewer"},
	} {
		cert := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		for _, u := range uris {
			cert.URIs = append(cert.URIs, uri(u))
		}
		if role, limit, err := certs.RightsOf(cert); err == nil || role != certs.NoRole || limit != certs.NoRole {
			t.Errorf("%s: %v, %v, %v", name, role, limit, err)
		}
	}
}
