package admin

import (
	"slices"
	"strings"

	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/certs"
)

// class is what a method is to callers.
type class struct {
	// need is the role that may call it, and so may those who may more. A Viewer's only shows something; any other is a verb.
	need certs.Role
	// asks: a request that only looks makes it a Viewer's. The request has a field for that.
	asks bool
}

// onlyLook is the field of a request by which its caller says that it will not act on what it sees.
const onlyLook = "only_look"

// harmless are the services of gRPC's own, which show what everybody may know.
var harmless = []string{healthv1.Health_ServiceDesc.ServiceName, "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"}

// classesOf sorts every method that a server has. A method shows something if its descriptor says that it has no side
// effects; what changes something is an operator's, but for the questions, which approvers answer, and for what a gateway needs.
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
	need := certs.Operator
	switch service {
	case supervisorv1.ApprovalService_ServiceDesc.ServiceName:
		need = certs.Approver
	case supervisorv1.GatewayService_ServiceDesc.ServiceName:
		need = certs.Gateway
	}
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + method))
	if err != nil {
		return class{need: certs.Operator} // not one of ours
	}
	m, ok := found.(protoreflect.MethodDescriptor)
	if !ok || !strings.HasPrefix(service, "acphost.") {
		return class{need: certs.Operator}
	}
	if options, ok := m.Options().(*descriptorpb.MethodOptions); ok && options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS {
		return class{need: certs.Viewer}
	}
	look := m.Input().Fields().ByName(onlyLook)
	return class{need: need, asks: look != nil && look.Kind() == protoreflect.BoolKind && m.IsStreamingServer() && !m.IsStreamingClient()}
}
