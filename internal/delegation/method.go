package delegation

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Need is the requirement of a method for its callers.
type Need struct {
	// Role is the lowest role that may call the method: one of Roles, or Gateway. The methods of Viewer have no side
	// effects.
	Role string
	// Asks reports whether the request has the field OnlyLook, with which a Viewer may call the method.
	Asks bool
}

// OnlyLook is the field of a request with which the caller declares that it will not act on the answer.
const OnlyLook = "only_look"

// The services with methods that change something and do not require an operator.
const (
	approvals = "acphost.supervisor.v1.ApprovalService"
	gateway   = "acphost.supervisor.v1.GatewayService"
)

// NeedOf returns the requirement of a method. A method requires a Viewer if its descriptor declares that it has no side
// effects. Other methods require an operator, except answers to questions, which approvers may give, and the methods
// that a gateway needs. A method of a service that is not acphost's requires an operator.
func NeedOf(m protoreflect.MethodDescriptor) Need {
	service := string(m.Parent().FullName())
	if !strings.HasPrefix(service, "acphost.") {
		return Need{Role: Operator}
	}
	if options, ok := m.Options().(*descriptorpb.MethodOptions); ok && options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS {
		return Need{Role: Viewer}
	}
	need := Need{Role: Operator}
	switch service {
	case approvals:
		need.Role = Approver
	case gateway:
		need.Role = Gateway
	}
	look := m.Input().Fields().ByName(OnlyLook)
	need.Asks = look != nil && look.Kind() == protoreflect.BoolKind && m.IsStreamingServer() && !m.IsStreamingClient()
	return need
}
