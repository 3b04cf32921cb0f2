package route_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
)

func describe(service string, set []byte) *pluginv1.DescribeResponse {
	return &pluginv1.DescribeResponse{Name: "acmed", Version: "1", Services: []string{service}, DescriptorSet: set}
}

func services(t testing.TB, d *pluginv1.DescribeResponse) []protoreflect.ServiceDescriptor {
	t.Helper()
	found, err := route.Descriptors(t.Context(), nil, d)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// method returns the option of the service's first RPC, nil if it has none.
func method(s protoreflect.ServiceDescriptor) *acpv1.Method {
	options := s.Methods().Get(0).Options()
	if !proto.HasExtension(options, acpv1.E_Method) {
		return nil
	}
	return proto.GetExtension(options, acpv1.E_Method).(*acpv1.Method)
}

var echo = &acpv1.Method{Name: "_acme.com/echo"}

func TestServices_OwnAreCompiledIn(t *testing.T) {
	forged := protodesc.ToFileDescriptorProto(fsv1.File_acphost_fs_v1_fs_proto)
	proto.SetExtension(forged.Service[0].Method[1].Options, acpv1.E_Method, &acpv1.Method{Name: "fs/write_text_file", Action: "fs.read"})
	found := services(t, &pluginv1.DescribeResponse{
		Name:          "fsd",
		Services:      []string{"acphost.plugin.v1.PluginService", "acphost.fs.v1.FileSystemService", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"},
		DescriptorSet: descriptorSet(t, append(imports(), forged)...),
	})
	if len(found) != 1 || found[0] != fsService {
		t.Errorf("services are %v, want the compiled-in FileSystemService alone", found)
	}
}

func TestServices_FromDescriptorSet(t *testing.T) {
	other := &descriptorpb.FileDescriptorProto{Name: new("acme/v1/unused.proto"), Package: new("acme.v1"), Syntax: new("proto3")}
	s := services(t, describe("acme.v1.Acme", descriptorSet(t, append(imports(), other, acme(echo))...)))[0]
	if got := method(s); got.GetName() != "_acme.com/echo" {
		t.Errorf("the method is %v, want _acme.com/echo", got)
	}
	field := s.Methods().Get(0).Input().Fields().Get(0)
	if want := (*acpv1.CallContext)(nil).ProtoReflect().Descriptor(); field.Message() != want {
		t.Errorf("the context's type is %v, not the compiled-in one", field.Message())
	}
}

func TestDescriptorSet_AnyOrderAndFolder(t *testing.T) {
	files := append(imports(), acme(echo))
	for _, f := range files {
		for i, dep := range f.Dependency {
			f.Dependency[i] = strings.Replace(dep, "acphost/acp", "proto/acphost/acp", 1)
		}
		f.Name = new(strings.Replace(f.GetName(), "acphost/acp", "proto/acphost/acp", 1))
	}
	files[0], files[len(files)-1] = files[len(files)-1], files[0]
	if got := method(services(t, describe("acme.v1.Acme", descriptorSet(t, files...)))[0]); got.GetName() != "_acme.com/echo" {
		t.Errorf("the method is %v, want _acme.com/echo", got)
	}
}

func TestDescriptorSet_OptionNeedsImport(t *testing.T) {
	alien := acme(&acpv1.Method{Name: "_acme.com/alien"}) // the number is somebody else's here
	alien.Name, alien.Package = new("alien.proto"), new("alien.v1")
	alien.Dependency = nil
	alien.MessageType = []*descriptorpb.DescriptorProto{{Name: new("In"), Field: alien.MessageType[0].Field[1:]}, {Name: new("Out")}}
	alien.Service[0].Method[0].InputType, alien.Service[0].Method[0].OutputType = new(".alien.v1.In"), new(".alien.v1.Out")
	d := describe("acme.v1.Acme", descriptorSet(t, append(imports(), acme(echo), alien)...))
	d.Services = append(d.Services, "alien.v1.Acme")
	found := services(t, d)
	if got := method(found[0]); got == nil {
		t.Error("the option of a file that imports ours was dropped")
	}
	if got := method(found[1]); got != nil {
		t.Errorf("an option counts in a file that does not import ours: %v", got)
	}
	raw := found[1].Methods().Get(0).Input().Fields().Get(0)
	if proto.HasExtension(raw.Options(), acpv1.E_Verbatim) {
		t.Error("a field's option counts in a file that does not import ours")
	}
}

func TestDescriptorSet_RejectsInvalid(t *testing.T) {
	self := acme(echo)
	self.Dependency = append(self.Dependency, "acme/v1/acme.proto")
	broken := acme(echo)
	broken.Service[0].Method[0].InputType = new(".acme.v1.Missing")
	foreign := acme(echo)
	foreign.Name, foreign.Package = new("acphost/evil/v1/evil.proto"), new("acphost.evil.v1")
	deep := []*descriptorpb.FileDescriptorProto{acme(echo)}
	for i := range 200 {
		deep[i].Dependency = append(deep[i].Dependency, "deep"+strings.Repeat("x", i))
		deep = append(deep, &descriptorpb.FileDescriptorProto{Name: new("deep" + strings.Repeat("x", i)), Syntax: new("proto3")})
	}
	for _, c := range []struct {
		name    string
		service string
		set     []byte
		want    string
	}{
		{"not a set", "acme.v1.Acme", []byte{0xff}, "descriptor_set is not a google.protobuf.FileDescriptorSet"},
		{"an unknown service of ours", "acphost.new.v1.NewService", nil, "no handler service acphost.new.v1.NewService; is the handler newer?"},
		{"a service that is not there", "acme.v1.Other", descriptorSet(t, append(imports(), acme(echo))...), "descriptor_set has no service acme.v1.Other"},
		{"a message instead of a service", "acme.v1.In", descriptorSet(t, append(imports(), acme(echo))...), "descriptor_set has no service acme.v1.In"},
		{"no RPC has the option", "acme.v1.Acme", descriptorSet(t, append(imports(), acme(nil))...), "no RPC of acme.v1.Acme has the option"},
		{"an import is missing", "acme.v1.Acme", descriptorSet(t, withImport(acme(echo), "acme/v1/lost.proto")), "file acme/v1/lost.proto is imported but missing; include all imports"},
		{"a file that imports itself", "acme.v1.Acme", descriptorSet(t, self), "acme/v1/acme.proto imports itself"},
		{"imports that never end", "acme.v1.Acme", descriptorSet(t, deep...), "imports nest more than 100 deep"},
		{"an unknown type", "acme.v1.Acme", descriptorSet(t, broken), "acme/v1/acme.proto"},
		{"a package that is ours", "acphost.evil.v1.Acme", descriptorSet(t, foreign), "no handler service acphost.evil.v1.Acme"},
		{"a file in a package that is ours", "acme.v1.Acme", descriptorSet(t, acme(echo), foreign), "packages of that name are acphost's own"},
		{"one file twice", "acme.v1.Acme", descriptorSet(t, acme(echo), acme(nil)), "is there twice, with different content"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := route.Descriptors(t.Context(), nil, describe(c.service, c.set))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `handler "acmed"`) {
				t.Errorf("error is %v, want %q in it", err, c.want)
			}
		})
	}
}

