package admin

import (
	"slices"

	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/acphost/acphost/internal/delegation"
	"github.com/acphost/acphost/services/supervisor/internal/certs"
)

// class is what a method is to callers.
type class struct {
	// need is the role that may call it, and so may those who may more. A Viewer's only shows something; any other is a verb.
	need certs.Role
	// asks: a request that only looks makes it a Viewer's. The request has a field for that.
	asks bool
}

// harmless are the services of gRPC's own, which show what everybody may know.
var harmless = []string{healthv1.Health_ServiceDesc.ServiceName, "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"}

// classesOf sorts every method that a server has, as its descriptor says; see package delegation.
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
		return class{need: certs.Operator} // not one of ours
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
