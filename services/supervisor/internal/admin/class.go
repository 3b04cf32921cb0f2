package admin

import (
	"slices"

	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/acphost/acphost/internal/certs"
	"github.com/acphost/acphost/internal/delegation"
)

// class has the requirements for callers of a method.
type class struct {
	// need is the lowest role that may call the method. Viewer: the method only reads; any other role: it is a verb.
	need certs.Role
	// asks reports that the class depends on the request: one with only_look set needs the role Viewer only.
	asks bool
}

// harmless are gRPC's own services. They only show public information.
var harmless = []string{healthv1.Health_ServiceDesc.ServiceName, "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"}

// classesOf returns the class of every method of a server, according to its descriptor; see package delegation.
func classesOf(server *grpc.Server) map[string]class {
	classes := map[string]class{}
	for service, info := range server.GetServiceInfo() {
		for _, m := range info.Methods {
			classes["/"+service+"/"+m.Name] = classify(service, m.Name)
		}
	}
	return classes
}

func classify(service, method string) class {
	if slices.Contains(harmless, service) {
		return class{need: certs.NoRole}
	}
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + method))
	if err != nil {
		return class{need: certs.Operator} // not a method of acphost
	}
	m, ok := found.(protoreflect.MethodDescriptor)
	if !ok {
		return class{need: certs.Operator}
	}
	need := delegation.NeedOf(m)
	role, err := certs.ParseRole(need.Role)
	if err != nil {
		return class{need: certs.Operator}
	}
	return class{need: role, asks: need.Asks}
}
