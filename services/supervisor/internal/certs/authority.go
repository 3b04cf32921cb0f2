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

// The files of an authority's folder. The server and each client have a folder of their own below it, which can be taken
// to where they are: neither needs what else lies here.
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
	// backdated is how long before its making a certificate begins to be valid, for clocks that are behind.
	backdated = time.Hour
	// maxAtOnce bounds the clients and the hosts of one authority at its making.
	maxAtOnce = 100
)

// Client is somebody who gets a certificate.
type Client struct {
	// Name is the certificate's common name, and that of its folder.
	Name string
	// Role is what its owner may do.
	Role Role
	// ActsAs is the greatest role of those for whom a Gateway may call. Default: none, and it may call for nobody.
	ActsAs Role
}

// uris are what a certificate says of its owner.
func (c Client) uris() []*url.URL {
	if c.ActsAs == NoRole {
		return []*url.URL{c.Role.uri()}
	}
	return []*url.URL{c.Role.uri(), keyfiles.ActsAsURI(c.ActsAs.String())}
}

// ParseClient reads "NAME:ROLE".
func ParseClient(text string) (Client, error) {
	name, role, _ := strings.Cut(text, ":")
	r, err := ParseRole(role)
	if err != nil {
		return Client{}, fmt.Errorf("expected NAME:ROLE, got %q: %w", text, err)
	}
	c := Client{Name: name, Role: r}
	return c, c.check()
}

// DefaultClients are one of each role, by its name.
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

// checkName checks the name of what gets a certificate.
func checkName(what, name string) error {
	if !clientName.MatchString(name) {
		return fmt.Errorf(`a %s's name has 1 to 64 of A-Z, a-z, 0-9, ".", "_", "@" and "-", and begins with a letter or a digit; got %q`, what, name)
	}
	return nil
}

// Options say what an authority makes to begin with.
type Options struct {
	// Hosts are the names and addresses by which clients reach the server, beside localhost, 127.0.0.1 and ::1.
	Hosts []string
	// Clients get certificates. Default: DefaultClients.
	Clients []Client
	// Days is how long certificates are valid; the authority's own is for ten years. Default: DefaultDays.
	Days int
	// Now is the time of making. Default: now.
	Now time.Time
}

// Init makes an authority, a server's certificate and those of clients in a folder that is not there yet, or is empty. It
// is there whole or not at all. Keys have mode 0600, the folder 0700.
func Init(dir string, o Options) error {
	if len(o.Clients) == 0 {
		o.Clients = DefaultClients()
	}
	if err := o.fill(); err != nil {
		return err
	}
	return whole(dir, func(dir string) error {
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

// AddClient has the authority in a folder make a certificate for one more client. Of Options, Days and Now count.
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

// ClientFiles are a client's files in its folder.
func ClientFiles(dir string) Files { return keyfiles.ClientFiles(dir) }

// ServerFiles are a server's files in its folder. (An older acphost put them into the authority's.)
func ServerFiles(dir string) Files {
	return Files{CA: filepath.Join(dir, CAFile), Cert: filepath.Join(dir, ServerFile), Key: filepath.Join(dir, ServerKeyFile)}
}

// fill sets what is not set, and checks the rest.
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
		// Some file systems do not tell capitals from small letters.
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

// organization is the subject's in each certificate.
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

// write puts the authority's own files into its folder.
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

// serverTemplate is what is particular to a server's certificate.
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

// server makes the server's folder.
func (a *authority) server(dir string, o Options) error {
	template, err := serverTemplate("acphost", o)
	if err != nil {
		return err
	}
	return a.folder(dir, ServerFiles, template, o)
}

// client makes a client's folder.
func (a *authority) client(dir string, c Client, o Options) error {
	return a.folder(dir, ClientFiles, clientTemplate(c.Name, c.uris()...), o)
}

// folder makes a folder with the files of one end of a connection.
func (a *authority) folder(dir string, filesIn func(dir string) Files, template *x509.Certificate, o Options) error {
	return whole(dir, func(dir string) error {
		files := filesIn(dir)
		if err := writeCert(files.CA, a.cert.Raw); err != nil {
			return err
		}
		return a.issue(template, o.Now, o.Days, files.Cert, files.Key)
	})
}

// issue makes a key, signs a certificate for it, and writes both. No certificate outlives its authority.
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

// newSerial is a number of 127 bits that no other certificate has. Its first bit is set, so that it has all its bytes.
func newSerial() *big.Int {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails
	raw[0] = raw[0]&0x3f | 0x40
	return new(big.Int).SetBytes(raw[:])
}

// whole fills a folder that is there with all its content or not at all. What is there already stays as it is.
func whole(dir string, fill func(dir string) error) error {
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
		if os.Remove(dir) != nil { // an empty one goes, and comes back with mode 0700
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
