package transcode

import (
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	_ "google.golang.org/protobuf/types/known/anypb" // the foreign files import it
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
)

// everything is a foreign file with a field of every kind: what no handler of acphost's own has.
const everything = `
name: "acme/all.proto" package: "acme" syntax: "proto3"
dependency: "acphost/acp/v1/options.proto"
dependency: "acphost/acp/v1/context.proto"
dependency: "google/protobuf/struct.proto"
dependency: "google/protobuf/timestamp.proto"
dependency: "google/protobuf/duration.proto"
dependency: "google/protobuf/wrappers.proto"
enum_type { name: "Colour"
  value { name: "COLOUR_UNSPECIFIED" number: 0 } value { name: "COLOUR_RED" number: 1 } value { name: "COLOUR_BLUE" number: -5 } }
message_type { name: "All"
  field { name: "i32" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 }
  field { name: "i64" number: 2 label: LABEL_OPTIONAL type: TYPE_INT64 }
  field { name: "u32" number: 3 label: LABEL_OPTIONAL type: TYPE_UINT32 }
  field { name: "u64" number: 4 label: LABEL_OPTIONAL type: TYPE_UINT64 }
  field { name: "s32" number: 5 label: LABEL_OPTIONAL type: TYPE_SINT32 }
  field { name: "s64" number: 6 label: LABEL_OPTIONAL type: TYPE_SINT64 }
  field { name: "f32" number: 7 label: LABEL_OPTIONAL type: TYPE_FIXED32 }
  field { name: "f64" number: 8 label: LABEL_OPTIONAL type: TYPE_FIXED64 }
  field { name: "sf32" number: 9 label: LABEL_OPTIONAL type: TYPE_SFIXED32 }
  field { name: "sf64" number: 10 label: LABEL_OPTIONAL type: TYPE_SFIXED64 }
  field { name: "float" number: 11 label: LABEL_OPTIONAL type: TYPE_FLOAT }
  field { name: "double" number: 12 label: LABEL_OPTIONAL type: TYPE_DOUBLE }
  field { name: "bool" number: 13 label: LABEL_OPTIONAL type: TYPE_BOOL }
  field { name: "text" number: 14 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "bytes" number: 15 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "colour" number: 16 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".acme.Colour" }
  field { name: "all" number: 17 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".acme.All" }
  field { name: "ri32" number: 18 label: LABEL_REPEATED type: TYPE_INT32 }
  field { name: "rtext" number: 19 label: LABEL_REPEATED type: TYPE_STRING }
  field { name: "rall" number: 20 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".acme.All" }
  field { name: "rdouble" number: 21 label: LABEL_REPEATED type: TYPE_DOUBLE options { packed: false } }
  field { name: "rcolour" number: 22 label: LABEL_REPEATED type: TYPE_ENUM type_name: ".acme.Colour" }
  field { name: "mtext" number: 23 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".acme.All.MtextEntry" }
  field { name: "mint" number: 24 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".acme.All.MintEntry" }
  field { name: "mbool" number: 25 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".acme.All.MboolEntry" }
  field { name: "one" number: 26 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 }
  field { name: "two" number: 27 label: LABEL_OPTIONAL type: TYPE_INT32 oneof_index: 0 }
  field { name: "three" number: 28 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".acme.All" oneof_index: 0 }
  field { name: "maybe" number: 29 label: LABEL_OPTIONAL type: TYPE_UINT32 proto3_optional: true oneof_index: 1 }
  field { name: "struct" number: 30 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".google.protobuf.Struct" }
  field { name: "value" number: 31 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".google.protobuf.Value" }
  field { name: "list" number: 32 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".google.protobuf.ListValue" }
  field { name: "time" number: 33 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" }
  field { name: "duration" number: 34 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".google.protobuf.Duration" }
  field { name: "wrapped" number: 35 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".google.protobuf.Int64Value" }
  field { name: "wtext" number: 36 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".google.protobuf.StringValue" }
  nested_type { name: "MtextEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING } field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".acme.All" } }
  nested_type { name: "MintEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_SINT64 } field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING } }
  nested_type { name: "MboolEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_BOOL } field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_UINT64 } }
  oneof_decl { name: "choice" } oneof_decl { name: "_maybe" } }
message_type { name: "Echo"
  field { name: "context" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".acphost.acp.v1.CallContext" }
  field { name: "text" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "raw" number: 3 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "rawInput" options { [acphost.acp.v1.verbatim]: true } }
  field { name: "raws" number: 4 label: LABEL_REPEATED type: TYPE_STRING options { [acphost.acp.v1.verbatim]: true } }
  field { name: "echo" number: 5 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".acme.Echo" }
  field { name: "result" number: 6 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".acphost.acp.v1.CallResult" } }
service { name: "S"
  method { name: "All" input_type: ".acme.All" output_type: ".acme.All" options { [acphost.acp.v1.method] { name: "_acme.com/all" waits: true } } }
  method { name: "Echo" input_type: ".acme.Echo" output_type: ".acme.Echo"
    options { idempotency_level: NO_SIDE_EFFECTS [acphost.acp.v1.method] { name: "_acme.com/echo" action: "acme" capability: "x.y" } } }
  method { name: "Watch" input_type: ".acme.Echo" output_type: ".acme.Echo" server_streaming: true options { [acphost.acp.v1.method] { name: "_acme.com/watch" } } }
  method { name: "Nameless" input_type: ".acme.Echo" output_type: ".acme.Echo" options { [acphost.acp.v1.method] { } } }
  method { name: "Plain" input_type: ".acme.Echo" output_type: ".acme.Echo" } }
`

