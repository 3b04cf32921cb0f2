package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/acphost/acphost/examples/echo/echov1"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"github.com/acphost/acphost/sdk/launch"
)

// TestMain is the handler itself when a test starts it.
func TestMain(m *testing.M) {
	if os.Getenv(launch.CookieKey) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

func start(t *testing.T, env ...string) *launch.Instance {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	i, err := launch.Start(t.Context(), launch.Spec{
		Name: "echo", Command: []string{binary}, Env: append(env, "GORACE=atexit_sleep_ms=0"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := i.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return i
}

func configure(t *testing.T, i *launch.Instance, settings map[string]any, validateOnly bool) error {
	t.Helper()
	s, err := structpb.NewStruct(settings)
	if err != nil {
		t.Fatal(err)
	}
	_, err = pluginv1.NewPluginServiceClient(i).Configure(t.Context(),
		&pluginv1.ConfigureRequest{Settings: s, ValidateOnly: validateOnly})
	return err
}

func TestEcho_ReturnsText(t *testing.T) {
	i := start(t)
	for _, c := range []struct {
		settings     map[string]any
		validateOnly bool
		want         string
	}{{nil, false, "hello"}, {map[string]any{"prefix": "> "}, false, "> hello"}, {map[string]any{"prefix": "no "}, true, "> hello"}} {
		if err := configure(t, i, c.settings, c.validateOnly); err != nil {
			t.Fatalf("Configure(%v): %v", c.settings, err)
		}
		got, err := echov1.NewEchoServiceClient(i).Echo(t.Context(), &echov1.EchoRequest{
			Context: &acpv1.CallContext{Agent: "agent"}, Text: "hello", Number: 1<<62 + 1, List: []string{"a", "b"},
		})
		want := &echov1.EchoResponse{Text: c.want, Number: 1<<62 + 1, List: []string{"a", "b"}, Agent: "agent"}
		if err != nil || !proto.Equal(got, want) {
			t.Errorf("with %v: Echo = %v, %v; want %v", c.settings, got, err, want)
		}
	}
	_, err := echov1.NewEchoServiceClient(i).Echo(t.Context(), &echov1.EchoRequest{Text: "fail"})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("fail: %v, want INVALID_ARGUMENT", err)
	}
}

func TestSettings_ErrorNamesField(t *testing.T) {
	i := start(t)
	for _, settings := range []map[string]any{{"perfix": "x"}, {"prefix": 3}, {"prefix": strings.Repeat("x", 101)}} {
		err := configure(t, i, settings, false)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "fix") {
			t.Errorf("Configure(%v) = %v, want INVALID_ARGUMENT that names the setting", settings, err)
		}
	}
}

func TestDescriptorSet_HasMethodRoute(t *testing.T) {
	i := start(t)
	d, err := pluginv1.NewPluginServiceClient(i).Describe(t.Context(), &pluginv1.DescribeRequest{})
	if err != nil {
		t.Fatal(err)
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(d.GetDescriptorSet(), set); err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatalf("the set is not complete: %v", err)
	}
	found, err := files.FindDescriptorByName(protoreflect.FullName(d.GetServices()[0]))
	if err != nil {
		t.Fatal(err)
	}
	service, ok := found.(protoreflect.ServiceDescriptor)
	if !ok || service.Methods().Len() != 1 {
		t.Fatalf("%v is not the service", found)
	}
	method, _ := proto.GetExtension(service.Methods().Get(0).Options(), acpv1.E_Method).(*acpv1.Method)
	if method.GetName() != "_test.acphost/echo" {
		t.Errorf("the method option is %v", method)
	}
	if _, err := files.FindFileByPath("acphost/acp/v1/options.proto"); err != nil {
		t.Errorf("the options are not in the set: %v", err)
	}
}

func TestDescriptors_FoundByReflection(t *testing.T) {
	i := start(t, "ECHO_REFLECTION=1")
	d, err := pluginv1.NewPluginServiceClient(i).Describe(t.Context(), &pluginv1.DescribeRequest{})
	if err != nil || len(d.GetDescriptorSet()) != 0 {
		t.Fatalf("Describe = %v, %v; want no descriptors", d, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := grpc_reflection_v1.NewServerReflectionClient(i).ServerReflectionInfo(ctx)
	if err == nil {
		err = stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
			MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "echo.v1.EchoService"},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, raw := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
		file := &descriptorpb.FileDescriptorProto{}
		if err := proto.Unmarshal(raw, file); err != nil {
			t.Fatal(err)
		}
		names = append(names, file.GetName())
	}
	if !slices.Contains(names, "echo.proto") {
		t.Errorf("reflection knows the files %v", names)
	}
}
