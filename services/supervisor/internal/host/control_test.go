package host

import (
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/acphost/acphost/internal/fault"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/ownhandler"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/supervise"
)

// service is one of acphost's own services.
func service(t *testing.T, name string) protoreflect.ServiceDescriptor {
	t.Helper()
	found, err := route.Descriptors(t.Context(), nil, &pluginv1.DescribeResponse{Name: "x", Services: []string{name}})
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", name, found, err)
	}
	return found[0]
}

func TestSwap_ReplacementMustServeRoutes(t *testing.T) {
	fs := service(t, fsv1.FileSystemService_ServiceDesc.ServiceName)
	terminal := service(t, terminalv1.TerminalService_ServiceDesc.ServiceName)
	permission := service(t, permissionv1.PermissionService_ServiceDesc.ServiceName)
	claim := func(name string, services ...protoreflect.ServiceDescriptor) route.Claim {
		return route.Claim{Handler: name, Kind: config.Kind(name), Services: services}
	}
	table, err := route.Build([]route.Claim{claim("fs", fs), claim("terminal", terminal), claim("permission", permission)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		claim route.Claim
		want  string
	}{
		{"another file handler", claim("fs", fs), ""},
		{"another policy", claim("permission", permission), ""},
		{"a policy in place of files", claim("fs", permission), "does not answer what is routed to it: fs/list_directory, fs/read_text_file"},
		{"files in place of a policy", claim("permission", fs), "does not serve acphost.permission.v1.PermissionService"},
		{"a policy that answers files too", claim("permission", permission, fs), "answers no methods"},
		{"files that claim terminals too", claim("fs", fs, terminal), "terminal/create"},
	} {
		err := serves(c.claim, nil, table)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestSameMessage_DetectsDifferences(t *testing.T) {
	message := func(inner descriptorpb.FieldDescriptorProto_Type) protoreflect.MessageDescriptor {
		field := func(name string, typ descriptorpb.FieldDescriptorProto_Type, of string) *descriptorpb.FieldDescriptorProto {
			f := &descriptorpb.FieldDescriptorProto{
				Name: &name, Number: proto.Int32(1), Type: &typ, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			}
			if of != "" {
				f.TypeName = &of
			}
			return f
		}
		file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
			Name: proto.String("x.proto"), Package: proto.String("x"), Syntax: proto.String("proto3"),
			MessageType: []*descriptorpb.DescriptorProto{
				{Name: proto.String("Outer"), Field: []*descriptorpb.FieldDescriptorProto{
					field("inner", descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".x.Inner"),
				}},
				{Name: proto.String("Inner"), Field: []*descriptorpb.FieldDescriptorProto{field("value", inner, "")}},
			},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return file.Messages().ByName("Outer")
	}
	text, number := descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_INT64
	if !sameShape(message(text), message(text), map[protoreflect.FullName]bool{}) {
		t.Error("the same message, built twice, is not the same")
	}
	if sameShape(message(text), message(number), map[protoreflect.FullName]bool{}) {
		t.Error("a message with another one inside is the same")
	}
}

// configured is a host with these handlers in its configuration in effect.
func configured(entries map[string]*configv1.Handler) *host {
	return &host{
		log:    slog.New(slog.NewTextHandler(io.Discard, nil)),
		opts:   Options{Mode: ModeRun, Programs: ownhandler.Programs{Dir: "/opt/acphost"}, Config: &config.Config{Proto: &configv1.Config{}}},
		config: &configv1.Config{Handlers: entries},
		handlers: &handlers{byName: map[string]*supervise.Handler{
			"fs": supervise.New(supervise.Options{Name: "fs"}),
		}},
	}
}

func TestSwap_UsesConfiguredConnection(t *testing.T) {
	h := configured(map[string]*configv1.Handler{
		"permission": {Command: []string{"permd"}, Env: map[string]string{"A": "b"}, Tls: &configv1.TLS{Ca: "/ca"}},
		"fs":         {Command: []string{"fsd"}},
	})
	spec, err := h.specFor(&supervisorv1.SwapHandlerRequest{Name: "permission", Command: []string{"/x/my", "-v"}, Sha256: "ab", NoTls: true, AgentMayCall: true})
	if err != nil || !slices.Equal(spec.Command, []string{"/x/my", "-v"}) || !slices.Equal(spec.Env, []string{"A=b"}) ||
		spec.TLS != nil || spec.SHA256 != "ab" || !spec.NoTLS {
		t.Errorf("a program: %+v, %v", spec, err)
	}
	spec, err = h.specFor(&supervisorv1.SwapHandlerRequest{Name: "permission", Command: []string{"permd"}})
	if err != nil || spec.Command[0] != "/opt/acphost/permd" || spec.SHA256 != "" {
		t.Errorf("acphost's own: %+v, %v", spec, err)
	}
	spec, err = h.specFor(&supervisorv1.SwapHandlerRequest{Name: "permission", Address: "unix:///s", AgentMayCall: true})
	if err != nil || spec.Address != "unix:///s" || len(spec.Command)+len(spec.Env) != 0 || spec.TLS == nil || spec.TLS.CA != "/ca" {
		t.Errorf("a sidecar: %+v, %v", spec, err)
	}
	spec, err = h.specFor(&supervisorv1.SwapHandlerRequest{Name: "permission", Address: "unix:///s", SecretFile: "/k", AgentMayCall: true})
	if err != nil || spec.TLS != nil || spec.SecretFile != "/k" {
		t.Errorf("a sidecar with a secret: %+v, %v", spec, err)
	}
	spec, err = h.specFor(&supervisorv1.SwapHandlerRequest{Name: "permission", Address: "unix:///s", Uid: proto.Uint32(1000), AgentMayCall: true})
	if err != nil || spec.UID == nil || *spec.UID != 1000 {
		t.Errorf("a sidecar of a user: %+v, %v", spec, err)
	}
	for _, req := range []*supervisorv1.SwapHandlerRequest{
		{Name: "permission", Address: "unix:///s"}, // the agent runs as the same user, and so reads the key
		{Name: "permission", Address: "unix:///s", SecretFile: "/k"},
		{Name: "permission", Command: []string{"/x/my"}, NoTls: true},
		{Name: "permission", Command: []string{"./my"}},
		{Name: "permission", Command: []string{"fsd"}},
		{Name: "fs", Address: "unix:///s"}, // paths are looked at from here where it is a program
	} {
		if _, err := h.specFor(req); err == nil {
			t.Errorf("%v: no error", req)
		}
	}
}

func TestSwap_ConvertsSettingsOfOwnPrograms(t *testing.T) {
	settings := &structpb.Struct{Fields: map[string]*structpb.Value{"policy": structpb.NewStringValue("/p")}}
	before := &pluginv1.ConfigureRequest{Settings: settings, Host: &pluginv1.Host{Instance: "i"}}
	for _, c := range []struct {
		name, configured, swapped string
		want                      func(*structpb.Struct) bool
	}{
		{"another build of it", "permd", "/new/permd", func(s *structpb.Struct) bool { return proto.Equal(s, settings) }},
		{"another program", "permd", "/x/my", func(s *structpb.Struct) bool { return s == nil }},
		{"of one of their own to another", "/x/my", "/x/my2", func(s *structpb.Struct) bool { return s == nil }},
		{"back to one of their own", "/x/my", "/x/my", func(s *structpb.Struct) bool { return proto.Equal(s, settings) }},
		{"back to ours", "/x/my", "permd", func(s *structpb.Struct) bool {
			return s.GetFields()["policy"].GetStringValue() != "/p" && s.GetFields()["admin_policy"].GetStringValue() != ""
		}},
	} {
		h := configured(map[string]*configv1.Handler{"permission": {Command: []string{c.configured}}})
		got := h.settingsFor(&supervisorv1.SwapHandlerRequest{Name: "permission", Command: []string{c.swapped}}, before)
		if !c.want(got.GetSettings()) || got.GetHost().GetInstance() != "i" {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	given := &structpb.Struct{Fields: map[string]*structpb.Value{"mine": structpb.NewBoolValue(true)}}
	h := configured(map[string]*configv1.Handler{"permission": {Address: "unix:///s", Uid: proto.Uint32(7)}})
	for _, c := range []struct {
		req  *supervisorv1.SwapHandlerRequest
		want *structpb.Struct
	}{
		{&supervisorv1.SwapHandlerRequest{Address: "unix:///s"}, settings},
		{&supervisorv1.SwapHandlerRequest{Address: "unix:///other"}, nil},
		{&supervisorv1.SwapHandlerRequest{Address: "unix:///other", Settings: given}, given},
		{&supervisorv1.SwapHandlerRequest{Command: []string{"/x/my"}}, nil},
		{&supervisorv1.SwapHandlerRequest{Command: []string{"/x/my"}, Settings: given}, given},
		{&supervisorv1.SwapHandlerRequest{Command: []string{"permd"}, Settings: given}, given},
	} {
		c.req.Name = "permission"
		if got := h.settingsFor(c.req, before).GetSettings(); !proto.Equal(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%v: %v", c.req, got)
		}
	}
	if !proto.Equal(before.GetSettings(), settings) || before.GetSettings() == nil {
		t.Error("the first request was changed")
	}
}

func isNotFound(err error) bool {
	f, ok := errors.AsType[*fault.Error](err)
	return ok && f.Class == fault.NotFound
}

func TestControl_ReportsMissingObjects(t *testing.T) {
	h := configured(nil)
	if _, err := h.RestartHandler(t.Context(), &supervisorv1.RestartHandlerRequest{Name: "nope"}); !isNotFound(err) ||
		err.Error() != `no handler is called "nope"; there are fs` {
		t.Errorf("a handler: %v", err)
	}
	if _, err := h.RevokeGrants(t.Context(), &supervisorv1.RevokeGrantsRequest{Ids: []string{"x"}}); !isNotFound(err) {
		t.Errorf("a grant: %v", err)
	}
	h.opts.Mode = ModeObserve
	if _, err := h.ReloadPolicy(t.Context(), &supervisorv1.ReloadPolicyRequest{}); err == nil || isNotFound(err) {
		t.Errorf("a policy, while only watching: %v", err)
	}
}
