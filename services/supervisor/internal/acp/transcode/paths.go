package transcode

import (
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
)

// PathMap translates paths between a client and a handler that has the same files under other paths. It must be safe
// for concurrent use.
type PathMap interface {
	// SidecarPath returns the handler's path for a client's path. It returns an error if none exists.
	SidecarPath(path string) (string, error)
	// ClientPath returns the client's path for a handler's path. It returns an error if none exists.
	ClientPath(path string) (string, error)
	// ClientText replaces the handler's paths in a text by the client's.
	ClientText(text string) string
	// CheckCommand returns an error if a command names a path that is mapped.
	CheckCommand(c Command) error
}

// Command is a command that a request asks a handler to run, as the client wrote it.
type Command struct {
	// Command is the program. If there are no Args, it may be a line for a shell.
	Command string
	Args    []string
	// Variables are the values of its environment variables.
	Variables []string
	// Directory is the absolute working directory, or empty if it is unknown.
	Directory string
}

// Paths lists the fields of a message type that contain paths, according to their option acphost.acp.v1.path. It is
// immutable and safe for concurrent use. Nil means that there are none.
type Paths struct {
	name    protoreflect.FullName
	fields  map[protowire.Number]pathField
	command bool // a field is a command
	mapped  bool // it or a nested message has paths; used only during compilation
}

// pathField is a field that contains paths, or a message that does.
type pathField struct {
	use acpv1.PathUse
	sub *Paths
}

// PathsOf returns the fields of a message type that contain paths, or nil. It returns an error for options that cannot
// be parsed, or that belong to a field that is not a string.
func PathsOf(md protoreflect.MessageDescriptor) (*Paths, error) {
	all := map[protoreflect.FullName]*Paths{}
	p, err := compilePaths(md, all)
	if err != nil {
		return nil, err
	}
	for again := true; again; { // messages may be recursive
		again = false
		for _, p := range all {
			for _, f := range p.fields {
				if !p.mapped && (f.sub == nil || f.sub.mapped) {
					p.mapped, again = true, true
				}
			}
		}
	}
	for _, p := range all {
		for number, f := range p.fields {
			if f.sub != nil && !f.sub.mapped {
				delete(p.fields, number)
			}
		}
	}
	if !p.mapped {
		return nil, nil
	}
	return p, nil
}

func compilePaths(md protoreflect.MessageDescriptor, all map[protoreflect.FullName]*Paths) (*Paths, error) {
	if p := all[md.FullName()]; p != nil {
		return p, nil
	}
	p := &Paths{name: md.FullName(), fields: map[protowire.Number]pathField{}}
	all[md.FullName()] = p
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		use, err := pathUse(fd)
		if err != nil {
			return nil, err
		}
		value := fd
		if fd.IsMap() {
			value = fd.MapValue()
		}
		switch {
		case use != acpv1.PathUse_PATH_USE_UNSPECIFIED && value.Kind() != protoreflect.StringKind:
			return nil, fmt.Errorf("%s: only string fields can be paths", fd.FullName())
		case use != acpv1.PathUse_PATH_USE_UNSPECIFIED && fd.IsMap():
			entry := &Paths{name: fd.Message().FullName(), fields: map[protowire.Number]pathField{value.Number(): {use: use}}}
			all[entry.name] = entry
			p.fields[fd.Number()] = pathField{sub: entry}
		case use != acpv1.PathUse_PATH_USE_UNSPECIFIED:
			p.fields[fd.Number()] = pathField{use: use}
			p.command = p.command || use == acpv1.PathUse_PATH_USE_COMMAND
		case fd.Message() != nil && fd.Kind() == protoreflect.MessageKind:
			sub, err := compilePaths(fd.Message(), all)
			if err != nil {
				return nil, err
			}
			p.fields[fd.Number()] = pathField{sub: sub}
		}
	}
	return p, nil
}

// pathUse parses the path option, as isVerbatim parses its option.
func pathUse(fd protoreflect.FieldDescriptor) (acpv1.PathUse, error) {
	var options descriptorpb.FieldOptions
	if err := reparse(fd.Options(), &options); err != nil {
		return 0, fmt.Errorf("%s: options: %w", fd.FullName(), err)
	}
	if !proto.HasExtension(&options, acpv1.E_Path) || !importsOptions(fd.ParentFile()) {
		return acpv1.PathUse_PATH_USE_UNSPECIFIED, nil
	}
	return proto.GetExtension(&options, acpv1.E_Path).(acpv1.PathUse), nil
}

// Request converts the wire bytes of a request to the handler's paths.
func (p *Paths) Request(m PathMap, wire []byte) ([]byte, error) {
	return p.rewriteAll(&rewriter{maps: m}, wire)
}

// Response converts the wire bytes of a response to the client's paths.
func (p *Paths) Response(m PathMap, wire []byte) ([]byte, error) {
	return p.rewriteAll(&rewriter{maps: m, response: true}, wire)
}

func (p *Paths) rewriteAll(r *rewriter, wire []byte) ([]byte, error) {
	if err := r.rewrite(p, cursor{chunks: chunks{first: wire}}); err != nil {
		return nil, err
	}
	return r.out, nil
}

// WithPaths returns an encoded request with the handler's paths. It returns the frame itself if the request has no
// paths.
func (f *Frame) WithPaths(m PathMap) (*Frame, error) {
	if f.method == nil || f.method.requestPaths == nil {
		return f, nil
	}
	pieces := cut(make([][]byte, 0, 2*len(f.refs)+1), f.head, f.refs)
	r := rewriter{maps: m, byReference: true}
	if err := r.rewrite(f.method.requestPaths, piecesOf(pieces)); err != nil {
		return nil, err
	}
	return &Frame{method: f.method, head: r.out, refs: r.refs}, nil
}

