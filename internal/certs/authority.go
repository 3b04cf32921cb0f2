package certs

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/keyfiles"
	"github.com/acphost/acphost/internal/lazyregexp"
)

// Names in the folder of an authority. The server and each client have their own folder below it, which can be copied
// to their machines: they need no other files of the authority.
const (
	ServerDir     = "server"
	CAFile        = keyfiles.CAFile
	CAKeyFile     = "ca.key"
	ServerFile    = "server.crt"
	ServerKeyFile = "server.key"
	ClientFile    = keyfiles.ClientFile
	ClientKeyFile = keyfiles.ClientKeyFile
)

// How long certificates are valid, in days.
const (
	DefaultDays   = 365
	MaxDays       = 3650
	authorityDays = 3650
)

const (
	// backdated is the time before its creation from which on a certificate is valid, for machines whose clocks are
	// slow.
	backdated = time.Hour
	// maxAtOnce limits the clients and the hosts that Init accepts.
	maxAtOnce = 100
)

// Client describes the owner of a certificate.
type Client struct {
	// Name is the common name of the certificate, and the name of its folder.
	Name string
	// Role is the role of the owner.
	Role Role
	// ActsAs is the highest role of the callers that a Gateway may represent. Default: none, and it may not represent
	// callers.
	ActsAs Role
}

// uris returns the URIs in the certificate of a client.
func (c Client) uris() []*url.URL {
	if c.ActsAs == NoRole {
		return []*url.URL{c.Role.uri()}
	}
	return []*url.URL{c.Role.uri(), keyfiles.ActsAsURI(c.ActsAs.String())}
}

// ParseClient parses "NAME:ROLE".
func ParseClient(text string) (Client, error) {
	name, role, _ := strings.Cut(text, ":")
	r, err := ParseRole(role)
	if err != nil {
		return Client{}, fmt.Errorf("expected NAME:ROLE, got %q: %w", text, err)
	}
	c := Client{Name: name, Role: r}
	return c, c.check()
}

// DefaultClients returns one client for each role, with the name of the role.
func DefaultClients() []Client {
	return []Client{{Name: "viewer", Role: Viewer}, {Name: "approver", Role: Approver}, {Name: "operator", Role: Operator}}
}

var clientName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

func (c Client) check() error {
	if err := checkName("client", c.Name); err != nil {
		return err
	}
	if slices.Contains([]string{ServerDir, CAFile, CAKeyFile, ServerFile, ServerKeyFile}, strings.ToLower(c.Name)) {
		return fmt.Errorf("%s is the name of something of the authority's; call the client something else", c.Name)
	}
	return checkActsAs(c.Role, c.ActsAs)
}

// checkName checks the name of the owner of a certificate.
func checkName(what, name string) error {
	if !clientName.MatchString(name) {
		return fmt.Errorf(`a %s's name has 1 to 64 of A-Z, a-z, 0-9, ".", "_", "@" and "-", and begins with a letter or a digit; got %q`, what, name)
	}
	return nil
}

// Options configure the creation of an authority and of certificates.
type Options struct {
	// Hosts are names and addresses of the server, in addition to localhost, 127.0.0.1 and ::1.
	Hosts []string
	// Clients are the clients that get certificates. Default: DefaultClients.
	Clients []Client
	// Days is the lifetime of certificates. The authority's own certificate is valid for ten years. Default:
	// DefaultDays.
	Days int
	// Now is the time of creation. Default: now.
	Now time.Time
}

// Init creates an authority, a certificate for the server and certificates for clients, in a folder that is missing or
// empty. After an error, the folder is not created. Keys have mode 0600, the folder 0700.
func Init(dir string, o Options) error {
	if len(o.Clients) == 0 {
		o.Clients = DefaultClients()
	}
	if err := o.fill(); err != nil {
		return err
	}
	return createFolder(dir, func(dir string) error {
		a, err := newAuthority(pkix.Name{Organization: organization, CommonName: "acphost authority " + newSerial().Text(16)[:8]}, o)
		if err != nil {
			return err
		}
		if err := a.write(dir); err != nil {
			return err
		}
		if err := a.server(filepath.Join(dir, ServerDir), o); err != nil {
			return err
		}
		for _, c := range o.Clients {
			if err := a.client(filepath.Join(dir, c.Name), c, o); err != nil {
				return err
			}
		}
		return nil
	})
}

