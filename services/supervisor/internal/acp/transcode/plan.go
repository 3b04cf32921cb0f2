package transcode

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"
)

const (
	contextType = protoreflect.FullName("acphost.acp.v1.CallContext")
	resultType  = protoreflect.FullName("acphost.acp.v1.CallResult")
)

// maxNesting limits the nesting of messages, in both directions.
const maxNesting = 250

// shape is the JSON form of a message.
type shape uint8

const (
	shapeObject  shape = iota
	shapeStruct        // google.protobuf.Struct
	shapeValue         // google.protobuf.Value
	shapeList          // google.protobuf.ListValue
	shapeText          // Timestamp, Duration, FieldMask: a string with its own format
	shapeWrapper       // google.protobuf.StringValue and the other wrappers: only the value
)

// shapes are the JSON forms of the well-known types.
var shapes = map[protoreflect.Name]shape{
	"Struct": shapeStruct, "Value": shapeValue, "ListValue": shapeList,
	"Timestamp": shapeText, "Duration": shapeText, "FieldMask": shapeText,
	"DoubleValue": shapeWrapper, "FloatValue": shapeWrapper, "Int64Value": shapeWrapper, "UInt64Value": shapeWrapper,
	"Int32Value": shapeWrapper, "UInt32Value": shapeWrapper, "BoolValue": shapeWrapper, "StringValue": shapeWrapper,
	"BytesValue": shapeWrapper,
}

// plan contains the data to convert one message type from JSON to wire bytes and back. It is immutable once built.
type plan struct {
	name     protoreflect.FullName
	shape    shape
	fields   []*field          // the fields with a JSON name, in the order of their declaration
	byName   map[string]*field // by JSON name
	byFolded map[string]*field // by case-folded JSON name
	byNumber map[protowire.Number]*field
	required []*field
	context  protowire.Number // field number of the CallContext; 0: none
	result   protowire.Number // field number of the CallResult; 0: none
}

// field is the data of one field.
type field struct {
	index    int // index in plan.fields
	name     string
	member   []byte // the JSON name, quoted and with a colon
	number   protowire.Number
	tag      []byte // tag of one value
	packTag  []byte // tag of packed values; nil: not packed
	kind     protoreflect.Kind
	wire     protowire.Type
	list     bool
	presence bool
	verbatim bool
	sub      *plan // plan of a message
	enum     *enum
	key, val *field // of a map
	entry    *plan  // of a map: the message of one key and value
	rivals   []int  // the other fields of its oneof
}

// enum maps the names of an enum to its numbers, and back.
type enum struct {
	numbers map[string]int32
	names   map[int32][]byte // quoted
	closed  bool
}

// compiler builds plans. It remembers the plans in progress, because types may be recursive.
type compiler struct {
	plans map[protoreflect.FullName]*plan
}

func (c *compiler) message(md protoreflect.MessageDescriptor) (*plan, error) {
	if p, ok := c.plans[md.FullName()]; ok {
		return p, nil
	}
	p := &plan{
		name:     md.FullName(),
		byName:   map[string]*field{},
		byFolded: map[string]*field{},
		byNumber: map[protowire.Number]*field{},
	}
	c.plans[md.FullName()] = p
	if p.name.Parent() == "google.protobuf" {
		p.shape = shapes[p.name.Name()]
	}
	switch {
	case p.name == "google.protobuf.Any":
		return nil, fmt.Errorf("%s has no JSON form that follows from a descriptor; use google.protobuf.Struct", md.FullName())
	case p.shape != shapeObject && p.shape != shapeWrapper:
		return p, nil
	}
	for i := range md.Fields().Len() {
		if err := c.field(p, md.Fields().Get(i)); err != nil {
			return nil, err
		}
	}
	for i := range md.Oneofs().Len() {
		of := md.Oneofs().Get(i).Fields()
		for j := range of.Len() {
			f := p.byNumber[of.Get(j).Number()]
			for k := range of.Len() {
				if rival := p.byNumber[of.Get(k).Number()]; f != nil && rival != nil && j != k {
					f.rivals = append(f.rivals, rival.index)
				}
			}
		}
	}
	return p, nil
}

func (c *compiler) field(p *plan, fd protoreflect.FieldDescriptor) error {
	if fd.Message() != nil && !fd.IsMap() {
		switch fd.Message().FullName() {
		case contextType, resultType:
			if fd.IsList() {
				return fmt.Errorf("%s: a field of type %s cannot be repeated", fd.FullName(), fd.Message().FullName())
			}
			if at := &p.context; fd.Message().FullName() == contextType && *at == 0 {
				*at = fd.Number()
			} else if at := &p.result; fd.Message().FullName() == resultType && *at == 0 {
				*at = fd.Number()
			} else {
				return fmt.Errorf("%s: a second field of type %s", fd.FullName(), fd.Message().FullName())
			}
			return nil
		}
	}
	f, err := c.value(fd)
	if err != nil {
		return err
	}
	f.index = len(p.fields)
	f.presence = fd.HasPresence()
	f.member = append(jsonrpc.AppendString(nil, f.name), ':')
	if fd.IsMap() {
		f.list = false
		if f.key, err = c.value(fd.MapKey()); err != nil {
			return err
		}
		if f.val, err = c.value(fd.MapValue()); err != nil {
			return err
		}
		f.val.index = 1
		f.entry = &plan{
			fields:   []*field{f.key, f.val},
			byNumber: map[protowire.Number]*field{f.key.number: f.key, f.val.number: f.val},
		}
	}
	folded := string(lex.AppendFolded(nil, []byte(f.name)))
	if other, taken := p.byFolded[folded]; taken {
		return fmt.Errorf("%s: its JSON name %q differs from %q only in case", fd.FullName(), f.name, other.name)
	}
	p.byFolded[folded] = f
	p.byName[f.name] = f
	p.byNumber[f.number] = f
	p.fields = append(p.fields, f)
	if fd.Cardinality() == protoreflect.Required {
		p.required = append(p.required, f)
	}
	return nil
}