// ReplyPaths replaces the handler's paths by the client's in the frame that answers the request f.
func (f *Frame) ReplyPaths(m PathMap, reply *Frame) error {
	if f.method == nil || f.method.responsePaths == nil {
		return nil
	}
	r := rewriter{maps: m, response: true, byReference: true}
	if err := r.rewrite(f.method.responsePaths, reply.cursor()); err != nil {
		return err
	}
	under := reply.received // the buffers that the pieces refer to
	reply.under, reply.received = &under, nil
	for _, piece := range cut(make([][]byte, 0, 2*len(r.refs)+1), r.out, r.refs) {
		reply.received = append(reply.received, mem.SliceBuffer(piece))
	}
	return nil
}

// piecesOf returns a cursor over pieces.
func piecesOf(pieces [][]byte) cursor {
	if len(pieces) == 0 {
		return cursor{}
	}
	return cursor{chunks: chunks{first: pieces[0], rest: pieces[1:]}}
}

// keptByReference is the size in bytes from which on a value without paths is not copied.
const keptByReference = 4 << 10

// rewriter copies a message and replaces its paths.
type rewriter struct {
	maps     PathMap
	response bool // from the handler
	// byReference means that long values of the outermost message are in refs.
	byReference bool
	out         []byte
	refs        []ref
	command     *Command // of the request; nil if it has none
	root        string   // the first root of the session, as the client wrote it
}

// rewrite copies the outermost message.
func (r *rewriter) rewrite(p *Paths, c cursor) error {
	if p.command && !r.response {
		r.command = &Command{}
	}
	out, err := r.message(p, c, r.out, 1)
	if err != nil {
		return err
	}
	r.out = out
	if r.command == nil {
		return nil
	}
	if r.command.Directory == "" {
		r.command.Directory = r.root
	}
	return r.maps.CheckCommand(*r.command)
}

// message appends the message to out. It omits groups, which no message of acphost has.
func (r *rewriter) message(p *Paths, c cursor, out []byte, depth int) ([]byte, error) {
	if depth > maxNesting {
		return nil, errDeep
	}
	for !c.done() {
		number, wire, ok := c.tag()
		var v found
		if !ok || !c.value(number, wire, &v) {
			return nil, errCut
		}
		switch wire {
		case protowire.VarintType:
			out = protowire.AppendVarint(protowire.AppendTag(out, number, wire), v.num)
		case protowire.Fixed32Type:
			out = protowire.AppendFixed32(protowire.AppendTag(out, number, wire), uint32(v.num))
		case protowire.Fixed64Type:
			out = protowire.AppendFixed64(protowire.AppendTag(out, number, wire), v.num)
		case protowire.BytesType:
			out = protowire.AppendTag(out, number, wire)
			var err error
			switch f, has := p.fields[number]; {
			case has && f.sub != nil:
				out, err = r.sub(f.sub, v.bytes, out, depth)
			case has:
				out, err = r.text(p, f.use, string(v.bytes.join()), out, depth)
			default:
				out = r.other(v.bytes, out, depth)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// sub appends a nested message, after its length.
func (r *rewriter) sub(p *Paths, value chunks, out []byte, depth int) ([]byte, error) {
	inner, err := r.message(p, cursor{chunks: value}, nil, depth+1)
	if err != nil {
		return nil, err
	}
	return protowire.AppendBytes(out, inner), nil
}

// other appends a value without paths.
func (r *rewriter) other(value chunks, out []byte, depth int) []byte {
	size := len(value.first)
	for _, b := range value.rest {
		size += len(b)
	}
	out = protowire.AppendVarint(out, uint64(size))
	for _, b := range append([][]byte{value.first}, value.rest...) {
		if r.byReference && depth == 1 && len(b) >= keptByReference {
			r.refs = append(r.refs, ref{at: len(out), data: b})
		} else {
			out = append(out, b...)
		}
	}
	return out
}

// text appends a string with paths.
func (r *rewriter) text(p *Paths, use acpv1.PathUse, text string, out []byte, depth int) ([]byte, error) {
	var err error
	switch {
	case use == acpv1.PathUse_PATH_USE_PATH && r.response:
		text, err = r.maps.ClientPath(text)
	case use == acpv1.PathUse_PATH_USE_PATH:
		if p.name == rootType && r.root == "" {
			r.root = text
		}
		if r.command != nil && depth == 1 && p.command {
			r.command.Directory = text
		}
		text, err = r.maps.SidecarPath(text)
	case use == acpv1.PathUse_PATH_USE_TEXT && r.response:
		text = r.maps.ClientText(text)
	case r.command == nil:
	case use == acpv1.PathUse_PATH_USE_COMMAND:
		r.command.Command = text
	case use == acpv1.PathUse_PATH_USE_ARGUMENT:
		r.command.Args = append(r.command.Args, text)
	case use == acpv1.PathUse_PATH_USE_VARIABLE:
		r.command.Variables = append(r.command.Variables, text)
	}
	if err != nil {
		return nil, err
	}
	return protowire.AppendString(out, text), nil
}

// rootType is the message type of a session's root.
var rootType = (&acpv1.Root{}).ProtoReflect().Descriptor().FullName()