// AddClient creates the certificate of another client, signed by the authority in a folder. It uses only Days and Now
// of Options.
func AddClient(dir string, c Client, o Options) error {
	if err := errors.Join(c.check(), o.fill()); err != nil {
		return err
	}
	a, err := openAuthority(dir)
	if err != nil {
		return err
	}
	if err := a.checkClients(dir); err != nil {
		return err
	}
	return a.client(filepath.Join(dir, c.Name), c, o)
}

// ClientFiles returns the files of a client in its folder.
func ClientFiles(dir string) Files { return keyfiles.ClientFiles(dir) }

// ServerFiles returns the files of a server in its folder. (Older versions of acphost put them into the folder of the
// authority.)
func ServerFiles(dir string) Files {
	return Files{CA: filepath.Join(dir, CAFile), Cert: filepath.Join(dir, ServerFile), Key: filepath.Join(dir, ServerKeyFile)}
}

// fill sets defaults, and checks the options.
func (o *Options) fill() error {
	o.Days = cmp.Or(o.Days, DefaultDays)
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	switch {
	case o.Days < 1 || o.Days > MaxDays:
		return fmt.Errorf("certificates can be valid for 1 to %d days, not %d", MaxDays, o.Days)
	case len(o.Clients) > maxAtOnce || len(o.Hosts) > maxAtOnce:
		return fmt.Errorf("at most %d clients and %d hosts can be named at once", maxAtOnce, maxAtOnce)
	}
	seen := map[string]bool{}
	for _, c := range o.Clients {
		if err := c.check(); err != nil {
			return err
		}
		// Some file systems ignore case.
		if name := strings.ToLower(c.Name); seen[name] {
			return fmt.Errorf("two clients are called %s", c.Name)
		}
		seen[strings.ToLower(c.Name)] = true
	}
	return nil
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// organization is the organization in the subject of each certificate.
var organization = []string{"acphost"}

func newAuthority(subject pkix.Name, o Options) (*authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          newSerial(),
		Subject:               subject,
		NotBefore:             o.Now.Add(-backdated),
		NotAfter:              o.Now.AddDate(0, 0, authorityDays),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make the authority's certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make the authority's certificate: %w", err)
	}
	return &authority{cert, key}, nil
}

// write writes the files of the authority to its folder.
func (a *authority) write(dir string) error {
	return errors.Join(writeCert(filepath.Join(dir, CAFile), a.cert.Raw), writeKey(filepath.Join(dir, CAKeyFile), a.key))
}

