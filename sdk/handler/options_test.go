package handler

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	"github.com/acphost/acphost/sdk/internal/wire"
)

func TestOptions_SidecarRequiresAuthentication(t *testing.T) {
	tls := []string{"--tls-ca", "a", "--tls-cert", "b", "--tls-key", "c"}
	for name, c := range map[string]struct {
		args []string
		want string // in the error; empty: none
	}{
		"nothing at all":               {nil, ""},
		"a secret on a unix socket":    {[]string{"--listen", "unix:///s", "--secret-file", "f"}, ""},
		"a secret for two users":       {[]string{"--listen", "unix:///s", "--secret-file", "f", "--allow-uid", "1", "--allow-uid", "2"}, ""},
		"certificates for one user":    {append([]string{"--listen", "unix:///s", "--allow-uid", "1"}, tls...), ""},
		"a user on a unix socket":      {[]string{"--listen", "unix:///s", "--allow-uid", "1"}, "give --secret-file FILE"},
		"a secret and certificates":    {append([]string{"--listen", "unix:///s", "--secret-file", "f"}, tls...), "either --secret-file or"},
		"a secret over TCP":            {[]string{"--listen", "tcp://127.0.0.1:1", "--secret-file", "f"}, "other machines could read the secret"},
		"both over TCP":                {append([]string{"--listen", "tcp://127.0.0.1:1", "--secret-file", "f"}, tls...), "other machines could read the secret"},
		"a secret without an address":  {[]string{"--secret-file", "f"}, "give --listen too"},
		"certificates on a socket":     {append([]string{"--listen", "unix:///s"}, tls...), ""},
		"certificates over TCP":        {append([]string{"--listen", "tcp://127.0.0.1:1"}, tls...), ""},
		"no client on a unix socket":   {[]string{"--listen", "unix:///s"}, "must authenticate its supervisor"},
		"no TLS over TCP":              {[]string{"--listen", "tcp://127.0.0.1:1"}, "only with mutual TLS"},
		"a user over TCP":              {append([]string{"--listen", "tcp://:1", "--allow-uid", "1"}, tls...), "for unix sockets"},
		"half of the certificates":     {[]string{"--listen", "unix:///s", "--tls-ca", "a"}, "takes all three"},
		"a user by name":               {[]string{"--listen", "unix:///s", "--secret-file", "f", "--allow-uid", "root"}, "numeric user id"},
		"a relative path":              {[]string{"--listen", "unix://s", "--allow-uid", "1"}, "must be absolute"},
		"an unknown scheme":            {[]string{"--listen", "http://s", "--allow-uid", "1"}, "neither unix"},
		"a probe":                      {[]string{"--probe", "--listen", "unix:///s"}, ""},
		"a probe without an address":   {[]string{"--probe"}, "--probe takes the sidecar's --listen"},
		"a probe with certificates":    {append([]string{"--probe", "--listen", "unix:///s"}, tls...), "and nothing else"},
		"users without an address":     {[]string{"--allow-uid", "1"}, "give --listen too"},
		"an unknown flag":              {[]string{"--verbose"}, "verbose"},
		"an argument that is no flag":  {[]string{"start"}, `unexpected argument "start"`},
		"a log level that there isn't": {[]string{"--log-level", "loud"}, "none of debug"},
		"a format that there isn't":    {[]string{"--log-format", "xml"}, "neither text nor json"},
	} {
		t.Run(name, func(t *testing.T) {
			err := parseArgs(c.args).err
			switch {
			case c.want == "" && err != nil:
				t.Errorf("error = %v, want none", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error = %v, want %q", err, c.want)
			}
		})
	}
}

func TestSocketMode_FollowsAllowedUsers(t *testing.T) {
	own := uint32(os.Geteuid())
	for _, c := range []struct {
		allowed uids
		secret  string
		want    uint32
	}{
		{uids{own}, "", 0o600}, {uids{own, 0}, "f", 0o600}, {uids{own, own + 1}, "f", 0o666}, {uids{own, own + 1}, "", 0o666},
		{nil, "f", 0o600}, {nil, "", 0o666},
	} {
		if got := (options{allowUIDs: c.allowed, secretFile: c.secret}).socketMode(); uint32(got) != c.want {
			t.Errorf("mode for %v with the secret %q = %o, want %o", c.allowed, c.secret, got, c.want)
		}
	}
}

func TestLog_FormatFitsReader(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		env  string
		want string
	}{
		"a child":                  {nil, "", `"msg":"info"`},
		"a sidecar":                {[]string{"--listen", "unix:///s", "--secret-file", "f"}, "", `msg=info`},
		"a child at a level":       {nil, "warn", ""},
		"a flag against the level": {[]string{"--log-level", "info"}, "error", `"msg":"info"`},
		"a format as asked":        {[]string{"--log-format", "text"}, "", `msg=info`},
		"an unknown level":         {nil, "loud", `"msg":"info"`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			newLogger(&out, parseArgs(c.args), func(key string) string {
				if key == wire.LogEnv {
					return c.env
				}
				return ""
			}).Info("info")
			if got := out.String(); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("log = %q, want %q", got, c.want)
			}
		})
	}
}

