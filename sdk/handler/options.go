package handler

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"

	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/buildinfo"
	"github.com/acphost/acphost/sdk/internal/wire"
)

// options is the command line of a handler.
type options struct {
	listen                 string
	tlsCA, tlsCert, tlsKey string
	secretFile             string
	allowUIDs              uids
	settings               string
	logLevel, logFormat    string
	version, help, probe   bool

	err error // the command line is invalid
}

// uids is a repeatable flag.
type uids []uint32

func (u *uids) String() string { return fmt.Sprint([]uint32(*u)) }

func (u *uids) Set(value string) error {
	uid, err := strconv.ParseUint(value, 10, 32)
	if err != nil {
		return errors.New("a numeric user id is needed")
	}
	*u = append(*u, uint32(uid))
	return nil
}

// parseArgs parses the command line. It has no effects and may be called again.
func parseArgs(args []string) options {
	var o options
	set := flag.NewFlagSet("handler", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.StringVar(&o.listen, "listen", "", "")
	set.StringVar(&o.tlsCA, "tls-ca", "", "")
	set.StringVar(&o.tlsCert, "tls-cert", "", "")
	set.StringVar(&o.tlsKey, "tls-key", "", "")
	set.StringVar(&o.secretFile, "secret-file", "", "")
	set.Var(&o.allowUIDs, "allow-uid", "")
	set.StringVar(&o.settings, "settings", "", "")
	set.StringVar(&o.logLevel, "log-level", "", "")
	set.StringVar(&o.logFormat, "log-format", "", "")
	set.BoolVar(&o.version, "version", false, "")
	set.BoolVar(&o.probe, "probe", false, "")
	o.err = set.Parse(args)
	if errors.Is(o.err, flag.ErrHelp) {
		o.help, o.err = true, nil
	}
	if o.err == nil && set.NArg() > 0 {
		o.err = fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if o.err == nil {
		o.err = o.check()
	}
	return o
}

func (o options) check() error {
	if o.logLevel != "" && new(slog.Level).UnmarshalText([]byte(o.logLevel)) != nil {
		return fmt.Errorf("--log-level %q is none of debug, info, warn and error", o.logLevel)
	}
	if o.logFormat != "" && o.logFormat != "text" && o.logFormat != "json" {
		return fmt.Errorf("--log-format %q is neither text nor json", o.logFormat)
	}
	tls := o.tlsCA != "" || o.tlsCert != "" || o.tlsKey != ""
	if tls && (o.tlsCA == "" || o.tlsCert == "" || o.tlsKey == "") {
		return errors.New("mutual TLS takes all three of --tls-ca, --tls-cert and --tls-key")
	}
	if o.probe {
		if o.listen == "" || tls || o.secretFile != "" || len(o.allowUIDs) > 0 || o.settings != "" {
			return errors.New("--probe takes the sidecar's --listen, and nothing else")
		}
		_, _, err := o.address()
		return err
	}
	if o.listen == "" {
		if tls || o.secretFile != "" || len(o.allowUIDs) > 0 || o.settings != "" {
			return errors.New("--tls-*, --secret-file, --allow-uid and --settings are for a sidecar: give --listen too")
		}
		return nil
	}
	network, _, err := o.address()
	switch {
	case err != nil:
		return err
	case network == "tcp" && o.secretFile != "":
		return errors.New("--secret-file is for unix sockets: over TCP other machines could read the secret; " +
			"give --tls-ca, --tls-cert and --tls-key instead")
	case network == "tcp" && !tls:
		return errors.New("over TCP only with mutual TLS: give --tls-ca, --tls-cert and --tls-key")
	case network == "tcp" && len(o.allowUIDs) > 0:
		return errors.New("--allow-uid is for unix sockets: over TCP the peer's user is unknown")
	case tls && o.secretFile != "":
		return errors.New("either --secret-file or --tls-ca, --tls-cert and --tls-key: with mutual TLS the certificate authenticates the caller")
	case !tls && o.secretFile == "":
		return errors.New("a sidecar must authenticate its supervisor, also against agents of the same user: " +
			"give --secret-file FILE, with a secret that only the supervisor can read, or --tls-ca, --tls-cert and --tls-key; " +
			"--allow-uid is only an additional restriction")
	}
	return nil
}

// address splits --listen.
func (o options) address() (network, target string, err error) {
	network, target, err = wire.SplitAddress("--listen", o.listen)
	if network == "unix" {
		target = filepath.Clean(target)
	}
	return network, target, err
}

// versionText describes the version of the binary and of its protocols.
func versionText(h Handler) string {
	services := servicesOf(h)
	build := buildinfo.Read(h.Version)
	return build.Text(h.Name, [2]string{"handlers", "plugin protocol " + strconv.Itoa(wire.ProtocolVersion)}, [2]string{"gRPC", strings.Join(services, ", ")})
}

// servicesOf returns the names of the gRPC services that the supervisor may call.
func servicesOf(h Handler) (names []string) {
	if h.Register != nil {
		h.Register(&recordingRegistrar{to: grpc.NewServer(), names: &names})
	}
	return names
}

// settingOf returns the entry for a command of the handler in a configuration file, in YAML indented by four spaces.
func settingOf(h Handler, command string) string {
	for _, service := range servicesOf(h) {
		switch {
		case strings.HasPrefix(service, "acphost.permission."):
			return "    permission:\n      command: [" + command + "]"
		case strings.HasPrefix(service, "acphost.fs."):
			return "    handlers:\n      fs:\n        command: [" + command + "]"
		case strings.HasPrefix(service, "acphost.terminal."):
			return "    handlers:\n      terminal:\n        command: [" + command + "]"
		}
	}
	return "    handlers:\n      " + h.Name + ":\n        command: [" + command + "]"
}

// about describes the binary and how to run it.
func about(h Handler, program string) string {
	return fmt.Sprintf(`%[1]s %[2]s is a handler for acphost, the host for coding agents.

It is not run by hand. Either acphost starts it, as its configuration file says:

%[5]s

or it runs on its own, as a sidecar, and the configuration names its address:

    %[3]s --listen unix:///run/acphost/%[1]s.sock --secret-file FILE

Flags of a sidecar:
  --listen ADDRESS      unix:///PATH or tcp://HOST:PORT
  --secret-file FILE    on a unix socket: accept only calls that carry the secret in this file, at least 32 bytes.
                        It belongs to this sidecar's user or to root, with mode 0600; it is read once.
                        (umask 077; openssl rand -hex 32 >FILE) makes one
  --tls-ca FILE         PEM: the authority of the supervisor's certificate
  --tls-cert FILE       PEM: this handler's certificate
  --tls-key FILE        PEM: its private key
  --allow-uid UID       on a unix socket: accept only processes of this user; repeatable
                        (default: with --secret-file those of this sidecar's user and of root, else all)
  --settings FILE       YAML: the settings, as under "settings" in acphost's configuration
                        (a sidecar only checks settings that a supervisor sends)
A unix socket takes --secret-file or the three --tls flags; TCP takes the --tls flags.

Other flags:
  --probe               check whether a sidecar listens at --listen ADDRESS: exit status 0 if it does, 1 if not.
                        For containers, whose image may have no other program; it does not call the sidecar
  --log-level LEVEL     debug, info, warn or error (default: $%[4]s, else info)
  --log-format FORMAT   text or json
  --version, --help
`, h.Name, h.Version, program, wire.LogEnv, settingOf(h, program))
}
