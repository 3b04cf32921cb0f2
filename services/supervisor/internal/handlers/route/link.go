package route

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
)

// maxImportDepth limits the nesting of imports: the files come from another process and are linked by recursion.
const maxImportDepth = 100

// linker converts a handler's file descriptor protos to descriptors. It replaces files of acphost's own packages and of
// google/protobuf by the compiled-in ones, so that messages and options have the compiled-in meaning.
type linker struct {
	files      map[string]*descriptorpb.FileDescriptorProto
	replaced   map[string]string // path in the handler's set → compiled-in path
	built      *protoregistry.Files
	building   map[string]bool
	imports    map[string]bool // whether a built file imports options.proto, itself or through others
	hasOptions bool
}

// linkFiles links all of the files. It modifies the protos.
func linkFiles(files []*descriptorpb.FileDescriptorProto) (*linker, error) {
	l := &linker{
		files:    make(map[string]*descriptorpb.FileDescriptorProto, len(files)),
		replaced: map[string]string{},
		built:    new(protoregistry.Files),
		building: map[string]bool{},
		imports:  map[string]bool{},
	}
	for _, f := range files {
		if err := l.add(f); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		if l.replaced[f.GetName()] == "" {
			if err := l.link(f.GetName(), 0); err != nil {
				return nil, err
			}
		}
	}
	return l, nil
}

// add adds one file, or records the compiled-in file that replaces it.
func (l *linker) add(f *descriptorpb.FileDescriptorProto) error {
	name := f.GetName()
	if ours(f.GetPackage()) {
		own := compiledInFile(f)
		if own == nil {
			return fmt.Errorf("file %s says that its package is %s: packages of that name are acphost's own, and it has no such file", name, f.GetPackage())
		}
		l.replaced[name] = own.Path()
		l.hasOptions = l.hasOptions || own.Path() == acpv1.File_acphost_acp_v1_options_proto.Path()
		return nil
	}
	if global(name) != nil {
		l.replaced[name] = name
		return nil
	}
	if other := l.files[name]; other != nil && !proto.Equal(other, f) {
		return fmt.Errorf("file %s is there twice, with different content", name)
	}
	l.files[name] = f
	return nil
}

// link builds a file after its imports.
func (l *linker) link(name string, depth int) error {
	if _, done := l.imports[name]; done {
		return nil
	}
	f := l.files[name]
	switch {
	case f == nil:
		return fmt.Errorf("file %s is imported but missing; include all imports", name)
	case l.building[name]:
		return fmt.Errorf("file %s imports itself", name)
	case depth > maxImportDepth:
		return fmt.Errorf("file %s: imports nest more than %d deep", name, maxImportDepth)
	}
	l.building[name] = true
	options := false
	for i, dep := range f.GetDependency() {
		if own := l.replaced[dep]; own != "" {
			dep = own
			f.Dependency[i] = own
		}
		if global(dep) != nil {
			options = options || dep == acpv1.File_acphost_acp_v1_options_proto.Path()
			continue
		}
		if err := l.link(dep, depth+1); err != nil {
			return err
		}
		options = options || l.imports[dep]
	}
	if !options {
		dropOptions(f)
	}
	fd, err := protodesc.NewFile(f, resolver{l.built})
	if err != nil {
		return fmt.Errorf("file %s: %w", name, err)
	}
	if err := l.built.RegisterFile(fd); err != nil {
		return fmt.Errorf("file %s: %w", name, err)
	}
	l.imports[name] = options
	return nil
}

// dropOptions removes fields with the numbers of acphost's options from a file that does not import them: numbers of
// custom options are unique only among files that import each other.
func dropOptions(f *descriptorpb.FileDescriptorProto) {
	for _, s := range f.GetService() {
		for _, m := range s.GetMethod() {
			if m.Options != nil {
				proto.ClearExtension(m.Options, acpv1.E_Method)
			}
		}
	}
	var fields func(m *descriptorpb.DescriptorProto)
	fields = func(m *descriptorpb.DescriptorProto) {
		for _, field := range m.GetField() {
			if field.Options != nil {
				proto.ClearExtension(field.Options, acpv1.E_Verbatim)
			}
		}
		for _, nested := range m.GetNestedType() {
			fields(nested)
		}
	}
	for _, m := range f.GetMessageType() {
		fields(m)
	}
}

// resolver resolves the references of a file: in the handler's files, and in the compiled-in files that may replace
// these. A handler cannot refer to other files of the program's registry.
type resolver struct{ built *protoregistry.Files }

// FindFileByPath implements protodesc.Resolver.
func (r resolver) FindFileByPath(name string) (protoreflect.FileDescriptor, error) {
	if fd := global(name); fd != nil {
		return fd, nil
	}
	return r.built.FindFileByPath(name)
}

// FindDescriptorByName implements protodesc.Resolver.
func (r resolver) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	d, err := r.built.FindDescriptorByName(name)
	if !errors.Is(err, protoregistry.NotFound) {
		return d, err
	}
	if d, err = protoregistry.GlobalFiles.FindDescriptorByName(name); err != nil {
		return nil, err
	}
	if global(d.ParentFile().Path()) == nil {
		return nil, protoregistry.NotFound
	}
	return d, nil
}

// global returns the compiled-in file of a path that handlers may refer to, or nil.
func global(name string) protoreflect.FileDescriptor {
	for _, f := range contract() {
		if f.Path() == name {
			return f
		}
	}
	if strings.HasPrefix(name, "google/protobuf/") {
		if f, err := protoregistry.GlobalFiles.FindFileByPath(name); err == nil {
			return f
		}
	}
	return nil
}

// compiledInFile returns the compiled-in file that replaces a handler's file in an acphost package, or nil. The folder
// may differ, since it depends on where the handler's author ran the compiler.
func compiledInFile(f *descriptorpb.FileDescriptorProto) protoreflect.FileDescriptor {
	for _, own := range contract() {
		if string(own.Package()) == f.GetPackage() && path.Base(own.Path()) == path.Base(f.GetName()) {
			return own
		}
	}
	return nil
}

// contract lists the compiled-in files that a handler's own may import.
func contract() []protoreflect.FileDescriptor {
	return []protoreflect.FileDescriptor{
		acpv1.File_acphost_acp_v1_options_proto,
		acpv1.File_acphost_acp_v1_context_proto,
		acpv1.File_acphost_acp_v1_error_proto,
		pluginv1.File_acphost_plugin_v1_plugin_proto,
		fsv1.File_acphost_fs_v1_fs_proto,
		terminalv1.File_acphost_terminal_v1_terminal_proto,
		permissionv1.File_acphost_permission_v1_permission_proto,
	}
}