func TestHelp_DescribesBinaryAndFlags(t *testing.T) {
	text := about(Handler{Name: "fsd", Version: "1"}, "/opt/fsd")
	for _, want := range []string{"fsd 1 is a handler", "command: [/opt/fsd]",
		"/opt/fsd --listen unix:///run/acphost/fsd.sock --secret-file FILE", "--tls-ca", "--allow-uid UID"} {
		if !strings.Contains(text, want) {
			t.Errorf("help does not contain %q:\n%s", want, text)
		}
	}
}

func TestDecodeSettings_IsStrict(t *testing.T) {
	decode := func(settings map[string]any) (*configv1.Config, error) {
		s, err := structpb.NewStruct(settings)
		if err != nil {
			t.Fatal(err)
		}
		into := &configv1.Config{Routes: map[string]string{"left": "over"}}
		return into, DecodeSettings(s, into)
	}
	got, err := decode(map[string]any{
		"agent":    map[string]any{"no_landlock": true, "initializeTimeoutSeconds": 7},
		"handlers": map[string]any{"x": map[string]any{"command": []any{"/bin/x"}, "uid": 3}},
		"routes":   map[string]any{"fs/*": "front"},
	})
	uid := uint32(3)
	want := &configv1.Config{
		Agent:    &configv1.Agent{NoLandlock: true, InitializeTimeoutSeconds: 7},
		Handlers: map[string]*configv1.Handler{"x": {Command: []string{"/bin/x"}, Uid: &uid}},
		Routes:   map[string]string{"fs/*": "front"},
	}
	if err != nil || !proto.Equal(got, want) {
		t.Errorf("decoded %v, %v; want %v", got, err, want)
	}
	if err := DecodeSettings(nil, got); err != nil || !proto.Equal(got, &configv1.Config{}) {
		t.Errorf("no settings: %v, %v; want the defaults", got, err)
	}

	for name, c := range map[string]struct {
		settings map[string]any
		want     []string
	}{
		"an unknown name":          {map[string]any{"agnet": 1}, []string{"agnet: expected a known field", `did you mean "agent"?`}},
		"an unknown name inside":   {map[string]any{"agent": map[string]any{"nme": 1}}, []string{"agent.nme: expected a known field"}},
		"an unknown name in a map": {map[string]any{"handlers": map[string]any{"x": map[string]any{"cmd": 1}}}, []string{"handlers.x.cmd"}},
		"a wrong type":             {map[string]any{"agent": map[string]any{"no_landlock": "yes"}}, []string{"agent.no_landlock", "yes"}},
		"a number out of range":    {map[string]any{"agent": map[string]any{"initialize_timeout_seconds": -1}}, []string{"agent.initialize_timeout_seconds", "-1"}},
		"a list for an object":     {map[string]any{"agent": []any{}}, []string{"agent"}},
		"an object for a list":     {map[string]any{"handlers": map[string]any{"x": 1}}, []string{"handlers.x", "a mapping"}},
		"a number as text":         {map[string]any{"agent": map[string]any{"initialize_timeout_seconds": "7"}}, []string{"agent.initialize_timeout_seconds", "an integer"}},
		"two mistakes":             {map[string]any{"agnet": 1, "handlers": 2}, []string{"agnet: ", "; handlers: expected a mapping"}},
		"one setting by two names": {map[string]any{"agent": map[string]any{"noLandlock": true, "no_landlock": true}}, []string{"agent.no_landlock: expected each field once, got it again"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decode(c.settings)
			if status.Code(err) != codes.InvalidArgument {
				t.Fatalf("error = %v, want INVALID_ARGUMENT", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not contain %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "proto:") || strings.Contains(err.Error(), "line") || strings.Contains(err.Error(), "\u00a0") {
				t.Errorf("error %q shows where it comes from", err)
			}
		})
	}
}
