package transcode

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"
)

// Method is a JSON-RPC method and its RPC. It is immutable after Compile and safe for concurrent use.
type Method struct {
	// Name is the JSON-RPC method, "fs/read_text_file".
	Name string
	// RPC is the full gRPC method, "/acphost.fs.v1.FileSystemService/ReadTextFile".
	RPC string
	// Action is the kind of action that the gate decides on. The default is the method's name.
	Action string
	// Capability is the path in clientCapabilities that announces the method, or empty.
	Capability string
	// Waits means that the answer depends on an external event, so that the call has no deadline.
	Waits bool
	// NoSideEffects means that a call may be cancelled at once.
	NoSideEffects bool
	// Input and Output are the RPC's messages.
	Input, Output protoreflect.MessageDescriptor

	request, response           *plan
	requestPaths, responsePaths *Paths
}

// Compile returns the Method of an RPC with the option acphost.acp.v1.method. It returns nil for an RPC without it. The
// option counts only if the RPC's file imports acphost's options.proto. The error names the part of the RPC's messages
// that cannot be converted to JSON.
func Compile(md protoreflect.MethodDescriptor) (*Method, error) {
	option, err := methodOption(md)
	if err != nil || option == nil {
		return nil, err
	}
	switch {
	case option.GetName() == "":
		return nil, fmt.Errorf("rpc %s: the option acphost.acp.v1.method names no method", md.FullName())
	case md.IsStreamingClient() || md.IsStreamingServer():
		return nil, fmt.Errorf("rpc %s: a streaming RPC cannot answer a method", md.FullName())
	}
	m := &Method{
		Name:       option.GetName(),
		RPC:        "/" + string(md.Parent().FullName()) + "/" + string(md.Name()),
		Action:     option.GetAction(),
		Capability: option.GetCapability(),
		Waits:      option.GetWaits(),
		Input:      md.Input(),
		Output:     md.Output(),
	}
	if m.Action == "" {
		m.Action = m.Name
	}
	if options, ok := md.Options().(*descriptorpb.MethodOptions); ok {
		m.NoSideEffects = options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
	}
	c := compiler{plans: map[protoreflect.FullName]*plan{}}
	if m.request, err = c.message(md.Input()); err != nil {
		return nil, fmt.Errorf("rpc %s: %w", md.FullName(), err)
	}
	if m.response, err = c.message(md.Output()); err != nil {
		return nil, fmt.Errorf("rpc %s: %w", md.FullName(), err)
	}
	if m.requestPaths, err = PathsOf(md.Input()); err != nil {
		return nil, fmt.Errorf("rpc %s: %w", md.FullName(), err)
	}
	if m.responsePaths, err = PathsOf(md.Output()); err != nil {
		return nil, fmt.Errorf("rpc %s: %w", md.FullName(), err)
	}
	if m.request.shape != shapeObject || m.response.shape != shapeObject {
		return nil, fmt.Errorf("rpc %s: request and response must be messages of its own", md.FullName())
	}
	return m, nil
}

// Names returns the JSON names of the request's members, for callers that parse params before they are encoded.
func (m *Method) Names() []string {
	names := make([]string, len(m.request.fields))
	for i, f := range m.request.fields {
		names[i] = f.name
	}
	return names
}

// EncodeRequest converts params, one valid JSON value, to the request's wire bytes, with c as its CallContext. If c is
// nil, the caller must call AddContext. Missing params and null are an empty object.
//
// The frame may refer to params to avoid copies. gRPC may still use them after the frame is freed and after the call
// has ended, so params must never be modified or reused: pass a copy that is left to the garbage collector.
//
// The error is CodeInvalidRequest for ambiguous params: a known member, at any depth, that occurs twice or with its
// name in another case. It is CodeInvalidParams for all others and names the member: "env[0].name: expected a string,
// got 5".
func (m *Method) EncodeRequest(params []byte, c *acpv1.CallContext) (*Frame, *jsonrpc.Error) {
	e := encoder{b: params}
	i := lex.SkipSpace(params, 0)
	switch lex.At(params, i) {
	case '{':
		e.out = make([]byte, 0, min(len(params), 512)+contextRoom)
		next, fault := e.message(m.request, i)
		if fault == nil && lex.TextEnd(params, next) < 0 {
			fault = badParams("the params are not valid JSON")
		}
		if fault != nil {
			return nil, fault.error()
		}
	case 'n', 0:
		if required := m.request.required; len(required) > 0 {
			return nil, badParams("required").in(required[0].name).error()
		}
	default:
		return nil, badParams("the params must be an object, got %s", e.got(i)).error()
	}
	f := &Frame{method: m, head: e.out, refs: e.refs}
	if c != nil {
		if err := f.AddContext(c); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// contextRoom is the number of bytes reserved for a CallContext, enough for a few roots.
const contextRoom = 512

// AddContext sets the CallContext of a request that was encoded without one. It does not change a request whose type
// has none. It must be called at most once, and before the frame is sent.
func (f *Frame) AddContext(c *acpv1.CallContext) *jsonrpc.Error {
	if f.method == nil || f.method.request.context == 0 {
		return nil
	}
	f.head = protowire.AppendTag(f.head, f.method.request.context, protowire.BytesType)
	f.head = protowire.AppendVarint(f.head, uint64(proto.Size(c)))
	head, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(f.head, c)
	if err != nil {
		// An agent can cause this error only by a session id with an unpaired surrogate.
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("the call's context cannot be encoded: %v", err)}
	}
	f.head = head
	return nil
}

// DecodeReply converts a received response to the line that answers the JSON-RPC request id. The line consists of
// pieces in order. DecodeReply removes the CallResult and returns it, or nil if none exists. The pieces refer to the
// frame: they are valid until it is freed. The error describes the defect of the handler's response.
func (m *Method) DecodeReply(id []byte, f *Frame) (pieces [][]byte, result *acpv1.CallResult, err error) {
	d := newDecoder(f)
	d.out = jsonrpc.AppendResultPrefix(d.out, id)
	if err := d.message(m.response, f.cursor()); err != nil {
		return nil, nil, fmt.Errorf("response of %s: %w", m.RPC, err)
	}
	d.out = append(d.out, '}', '\n')
	if d.result != nil {
		result = &acpv1.CallResult{}
		if err := proto.Unmarshal(d.result, result); err != nil {
			return nil, nil, fmt.Errorf("response of %s: its CallResult: %w", m.RPC, err)
		}
	}
	return cut(make([][]byte, 0, 2*len(d.refs)+1), d.out, d.refs), result, nil
}

var errDeep = errors.New("nested too deep")