// openAuthority reads an authority from its folder.
func openAuthority(dir string) (*authority, error) {
	certFile, keyFile := filepath.Join(dir, CAFile), filepath.Join(dir, CAKeyFile)
	cert, err := readCert(certFile)
	if err != nil {
		return nil, fmt.Errorf("%s is no folder of an authority: %w; name the folder that \"acphost certs init\" made", dir, err)
	}
	keyPEM, err := keyfiles.ReadPrivate(keyFile)
	if err != nil {
		return nil, fmt.Errorf("the authority's key: %w", err)
	}
	keyBlock, _ := pem.Decode(keyPEM)
	if keyBlock == nil {
		return nil, fmt.Errorf("%s is no PEM file", keyFile)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyFile, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(cert.PublicKey) || !cert.IsCA {
		return nil, fmt.Errorf("%s is not the key of the authority in %s", keyFile, certFile)
	}
	return &authority{cert, key}, nil
}

// readCert reads the first certificate of a PEM file.
func readCert(file string) (*x509.Certificate, error) {
	data, err := keyfiles.Read(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s is no PEM file", file)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return cert, nil
}

// serverTemplate returns the template of a server's certificate.
func serverTemplate(name string, o Options) (*x509.Certificate, error) {
	t := &x509.Certificate{
		Subject:     pkix.Name{Organization: organization, CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	for _, host := range o.Hosts {
		ip := net.ParseIP(strings.Trim(host, "[]"))
		switch {
		case ip != nil && !slices.ContainsFunc(t.IPAddresses, ip.Equal):
			t.IPAddresses = append(t.IPAddresses, ip)
		case ip == nil && !hostName.MatchString(host):
			return nil, fmt.Errorf("expected a host's name or address without a port, got %q", host)
		case ip == nil && !slices.Contains(t.DNSNames, host):
			t.DNSNames = append(t.DNSNames, host)
		}
	}
	return t, nil
}

var hostName = lazyregexp.New(`^(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9])?)*$`)

// server creates the folder of the server.
func (a *authority) server(dir string, o Options) error {
	template, err := serverTemplate("acphost", o)
	if err != nil {
		return err
	}
	return a.folder(dir, ServerFiles, template, o)
}

// client creates the folder of a client.
func (a *authority) client(dir string, c Client, o Options) error {
	return a.folder(dir, ClientFiles, clientTemplate(c.Name, c.uris()...), o)
}

// folder creates a folder with the files of one end of a connection.
func (a *authority) folder(dir string, filesIn func(dir string) Files, template *x509.Certificate, o Options) error {
	return createFolder(dir, func(dir string) error {
		files := filesIn(dir)
		if err := writeCert(files.CA, a.cert.Raw); err != nil {
			return err
		}
		return a.issue(template, o.Now, o.Days, files.Cert, files.Key)
	})
}

// issue creates a key, signs a certificate for it, and writes both. The certificate expires no later than its
// authority.
func (a *authority) issue(template *x509.Certificate, now time.Time, days int, certFile, keyFile string) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	template.SerialNumber = newSerial()
	template.NotBefore, template.NotAfter = now.Add(-backdated), now.AddDate(0, 0, days)
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	if !template.NotAfter.After(now) {
		return fmt.Errorf("the authority's certificate expired on %s; make a new authority", a.cert.NotAfter.Format(time.DateOnly))
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.BasicConstraintsValid = true
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return fmt.Errorf("sign the certificate of %s: %w", template.Subject.CommonName, err)
	}
	return errors.Join(writeCert(certFile, der), writeKey(keyFile, key))
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

// newSerial returns a random serial number of 127 bits. Its first bit is set, so that its length is constant.
func newSerial() *big.Int {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails
	raw[0] = raw[0]&0x3f | 0x40
	return new(big.Int).SetBytes(raw[:])
}

// createFolder calls fill for a new folder, and creates the folder only if fill succeeds. A folder that is not empty is
// not changed.
func createFolder(dir string, fill func(dir string) error) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	switch info, err := os.Lstat(dir); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is there already and is no folder; nothing is overwritten", dir)
	default:
		if os.Remove(dir) != nil { // an empty folder is replaced by one with mode 0700
			return fmt.Errorf("%s is there already and is not empty; nothing is overwritten", dir)
		}
	}
	made, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-*") // 0700
	if err != nil {
		return err
	}
	if err = fill(made); err == nil {
		err = os.Rename(made, dir)
	}
	if err != nil {
		_ = os.RemoveAll(made)
		return fmt.Errorf("make %s: %w", dir, err)
	}
	return nil
}

func writeCert(name string, der []byte) error {
	return writeNew(name, 0o644, &pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func writeKey(name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return writeNew(name, 0o600, &pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func writeNew(name string, mode fs.FileMode, block *pem.Block) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	return errors.Join(pem.Encode(f, block), f.Sync(), f.Close())
}