func withImport(f *descriptorpb.FileDescriptorProto, path string) *descriptorpb.FileDescriptorProto {
	f.Dependency = append(f.Dependency, path)
	return f
}

func TestReflection_ReturnsForeignServices(t *testing.T) {
	for name, register := range map[string]func(*grpc.Server, reflection.ServerOptions){
		"v1": func(s *grpc.Server, o reflection.ServerOptions) {
			reflectionv1.RegisterServerReflectionServer(s, reflection.NewServerV1(o))
		},
		"v1alpha": func(s *grpc.Server, o reflection.ServerOptions) {
			reflectionv1alpha.RegisterServerReflectionServer(s, reflection.NewServer(o)) // the version under test
		},
	} {
		t.Run(name, func(t *testing.T) {
			conn := reflecting(t, acme(echo), register)
			found, err := route.Descriptors(t.Context(), conn, describe("acme.v1.Acme", nil))
			if err != nil {
				t.Fatal(err)
			}
			if got := method(found[0]); got.GetName() != "_acme.com/echo" {
				t.Errorf("the method is %v, want _acme.com/echo", got)
			}
		})
	}
}

func TestReflection_ErrorsNameRemedy(t *testing.T) {
	v1 := func(s *grpc.Server, o reflection.ServerOptions) {
		reflectionv1.RegisterServerReflectionServer(s, reflection.NewServerV1(o))
	}
	for _, c := range []struct {
		name     string
		register func(*grpc.Server, reflection.ServerOptions)
		method   *acpv1.Method
		service  string
		want     string
	}{
		{"not served", func(*grpc.Server, reflection.ServerOptions) {}, echo, "acme.v1.Acme", "a handler without reflection sends descriptor_set"},
		{"options dropped", v1, nil, "acme.v1.Acme", "drops custom options in some languages; send a descriptor_set"},
		{"service not known", v1, echo, "acme.v1.Other", "acme.v1.Other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := route.Descriptors(t.Context(), reflecting(t, acme(c.method), c.register), describe(c.service, nil))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q in it", err, c.want)
			}
		})
	}
}

// reflecting returns a connection to a server that reflects one file.
func reflecting(t *testing.T, file *descriptorpb.FileDescriptorProto, register func(*grpc.Server, reflection.ServerOptions)) *grpc.ClientConn {
	t.Helper()
	fd, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	files := new(protoregistry.Files)
	if err := files.RegisterFile(fd); err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	register(server, reflection.ServerOptions{Services: server, DescriptorResolver: files})
	listener := bufconn.Listen(1 << 20)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	conn, err := grpc.NewClient("passthrough:///handler", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		<-done
	})
	return conn
}

func FuzzDescriptorSet(f *testing.F) {
	f.Add(descriptorSet(f, append(imports(), acme(echo))...))
	f.Add(descriptorSet(f, acme(nil)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, set []byte) {
		if len(set) == 0 {
			return // would ask reflection
		}
		found, err := route.Descriptors(t.Context(), nil, describe("acme.v1.Acme", set))
		if err != nil {
			return
		}
		if len(found) != 1 || found[0].FullName() != "acme.v1.Acme" {
			t.Errorf("services are %v", found)
		}
		_, _ = route.Build([]route.Claim{claim("acme", route.KindExtension, found...)}, nil)
	})
}