// foreign builds the service of a foreign file as a supervisor gets it: through bytes, its options parsed by resolver.
func foreign(t testing.TB, text string, resolver interface {
	protoregistry.ExtensionTypeResolver
}) protoreflect.ServiceDescriptor {
	t.Helper()
	var parsed descriptorpb.FileDescriptorProto
	if err := prototext.Unmarshal([]byte(text), &parsed); err != nil {
		t.Fatal(err)
	}
	raw, err := proto.Marshal(&parsed)
	if err != nil {
		t.Fatal(err)
	}
	var file descriptorpb.FileDescriptorProto
	if err := (proto.UnmarshalOptions{Resolver: resolver}).Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	fd, err := protodesc.NewFile(&file, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	return fd.Services().Get(0)
}

func compile(t testing.TB, s protoreflect.ServiceDescriptor, name protoreflect.Name) *Method {
	t.Helper()
	md := s.Methods().ByName(name)
	if md == nil {
		t.Fatalf("%s has no method %s", s.FullName(), name)
	}
	m, err := Compile(md)
	if err != nil || m == nil {
		t.Fatalf("Compile(%s) = %v, %v", md.FullName(), m, err)
	}
	return m
}

// decodeRequest parses a frame as a handler would.
func decodeRequest(t testing.TB, m *Method, f *Frame) *dynamicpb.Message {
	t.Helper()
	bufs := f.buffers()
	defer bufs.Free()
	raw := bufs.Materialize()
	if len(raw) != f.Len() {
		t.Errorf("Len() = %d for %d bytes", f.Len(), len(raw))
	}
	msg := dynamicpb.NewMessage(m.Input)
	if err := proto.Unmarshal(raw, msg); err != nil {
		t.Fatalf("the handler cannot parse % x: %v", raw, err)
	}
	return msg
}

func TestCompile_ReadsOptions(t *testing.T) {
	for name, resolver := range map[string]protoregistry.ExtensionTypeResolver{
		"extensions known":   protoregistry.GlobalTypes,
		"extensions unknown": new(protoregistry.Types),
	} {
		t.Run(name, func(t *testing.T) {
			s := foreign(t, everything, resolver)
			m := compile(t, s, "Echo")
			if m.Name != "_acme.com/echo" || m.RPC != "/acme.S/Echo" || m.Action != "acme" || m.Capability != "x.y" || m.Waits || !m.NoSideEffects {
				t.Errorf("got %+v", m)
			}
			if m := compile(t, s, "All"); m.Action != "_acme.com/all" || !m.Waits || m.NoSideEffects {
				t.Errorf("got %+v", m)
			}
			if f := m.request.byName["rawInput"]; f == nil || !f.verbatim {
				t.Errorf("rawInput is not verbatim")
			}
			if m, err := Compile(s.Methods().ByName("Plain")); m != nil || err != nil {
				t.Errorf("an RPC without the option: got %v, %v", m, err)
			}
			for _, bad := range []protoreflect.Name{"Watch", "Nameless"} {
				if m, err := Compile(s.Methods().ByName(bad)); err == nil {
					t.Errorf("%s was compiled to %+v", bad, m)
				}
			}
		})
	}
}

func TestCompile_OptionNeedsImport(t *testing.T) {
	// The same number, without a definition: the file does not import options.proto.
	var options descriptorpb.MethodOptions
	proto.SetExtension(&options, acpv1.E_Method, &acpv1.Method{Name: "fs/read_text_file"})
	raw, err := proto.Marshal(&options)
	if err != nil {
		t.Fatal(err)
	}
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("evil.proto"), Package: proto.String("evil"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M")}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("S"), Method: []*descriptorpb.MethodDescriptorProto{{
			Name: proto.String("X"), InputType: proto.String(".evil.M"), OutputType: proto.String(".evil.M"), Options: &descriptorpb.MethodOptions{},
		}}}},
	}
	file.Service[0].Method[0].Options.ProtoReflect().SetUnknown(raw)
	fd, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := Compile(fd.Services().Get(0).Methods().Get(0)); m != nil || err != nil {
		t.Errorf("got %+v, %v", m, err)
	}
}

func TestCompile_RejectsTypesWithoutJSON(t *testing.T) {
	const head = `name: "bad.proto" package: "bad" syntax: "proto3" dependency: "acphost/acp/v1/options.proto" dependency: "google/protobuf/any.proto"
		dependency: "acphost/acp/v1/context.proto" dependency: "google/protobuf/struct.proto"
		service { name: "S" method { name: "X" input_type: ".bad.M" output_type: ".bad.M" options { [acphost.acp.v1.method] { name: "_x" } } } }
		message_type { name: "M" `
	for name, fields := range map[string]string{
		"an Any":             `field { name: "a" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".google.protobuf.Any" }`,
		"two contexts":       `field { name: "a" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".acphost.acp.v1.CallContext" } field { name: "b" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".acphost.acp.v1.CallContext" }`,
		"many contexts":      `field { name: "a" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".acphost.acp.v1.CallContext" }`,
		"a verbatim integer": `field { name: "a" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 options { [acphost.acp.v1.verbatim]: true } }`,
		"names in two cases": `field { name: "a" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 } field { name: "b" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 json_name: "A" }`,
	} {
		t.Run(name, func(t *testing.T) {
			s := foreign(t, head+fields+"}", protoregistry.GlobalTypes)
			if m, err := Compile(s.Methods().Get(0)); err == nil {
				t.Errorf("it was compiled to %+v", m)
			}
		})
	}
}
