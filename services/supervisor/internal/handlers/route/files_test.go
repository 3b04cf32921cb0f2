package route_test

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
)

const optionsPath = "acphost/acp/v1/options.proto"

var (
	fsService       = fsv1.File_acphost_fs_v1_fs_proto.Services().Get(0)
	terminalService = terminalv1.File_acphost_terminal_v1_terminal_proto.Services().Get(0)
	permService     = permissionv1.File_acphost_permission_v1_permission_proto.Services().Get(0)
)

func fsClaim() route.Claim { return claim("fs", route.KindFS, fsService) }

func terminalClaim() route.Claim { return claim("terminal", route.KindTerminal, terminalService) }

func permissionClaim() route.Claim { return claim("permission", route.KindPermission, permService) }

func claim(handler, kind string, services ...protoreflect.ServiceDescriptor) route.Claim {
	return route.Claim{Handler: handler, Kind: kind, Services: services}
}

// acme returns a third party's file "acme/v1/acme.proto": package acme.v1, messages In and Out with a CallContext in In,
// and service Acme with one RPC a method, named M0, M1, …
func acme(methods ...*acpv1.Method) *descriptorpb.FileDescriptorProto {
	f := &descriptorpb.FileDescriptorProto{
		Name:       new("acme/v1/acme.proto"),
		Package:    new("acme.v1"),
		Syntax:     new("proto3"),
		Dependency: []string{optionsPath, "acphost/acp/v1/context.proto", "google/protobuf/struct.proto"},
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: new("In"), Field: []*descriptorpb.FieldDescriptorProto{
				messageField("context", 1, ".acphost.acp.v1.CallContext"),
				{Name: new("raw"), JsonName: new("raw"), Number: new(int32(2)), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
					Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Options: verbatim()},
			}},
			{Name: new("Out"), Field: []*descriptorpb.FieldDescriptorProto{messageField("any", 1, ".google.protobuf.Struct")}},
		},
	}
	s := &descriptorpb.ServiceDescriptorProto{Name: new("Acme")}
	for i, m := range methods {
		s.Method = append(s.Method, &descriptorpb.MethodDescriptorProto{
			Name: new("M" + string(rune('0'+i))), InputType: new(".acme.v1.In"), OutputType: new(".acme.v1.Out"), Options: methodOption(m),
		})
	}
	f.Service = []*descriptorpb.ServiceDescriptorProto{s}
	return f
}

func messageField(name string, number int32, typ string) *descriptorpb.FieldDescriptorProto {
	return &descriptorpb.FieldDescriptorProto{
		Name: new(name), JsonName: new(name), Number: new(number), TypeName: new(typ),
		Type:  descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(),
		Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	}
}

func methodOption(m *acpv1.Method) *descriptorpb.MethodOptions {
	if m == nil {
		return nil
	}
	o := new(descriptorpb.MethodOptions)
	proto.SetExtension(o, acpv1.E_Method, m)
	return o
}

func verbatim() *descriptorpb.FieldOptions {
	o := new(descriptorpb.FieldOptions)
	proto.SetExtension(o, acpv1.E_Verbatim, true)
	return o
}

// imports returns the compiled-in files that acme's file imports, as a compiler puts them into a set.
func imports() []*descriptorpb.FileDescriptorProto {
	var files []*descriptorpb.FileDescriptorProto
	for _, fd := range []protoreflect.FileDescriptor{
		descriptorpb.File_google_protobuf_descriptor_proto,
		acpv1.File_acphost_acp_v1_options_proto,
		acpv1.File_acphost_acp_v1_context_proto,
	} {
		files = append(files, protodesc.ToFileDescriptorProto(fd))
	}
	return files
}

func descriptorSet(t testing.TB, files ...*descriptorpb.FileDescriptorProto) []byte {
	t.Helper()
	b, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: files})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// acmeService links acme's file as if a handler had sent it.
func acmeService(t testing.TB, methods ...*acpv1.Method) protoreflect.ServiceDescriptor {
	t.Helper()
	return services(t, describe("acme.v1.Acme", descriptorSet(t, append(imports(), acme(methods...))...)))[0]
}

// streaming is acme's service with one RPC that declares a method and streams its answer.
func streaming(t testing.TB) protoreflect.ServiceDescriptor {
	f := acme(&acpv1.Method{Name: "_x/y"})
	f.Service[0].Method[0].ServerStreaming = new(true)
	return services(t, describe("acme.v1.Acme", descriptorSet(t, append(imports(), f)...)))[0]
}
