package handler

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
)

// DecodeSettings reads settings into a message of the handler's own, by its field names in snake_case or camelCase. It is
// strict: a name that into does not have, or a value of the wrong type, is INVALID_ARGUMENT and names the setting, with
// its path ("rules[2].action"). into is reset first; nil settings are the defaults.
func DecodeSettings(s *structpb.Struct, into proto.Message) error {
	proto.Reset(into)
	if err := checkSettings(s, into.ProtoReflect(), ""); err != nil {
		return err
	}
	text, err := protojson.Marshal(s)
	if err == nil && s != nil {
		err = protojson.Unmarshal(text, into)
	}
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "settings: %s", plainReason(err))
	}
	return nil
}

// checkSettings walks the settings beside the message type, since protojson's errors do not say where they are.
func checkSettings(s *structpb.Struct, m protoreflect.Message, at string) error {
	fields := m.Descriptor().Fields()
	seen := map[protoreflect.FieldNumber]string{}
	for _, name := range slices.Sorted(maps.Keys(s.GetFields())) {
		path := at + name
		field := fields.ByJSONName(name)
		if field == nil {
			field = fields.ByTextName(name)
		}
		if field == nil {
			return status.Errorf(codes.InvalidArgument, "settings: %s: no such setting; there are: %s", path, names(fields))
		}
		if other, twice := seen[field.Number()]; twice {
			return status.Errorf(codes.InvalidArgument, "settings: %s: the same setting as %s", path, at+other)
		}
		seen[field.Number()] = name
		if err := checkValue(s.GetFields()[name], field, m, path); err != nil {
			return err
		}
	}
	return nil
}

func checkValue(v *structpb.Value, field protoreflect.FieldDescriptor, m protoreflect.Message, path string) error {
	list, object := v.GetListValue(), v.GetStructValue()
	inner := field
	if field.IsMap() {
		inner = field.MapValue()
	}
	nested := inner.Message() != nil && inner.Message().ParentFile().Package() != "google.protobuf"
	switch {
	case nested && field.IsList() && list != nil:
		for n, element := range list.GetValues() {
			at := fmt.Sprintf("%s[%d]", path, n)
			if element.GetStructValue() == nil {
				return status.Errorf(codes.InvalidArgument, "settings: %s: settings by name are expected", at)
			}
			if err := checkSettings(element.GetStructValue(), m.NewField(field).List().NewElement().Message(), at+"."); err != nil {
				return err
			}
		}
		return nil
	case nested && field.IsMap() && object != nil:
		for _, key := range slices.Sorted(maps.Keys(object.GetFields())) {
			element := object.GetFields()[key].GetStructValue()
			if element == nil {
				return status.Errorf(codes.InvalidArgument, "settings: %s.%s: settings by name are expected", path, key)
			}
			if err := checkSettings(element, m.NewField(field).Map().NewValue().Message(), path+"."+key+"."); err != nil {
				return err
			}
		}
		return nil
	case nested && !field.IsList() && !field.IsMap() && object != nil:
		return checkSettings(object, m.NewField(field).Message(), path+".")
	}
	// The leaf alone, as JSON: protojson then knows all the ways to spell a value.
	leaf := &structpb.Struct{Fields: map[string]*structpb.Value{field.JSONName(): v}}
	text, err := protojson.Marshal(leaf)
	if err == nil {
		err = protojson.Unmarshal(text, m.New().Interface())
	}
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "settings: %s: %s", path, plainReason(err))
	}
	return nil
}

func names(fields protoreflect.FieldDescriptors) string {
	all := make([]string, fields.Len())
	for n := range all {
		all[n] = fields.Get(n).TextName()
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

// prefix is what protobuf puts before its messages; it mixes two kinds of space on purpose.
var prefix = regexp.MustCompile(`^proto:[\s\x{00a0}]*(syntax error )?(\(line \d+:\d+\):[\s\x{00a0}]*)?`)

func plainReason(err error) string {
	return strings.ReplaceAll(prefix.ReplaceAllString(err.Error(), ""), "\u00a0", " ")
}
