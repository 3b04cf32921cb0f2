package admin

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/acphost/acphost/internal/certs"
)

// served are the services of acphost's own, by what is compiled in.
func served() []protoreflect.ServiceDescriptor {
	var all []protoreflect.ServiceDescriptor
	protoregistry.GlobalFiles.RangeFilesByPackage("acphost.supervisor.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			all = append(all, f.Services().Get(i))
		}
		return true
	})
	return all
}

func TestClasses_RoleOfEachMethod(t *testing.T) {
	// The present methods. A method that is not in this table gets its class from its descriptor; the table makes that
	// explicit.
	want := map[string]string{
		"AgentService/StartAgent": "operator", "AgentService/StopAgent": "operator", "AgentService/RestartAgent": "operator",
		"AgentService/ListAgents": "viewer", "AgentService/GetAgent": "viewer",
		"AgentService/Authenticate": "operator", "AgentService/Logout": "operator",
		"ApprovalService/ListApprovals": "viewer", "ApprovalService/WatchApprovals": "approver, or viewer",
		"ApprovalService/AnswerApproval": "approver",
		"SessionService/NewSession":      "operator", "SessionService/LoadSession": "operator", "SessionService/ResumeSession": "operator",
		"SessionService/ForkSession": "operator", "SessionService/ListStoredSessions": "viewer", "SessionService/CloseSession": "operator",
		"SessionService/DeleteSession": "operator", "SessionService/Prompt": "operator", "SessionService/CancelPrompt": "operator",
		"SessionService/SetMode": "operator", "SessionService/SetModel": "operator", "SessionService/SetConfigOption": "operator",
		"SessionService/WatchSession":             "viewer",
		"SupervisorControlService/RestartHandler": "operator", "SupervisorControlService/SwapHandler": "operator",
		"SupervisorControlService/ReloadPolicy": "operator", "SupervisorControlService/RevokeGrants": "operator",
		"SupervisorStateService/GetStatus": "viewer", "SupervisorStateService/ListHandlers": "viewer",
		"SupervisorStateService/ListRoutes": "viewer", "SupervisorStateService/ListSessions": "viewer",
		"SupervisorStateService/ListTerminals": "viewer", "SupervisorStateService/ListGrants": "viewer",
		"SupervisorStateService/GetSession": "viewer", "SupervisorStateService/WatchEvents": "viewer",
		"SupervisorStateService/ListFiles": "viewer", "SupervisorStateService/WatchFiles": "viewer",
		"SupervisorStateService/WatchOutput": "viewer", "SupervisorStateService/GetUsage": "viewer",
		"GatewayService/OpenAgent":       "gateway",
		"DecisionService/WatchDecisions": "viewer", "DecisionService/ReplayPolicy": "operator",
	}
	seen := 0
	for _, service := range served() {
		for i := range service.Methods().Len() {
			m := service.Methods().Get(i)
			c := classify(string(service.FullName()), string(m.Name()))
			got := c.need.String()
			if c.asks {
				got += ", or viewer"
			}
			name := string(service.Name()) + "/" + string(m.Name())
			if words, ok := want[name]; ok && got != words {
				t.Errorf("%s takes %s, want %s", name, got, words)
			}
			seen++
			// A viewer may not call a method with effects, however the method's class was determined.
			options, _ := m.Options().(*descriptorpb.MethodOptions)
			if pure := options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS; pure != (c.need == certs.Viewer) {
				t.Errorf("%s has no side effects: %v, and takes %s", name, pure, got)
			}
		}
	}
	if seen < len(want) {
		t.Errorf("%d methods are served, want %d at least", seen, len(want))
	}
}

func TestClasses_UnknownMethodNeedsOperator(t *testing.T) {
	for _, c := range []struct {
		service, method string
		want            certs.Role
	}{
		{"grpc.health.v1.Health", "Check", certs.NoRole},
		{"grpc.reflection.v1.ServerReflection", "ServerReflectionInfo", certs.NoRole},
		{"acphost.supervisor.v1.SupervisorStateService", "Unheard", certs.Operator},
		{"acphost.supervisor.v1.SupervisorStateServiceX", "GetStatus", certs.Operator},
		{"grpc.health.v1.HealthX", "Check", certs.Operator},
		{"acphost.supervisor.v1", "AgentService", certs.Operator},
		{"", "", certs.Operator},
	} {
		if got := classify(c.service, c.method); got.need != c.want || got.asks {
			t.Errorf("%s/%s takes %+v, want %v", c.service, c.method, got, c.want)
		}
	}
}

func TestClasses_CoverAllServices(t *testing.T) {
	s, err := Start(Options{State: noState{}, Control: failing{}, Agents: nothing{}, Sessions: nothing{}, Gateway: nothing{}, Events: nothing{}, Approvals: nothing{}, Decisions: nothing{}, NoSocket: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	classes := classesOf(s.servers[0])
	for _, service := range served() {
		for i := range service.Methods().Len() {
			if _, ok := classes["/"+string(service.FullName())+"/"+string(service.Methods().Get(i).Name())]; !ok {
				t.Errorf("%s is not served", service.Methods().Get(i).FullName())
			}
		}
	}
	var others []string
	for name := range classes {
		if !strings.HasPrefix(name, "/acphost.supervisor.v1.") {
			others = append(others, strings.Split(name, "/")[1])
		}
	}
	slices.Sort(others)
	if got := slices.Compact(others); !slices.Equal(got, []string{"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"}) {
		t.Errorf("served too are %q", got)
	}
}
