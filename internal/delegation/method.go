package delegation

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Need is what a method takes of its callers.
type Need struct {
	// Role is the least role that may call it: one of Roles, or Gateway. A Viewer's method only shows something; each other one
	// is a verb.
	Role string
	// Asks: a request that only looks makes it a Viewer's. The request has a field for that, OnlyLook.
	Asks bool
}

// OnlyLook is the field of a request by which its caller says that it will not act on what it sees.
const OnlyLook = "only_look"

// The services whose verbs are not an operator's.
const (
	approvals = "acphost.supervisor.v1.ApprovalService"
	gateway   = "acphost.supervisor.v1.GatewayService"
)

// NeedOf returns what a method takes. A method shows something if its descriptor says that it has no side effects; what changes
// something is an operator's, but for the questions, which approvers answer, and for what a gateway needs. A method that is not
// of acphost's services is an operator's.
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
