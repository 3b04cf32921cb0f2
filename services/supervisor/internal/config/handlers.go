package config

import (
	"errors"
	"iter"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/acphost/acphost/internal/yamlproto"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/ownhandler"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
)

// ownHandler is one of acphost's own handlers.
type ownHandler struct {
	program  string
	settings proto.Message // an empty message that defines its settings
}

// ownHandlers returns acphost's own handlers by their names in the configuration.
func ownHandlers() map[string]ownHandler {
	return map[string]ownHandler{
		route.KindFS:         {ownhandler.FS, &fsv1.Settings{}},
		route.KindTerminal:   {ownhandler.Terminal, &terminalv1.Settings{}},
		route.KindPermission: {ownhandler.Permission, &permissionv1.Settings{}},
	}
}

// isOwn reports whether a handler with this name is acphost's own. It may have settings or an environment.
func isOwn(name string, h *configv1.Handler) bool {
	own, ok := ownHandlers()[name]
	return ok && h.GetAddress() == "" && (len(h.GetCommand()) == 0 || h.GetCommand()[0] == own.program)
}

// Kind returns the kind of the handler with a name: route.KindFS, KindTerminal or KindPermission for the three that are
// or replace acphost's own, KindPermission also for "permission-2" and so on of a chain, else route.KindExtension.
func Kind(name string) string {
	if _, ok := ownHandlers()[name]; ok {
		return name
	}
	if furtherPermission.MatchString(name) {
		return route.KindPermission
	}
	return route.KindExtension
}

func (v *checker) handler(name string, h *configv1.Handler) {
	at := path("handlers").to(name)
	switch {
	case !handlerName.MatchString(name):
		v.problem(at, `expected a name of 1 to 64 of a-z, 0-9, "-" and "_", got %q`, name)
	case route.IsWord(name):
		v.problem(at, "%q has a meaning of its own in routes; call the handler something else", name)
	case furtherPermission.MatchString(name):
		v.problem(at, "%q is the name of a part of permission.chain; call the handler something else", name)
	}
	v.entry(at, name, h)
}

// entry checks the connection and the settings of one handler. name is its name among acphost's own handlers, or empty.
func (v *checker) entry(at path, name string, h *configv1.Handler) {
	command, address := len(h.GetCommand()) > 0, h.GetAddress() != ""
	switch {
	case command && address:
		v.problem(at.to("address"), "expected either command or address, got both")
	case command:
		v.command(at, h)
	case address:
		v.address(at, h)
	case !isOwn(name, h):
		v.problem(at, "expected command or address, got neither")
	}
	if !address {
		v.child(at, h)
	}
	if h.GetAgentMayCall() && !address && !h.GetNoTls() {
		v.problem(at.to("agent_may_call"), "it is for address and no_tls only: no agent can call a handler that acphost starts with keys of its own")
	}
	v.bound(at.to("decide_timeout_ms"), uint64(h.GetDecideTimeoutMs()), 1, maxDecideTimeoutMS)
	v.misplaced(at.to("decide_timeout_ms"), h.GetDecideTimeoutMs() != 0 && name != route.KindPermission,
		"permission handlers only")
	v.pathMaps(at.to("paths"), name, h)
	if isOwn(name, h) {
		v.settings(at.to("settings"), ownHandlers()[name], h.GetSettings())
	}
}

func (v *checker) command(at path, h *configv1.Handler) {
	v.arguments(at, h.GetCommand())
	program := h.GetCommand()[0]
	if slices.Contains([]string{"", ".", ".."}, program) || strings.HasSuffix(program, "/") {
		v.problem(at.to("command", 0), "expected a program, got %q", program)
	}
}

// arguments requires words that can be arguments of a process.
func (v *checker) arguments(at path, command []string) {
	for i, arg := range command {
		if strings.ContainsRune(arg, 0) {
			v.problem(at.to("command", i), "expected text without a NUL character, got %q", arg)
		}
	}
}

// child checks settings that apply only to a handler that acphost starts.
func (v *checker) child(at path, h *configv1.Handler) {
	const keys = "address only: acphost makes the keys for the handlers that it starts itself"
	v.misplaced(at.to("tls"), h.GetTls() != nil, keys)
	v.misplaced(at.to("secret_file"), h.GetSecretFile() != "", keys)
	v.misplaced(at.to("uid"), h.Uid != nil, "address only")
	if sum := h.GetSha256(); sum != "" && !sha256Form.MatchString(sum) {
		v.problem(at.to("sha256"), "expected 64 hexadecimal digits, got %q", sum)
	}
	for _, name := range slices.Sorted(maps.Keys(h.GetEnv())) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(h.GetEnv()[name], 0) {
			v.problem(at.to("env", name), `expected a name without "=", and no NUL characters`)
		}
	}
}

