package yamlproto_test

import (
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	// Registered so that the schema below can import them.
	_ "google.golang.org/protobuf/types/known/anypb"
	_ "google.golang.org/protobuf/types/known/durationpb"
	_ "google.golang.org/protobuf/types/known/fieldmaskpb"
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"
)

// schema holds one field of every kind that a .proto file can declare.
const schema = `
name: "yamlproto_test.proto"
package: "yamlproto.test"
syntax: "proto3"
dependency: [
  "google/protobuf/any.proto", "google/protobuf/duration.proto", "google/protobuf/field_mask.proto",
  "google/protobuf/struct.proto", "google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"
]
enum_type {
  name: "Verdict"
  value { name: "VERDICT_UNSPECIFIED" number: 0 }
  value { name: "VERDICT_ALLOW" number: 1 }
  value { name: "VERDICT_DENY" number: 2 }
  value { name: "VERDICT_OFF" number: -3 }
}
message_type {
  name: "All"
  field { name: "bool_field" number: 1 type: TYPE_BOOL label: LABEL_OPTIONAL }
  field { name: "int32_field" number: 2 type: TYPE_INT32 label: LABEL_OPTIONAL }
  field { name: "uint32_field" number: 3 type: TYPE_UINT32 label: LABEL_OPTIONAL }
  field { name: "int64_field" number: 4 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "uint64_field" number: 5 type: TYPE_UINT64 label: LABEL_OPTIONAL }
  field { name: "float_field" number: 6 type: TYPE_FLOAT label: LABEL_OPTIONAL }
  field { name: "double_field" number: 7 type: TYPE_DOUBLE label: LABEL_OPTIONAL }
  field { name: "string_field" number: 8 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "bytes_field" number: 9 type: TYPE_BYTES label: LABEL_OPTIONAL }
  field { name: "verdict" number: 10 type: TYPE_ENUM type_name: ".yamlproto.test.Verdict" label: LABEL_OPTIONAL }
  field { name: "child" number: 11 type: TYPE_MESSAGE type_name: ".yamlproto.test.All" label: LABEL_OPTIONAL }
  field { name: "strings" number: 12 type: TYPE_STRING label: LABEL_REPEATED }
  field { name: "children" number: 13 type: TYPE_MESSAGE type_name: ".yamlproto.test.All" label: LABEL_REPEATED }
  field { name: "labels" number: 14 type: TYPE_MESSAGE type_name: ".yamlproto.test.All.LabelsEntry" label: LABEL_REPEATED }
  field { name: "by_number" number: 15 type: TYPE_MESSAGE type_name: ".yamlproto.test.All.ByNumberEntry" label: LABEL_REPEATED }
  field { name: "maybe" number: 16 type: TYPE_INT32 label: LABEL_OPTIONAL oneof_index: 1 proto3_optional: true }
  field { name: "either" number: 17 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "or" number: 18 type: TYPE_INT32 label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "settings" number: 19 type: TYPE_MESSAGE type_name: ".google.protobuf.Struct" label: LABEL_OPTIONAL }
  field { name: "value" number: 20 type: TYPE_MESSAGE type_name: ".google.protobuf.Value" label: LABEL_OPTIONAL }
  field { name: "wait" number: 21 type: TYPE_MESSAGE type_name: ".google.protobuf.Duration" label: LABEL_OPTIONAL }
  field { name: "at" number: 22 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" label: LABEL_OPTIONAL }
  field { name: "wrapped" number: 23 type: TYPE_MESSAGE type_name: ".google.protobuf.UInt32Value" label: LABEL_OPTIONAL }
  field { name: "mask" number: 24 type: TYPE_MESSAGE type_name: ".google.protobuf.FieldMask" label: LABEL_OPTIONAL }
  field { name: "any" number: 25 type: TYPE_MESSAGE type_name: ".google.protobuf.Any" label: LABEL_OPTIONAL }
  field { name: "flags" number: 26 type: TYPE_MESSAGE type_name: ".yamlproto.test.All.FlagsEntry" label: LABEL_REPEATED }
  field { name: "numbers" number: 27 type: TYPE_SINT64 label: LABEL_REPEATED }
  oneof_decl { name: "choice" }
  oneof_decl { name: "_maybe" }
  nested_type {
    name: "LabelsEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL }
  }
  nested_type {
    name: "ByNumberEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".yamlproto.test.All" label: LABEL_OPTIONAL }
  }
  nested_type {
    name: "FlagsEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_BOOL label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_ENUM type_name: ".yamlproto.test.Verdict" label: LABEL_OPTIONAL }
  }
}`

// all returns the descriptor of the schema's message.
func all(tb testing.TB) protoreflect.MessageDescriptor {
	tb.Helper()
	var file descriptorpb.FileDescriptorProto
	if err := prototext.Unmarshal([]byte(schema), &file); err != nil {
		tb.Fatal(err)
	}
	fd, err := protodesc.NewFile(&file, protoregistry.GlobalFiles)
	if err != nil {
		tb.Fatal(err)
	}
	return fd.Messages().ByName("All")
}

func newAll(md protoreflect.MessageDescriptor) *dynamicpb.Message { return dynamicpb.NewMessage(md) }
