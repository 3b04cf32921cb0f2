package route

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
)

// Descriptors returns the descriptors of the services that a handler lists, in its order, without the services that
// every handler has (PluginService, health, reflection).
//
// For services of acphost's own packages it uses the compiled-in descriptors, never the handler's. All others are read
// from the descriptor set in d or, if that is empty, from gRPC reflection on conn; ctx limits the reflection. In a file
// that does not import acphost's options.proto, an option with the same number has another meaning and is dropped.
//
// It returns an error if a service is not found, or if other services are listed and none of their RPCs declares a
// method, because they would never be called.
func Descriptors(ctx context.Context, conn grpc.ClientConnInterface, d *pluginv1.DescribeResponse) ([]protoreflect.ServiceDescriptor, error) {
	var foreign []string
	for _, name := range d.GetServices() {
		if !implied(name) && !ours(name) {
			foreign = append(foreign, name)
		}
	}
	found, err := foreignServices(ctx, conn, foreign, d.GetDescriptorSet())
	if err != nil {
		return nil, fmt.Errorf("descriptors of handler %q: %w", d.GetName(), err)
	}
	var services []protoreflect.ServiceDescriptor
	for _, name := range d.GetServices() {
		if implied(name) {
			continue
		}
		service := found[name]
		if ours(name) {
			if service = compiledIn(name); service == nil {
				return nil, fmt.Errorf("descriptors of handler %q: this acphost has no handler service %s; is the handler newer?", d.GetName(), name)
			}
		}
		if !slices.Contains(services, service) {
			services = append(services, service)
		}
	}
	return services, nil
}

// foreignServices finds services that are not acphost's own.
func foreignServices(ctx context.Context, conn grpc.ClientConnInterface, names []string, set []byte) (map[string]protoreflect.ServiceDescriptor, error) {
	if len(names) == 0 {
		return nil, nil
	}
	var files []*descriptorpb.FileDescriptorProto
	source := "descriptor_set"
	if len(set) > 0 {
		var s descriptorpb.FileDescriptorSet
		if err := proto.Unmarshal(set, &s); err != nil {
			return nil, fmt.Errorf("descriptor_set is not a google.protobuf.FileDescriptorSet: %w", err)
		}
		files = s.GetFile()
	} else {
		source = "reflection"
		var err error
		if files, err = reflectFiles(ctx, conn, names); err != nil {
			return nil, fmt.Errorf("gRPC reflection: %w; a handler without reflection sends descriptor_set in Describe", err)
		}
	}
	link, err := linkFiles(files)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	found := map[string]protoreflect.ServiceDescriptor{}
	routes := false
	for _, name := range names {
		desc, err := link.built.FindDescriptorByName(protoreflect.FullName(name))
		service, ok := desc.(protoreflect.ServiceDescriptor)
		if err != nil || !ok {
			return nil, fmt.Errorf("%s has no service %s", source, name)
		}
		found[name] = service
		for m := range methodsOf(service) {
			routes = routes || proto.HasExtension(m.Options(), acpv1.E_Method)
		}
	}
	if !routes {
		return nil, withoutRoutes(names, source, link.hasOptions)
	}
	return found, nil
}

// withoutRoutes explains why services cannot be used, and the remedy for their author.
func withoutRoutes(names []string, source string, hasOptions bool) error {
	list := strings.Join(names, ", ")
	switch {
	case source == "reflection":
		return fmt.Errorf("no RPC of %s has the option (acphost.acp.v1.method) over gRPC reflection, "+
			"which drops custom options in some languages; send a descriptor_set in Describe", list)
	case !hasOptions:
		return fmt.Errorf("descriptor_set does not hold %s, so no RPC of %s declares a method; make it with imports included",
			acpv1.File_acphost_acp_v1_options_proto.Path(), list)
	}
	return fmt.Errorf("no RPC of %s has the option (acphost.acp.v1.method), so none would ever be called", list)
}

// routedFiles are the compiled-in files with services that answer ACP's methods.
func routedFiles() []protoreflect.FileDescriptor {
	return []protoreflect.FileDescriptor{fsv1.File_acphost_fs_v1_fs_proto, terminalv1.File_acphost_terminal_v1_terminal_proto}
}

// compiledIn returns the compiled-in service of a handler by its full name, or nil.
func compiledIn(name string) protoreflect.ServiceDescriptor {
	for _, file := range append(routedFiles(), permissionv1.File_acphost_permission_v1_permission_proto,
		permissionv1.File_acphost_permission_v1_policy_service_proto) {
		services := file.Services()
		for i := range services.Len() {
			if s := services.Get(i); string(s.FullName()) == name {
				return s
			}
		}
	}
	return nil
}

// ours reports whether a full name, or a package, belongs to acphost's own packages.
func ours(name string) bool { return name == "acphost" || strings.HasPrefix(name, "acphost.") }

// implied reports whether every handler serves a service anyway.
func implied(name string) bool {
	return name == pluginv1.PluginService_ServiceDesc.ServiceName ||
		strings.HasPrefix(name, "grpc.health.") || strings.HasPrefix(name, "grpc.reflection.")
}