func (v *checker) address(at path, h *configv1.Handler) {
	v.misplaced(at.to("sha256"), h.GetSha256() != "", "command only: acphost does not start what it reaches by address")
	v.misplaced(at.to("env"), len(h.GetEnv()) > 0, "command only: acphost does not start what it reaches by address")
	v.misplaced(at.to("no_tls"), h.GetNoTls(), "command only")
	v.tls(at.to("tls"), h.GetTls())
	p := at.to("address")
	if socket, ok := strings.CutPrefix(h.GetAddress(), "unix://"); ok {
		v.socket(p, socket)
		v.secret(at, h)
		return
	}
	v.misplaced(at.to("secret_file"), h.GetSecretFile() != "",
		"unix sockets only: over TCP others could read the secret on its way")
	v.misplaced(at.to("uid"), h.Uid != nil, "unix sockets only")
	hostPort, ok := strings.CutPrefix(h.GetAddress(), "tcp://")
	host, port, err := net.SplitHostPort(hostPort)
	n, numErr := strconv.ParseUint(port, 10, 16)
	switch {
	case !ok || err != nil || numErr != nil || n == 0 || host == "" || strings.ContainsAny(host, "/@?#\x00"):
		v.problem(p, `expected "unix:///PATH" or "tcp://HOST:PORT", got %q`, h.GetAddress())
	case h.GetTls() == nil:
		v.problem(p, "tcp needs mutual TLS: give the handler tls with ca, cert and key")
	}
}

// secret checks the secret by which a sidecar on a unix socket authenticates acphost.
func (v *checker) secret(at path, h *configv1.Handler) {
	switch file := h.GetSecretFile(); {
	case file == "" && h.GetTls() == nil:
		v.problem(at.to("address"), "a sidecar must know acphost from whoever else can connect, an agent of the same user too: give the handler secret_file (and the sidecar --secret-file), or tls with ca, cert and key")
	case file != "" && h.GetTls() != nil:
		v.problem(at.to("secret_file"), "expected either secret_file or tls, got both")
	case strings.ContainsRune(file, 0) || strings.HasSuffix(file, "/"):
		v.problem(at.to("secret_file"), "expected a file, got %q", file)
	}
}

func (v *checker) tls(at path, t *configv1.TLS) {
	for field, file := range tlsFiles(t) {
		if *file == "" || strings.ContainsRune(*file, 0) {
			v.problem(at.to(field), "expected a PEM file, got %q", *file)
		}
	}
}

// tlsFiles yields the fields of a message that name files. t may be nil.
func tlsFiles(t *configv1.TLS) iter.Seq2[string, *string] {
	return func(yield func(string, *string) bool) {
		_ = t != nil && yield("ca", &t.Ca) && yield("cert", &t.Cert) && yield("key", &t.Key)
	}
}

// settings checks the settings of acphost's own handlers. Other handlers check their settings when they are configured.
func (v *checker) settings(at path, own ownHandler, settings *structpb.Struct) {
	if settings == nil {
		return
	}
	text, err := yamlproto.Marshal(settings)
	if err != nil {
		v.problem(at, "%v", err)
		return
	}
	if err := yamlproto.Unmarshal("settings", text, own.settings); err != nil {
		for _, mistake := range mistakes(err) {
			v.problems = append(v.problems, v.doc.Errorf(string(at)+"."+mistake.Field, "%s", mistake.Message))
		}
		return
	}
	v.settingBounds(at, own.settings)
}

// mistakes returns the single errors in an error of yamlproto.
func mistakes(err error) []*yamlproto.Error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*yamlproto.Error
		for _, err := range joined.Unwrap() {
			all = append(all, mistakes(err)...)
		}
		return all
	}
	if one, ok := errors.AsType[*yamlproto.Error](err); ok {
		return []*yamlproto.Error{one}
	}
	return []*yamlproto.Error{{Message: err.Error()}}
}

// settingBounds checks the limits that the settings' messages document.
func (v *checker) settingBounds(at path, settings proto.Message) {
	switch s := settings.(type) {
	case *fsv1.Settings:
		v.bound(at.to("max_content_bytes"), s.GetMaxContentBytes(), 1024, 60<<20)
	case *terminalv1.Settings:
		v.bound(at.to("max_terminals_per_session"), uint64(s.GetMaxTerminalsPerSession()), 1, 4096)
		v.bound(at.to("max_output_bytes_per_terminal"), s.GetMaxOutputBytesPerTerminal(), 4096, 60<<20)
		v.bound(at.to("max_output_bytes_total"), s.GetMaxOutputBytesTotal(), 1<<20, 1<<62)
		v.bound(at.to("kill_grace_ms"), uint64(s.GetKillGraceMs()), 1, 60000)
		if s.GetEnvDenyNothing() && len(s.GetEnvDeny()) > 0 {
			v.problem(at.to("env_deny"), "env_deny_nothing is set too; one of them is meant")
		}
		if s.GetEnvDenyNothing() && len(s.GetEnvAllow()) > 0 {
			v.problem(at.to("env_allow"), "env_deny_nothing is set too, so that nothing is denied; one of them is meant")
		}
	case *permissionv1.Settings:
		if name := s.GetPolicy(); name != "" && !IsReadyPolicy(name) && !filepath.IsAbs(name) {
			v.problem(at.to("policy"), "expected an absolute path or the name of a ready policy, got %q; permission.policy takes a relative path", name)
		}
		v.absoluteFile(at.to("admin_policy"), s.GetAdminPolicy())
		v.absoluteFile(at.to("trust"), s.GetTrust())
		if name := s.GetWorkspacePolicy(); name != "" && !filepath.IsLocal(name) {
			v.problem(at.to("workspace_policy"), "expected a relative path that stays below the root, got %q", name)
		}
	}
}