// value compiles the type of one value of the field.
func (c *compiler) value(fd protoreflect.FieldDescriptor) (*field, error) {
	f := &field{name: fd.JSONName(), number: fd.Number(), kind: fd.Kind(), list: fd.IsList()}
	switch fd.Kind() {
	case protoreflect.GroupKind:
		return nil, fmt.Errorf("%s: groups are not supported; use a message", fd.FullName())
	case protoreflect.MessageKind:
		if !fd.IsMap() {
			sub, err := c.message(fd.Message())
			if err != nil {
				return nil, err
			}
			f.sub = sub
		}
	case protoreflect.EnumKind:
		f.enum = compileEnum(fd.Enum())
	}
	f.wire = wireType(fd.Kind())
	f.tag = protowire.AppendTag(nil, f.number, f.wire)
	if fd.IsPacked() {
		f.packTag = protowire.AppendTag(nil, f.number, protowire.BytesType)
	}
	verbatim, err := isVerbatim(fd)
	if err != nil {
		return nil, err
	}
	if verbatim && fd.Kind() != protoreflect.StringKind {
		return nil, fmt.Errorf("%s: only string fields can be verbatim", fd.FullName())
	}
	f.verbatim = verbatim
	return f, nil
}

func compileEnum(ed protoreflect.EnumDescriptor) *enum {
	e := &enum{numbers: map[string]int32{}, names: map[int32][]byte{}, closed: ed.IsClosed()}
	for i := range ed.Values().Len() {
		v := ed.Values().Get(i)
		e.numbers[string(v.Name())] = int32(v.Number())
		if _, taken := e.names[int32(v.Number())]; !taken {
			e.names[int32(v.Number())] = jsonrpc.AppendString(nil, string(v.Name()))
		}
	}
	return e
}

func wireType(k protoreflect.Kind) protowire.Type {
	switch k {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	default:
		return protowire.VarintType
	}
}

// isVerbatim parses the verbatim option. The options of foreign descriptors may contain it as unknown bytes, or as
// their own type. Parsing them again with the compiled-in type works in both cases.
func isVerbatim(fd protoreflect.FieldDescriptor) (bool, error) {
	var options descriptorpb.FieldOptions
	if err := reparse(fd.Options(), &options); err != nil {
		return false, fmt.Errorf("%s: options: %w", fd.FullName(), err)
	}
	return proto.HasExtension(&options, acpv1.E_Verbatim) && proto.GetExtension(&options, acpv1.E_Verbatim).(bool) &&
		importsOptions(fd.ParentFile()), nil
}

// methodOption parses the method option. It returns nil if none exists.
func methodOption(md protoreflect.MethodDescriptor) (*acpv1.Method, error) {
	var options descriptorpb.MethodOptions
	if err := reparse(md.Options(), &options); err != nil {
		return nil, fmt.Errorf("%s: options: %w", md.FullName(), err)
	}
	if !proto.HasExtension(&options, acpv1.E_Method) || !importsOptions(md.ParentFile()) {
		return nil, nil
	}
	return proto.GetExtension(&options, acpv1.E_Method).(*acpv1.Method), nil
}

func reparse(from, into proto.Message) error {
	raw, err := proto.MarshalOptions{AllowPartial: true}.Marshal(from)
	if err != nil {
		return err
	}
	return proto.UnmarshalOptions{AllowPartial: true, Resolver: protoregistry.GlobalTypes}.Unmarshal(raw, into)
}

// importsOptions reports whether a file imports acphost's options. An extension number has a meaning only in a file
// that imports its definition; extensions of others may have the same numbers.
func importsOptions(file protoreflect.FileDescriptor) bool {
	ours := acpv1.File_acphost_acp_v1_options_proto
	for i := range file.Imports().Len() {
		imported := file.Imports().Get(i)
		if imported.Path() == ours.Path() && !imported.IsPlaceholder() {
			method := imported.Extensions().ByName(acpv1.E_Method.TypeDescriptor().Name())
			return method != nil && method.Number() == acpv1.E_Method.TypeDescriptor().Number()
		}
		if imported.IsPublic && importsOptions(imported.FileDescriptor) {
			return true
		}
	}
	return false
}
