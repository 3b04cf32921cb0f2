package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"

	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"github.com/acphost/acphost/sdk/internal/wire"
)

// services are what a handler of each kind must serve.
var services = map[string]string{
	KindFS:         "acphost.fs.v1.FileSystemService",
	KindTerminal:   "acphost.terminal.v1.TerminalService",
	KindPermission: "acphost.permission.v1.PermissionService",
}

// largeMessage is a size of request that every handler must take, in bytes.
const largeMessage = 16 << 20

// pluginCases are for every kind of handler.
func pluginCases() []Case {
	return kind("plugin", []demand{
		{Name: "Describe says who the handler is", Run: describeIsComplete},
		{Name: "Describe can be repeated", Run: describeIsRepeatable},
		{Name: "Describe takes a request of 16 MiB", Run: describeTakesLargeRequests},
		{Name: "Describe announces the service of its kind", Run: describeAnnouncesItsService},
		{Name: "Configure takes the same settings twice", Run: configureIsRepeatable},
		{Name: "Configure refuses an unknown setting by its name", Run: configureRefusesUnknownSettings},
		{Name: "Configure refuses an unknown setting when it only validates", Run: configureValidates},
		{Name: "Hold answers at once and lasts", Run: holdAnswersAndLasts},
		{Name: "Hold can be opened twice for one scope, and again", Run: holdIsShared},
		{Name: "Hold takes many scopes at once", Run: holdTakesMany},
		{Name: "health says serving", Run: healthServes},
		{Name: "an unknown method is UNIMPLEMENTED", Run: unknownMethods},
	})
}

func (e *Env) plugin() pluginv1.PluginServiceClient { return pluginv1.NewPluginServiceClient(e.Conn) }

func describeIsComplete(ctx context.Context, e *Env) {
	d := must(e.plugin().Describe(ctx, &pluginv1.DescribeRequest{SupervisorVersion: "conformance"}))
	if n := len(d.GetName()); n < 1 || n > 64 {
		fail(differs("the length of the name", n, "1 to 64"))
	}
	if n := len(d.GetVersion()); n < 1 || n > 64 {
		fail(differs("the length of the version", n, "1 to 64"))
	}
	if size := d.GetMaxMessageBytes(); size != 0 && size < largeMessage {
		fail(differs("max_message_bytes", size, fmt.Sprintf("0 or at least %d", largeMessage)))
	}
	for _, service := range d.GetServices() {
		if !strings.Contains(service, ".") || strings.ContainsAny(service, "/ ") {
			fail(differs("a service", service, "a full gRPC service name"))
		}
	}
	for name := range d.GetCapabilityMeta().GetFields() {
		if !strings.ContainsAny(name, "./") {
			fail(differs("a name in capability_meta", name, "one with a dot or a slash"))
		}
	}
}

func describeIsRepeatable(ctx context.Context, e *Env) {
	first := must(e.plugin().Describe(ctx, &pluginv1.DescribeRequest{}))
	second := must(e.plugin().Describe(ctx, &pluginv1.DescribeRequest{}))
	check(alike("the second answer", second, first))
}

func describeTakesLargeRequests(ctx context.Context, e *Env) {
	_, err := e.plugin().Describe(ctx, &pluginv1.DescribeRequest{SupervisorVersion: strings.Repeat("v", largeMessage)})
	check(err)
}

func describeAnnouncesItsService(ctx context.Context, e *Env) {
	d := must(e.plugin().Describe(ctx, &pluginv1.DescribeRequest{}))
	want, ok := services[e.Kind]
	if !ok {
		if len(d.GetServices()) == 0 {
			fail(errors.New("no service is announced, so nothing would ever be called"))
		}
		return
	}
	if !slices.Contains(d.GetServices(), want) {
		fail(differs("services", d.GetServices(), want))
	}
}

func configureIsRepeatable(ctx context.Context, e *Env) {
	for range 2 {
		must(e.plugin().Configure(ctx, &pluginv1.ConfigureRequest{Settings: e.Settings}))
	}
	settings := e.Settings
	if settings == nil {
		settings = &structpb.Struct{} // is the same as none
	}
	_, err := e.plugin().Configure(ctx, &pluginv1.ConfigureRequest{
		Settings: settings,
		Host:     &pluginv1.Host{Instance: e.Scope},
	})
	check(err)
}

func configureRefusesUnknownSettings(ctx context.Context, e *Env) {
	refusesUnknownSetting(ctx, e, false)
}

func configureValidates(ctx context.Context, e *Env) {
	refusesUnknownSetting(ctx, e, true)
}

func refusesUnknownSetting(ctx context.Context, e *Env, validateOnly bool) {
	const name = "conformance_knows_no_such_setting"
	settings := &structpb.Struct{}
	if e.Settings != nil {
		settings = proto.CloneOf(e.Settings)
	}
	if settings.Fields == nil {
		settings.Fields = map[string]*structpb.Value{}
	}
	settings.Fields[name] = structpb.NewBoolValue(true)
	_, err := e.plugin().Configure(ctx, &pluginv1.ConfigureRequest{Settings: settings, ValidateOnly: validateOnly})
	check(wantCode("an unknown setting", err, codes.InvalidArgument))
	if !strings.Contains(err.Error(), name) {
		fail(differs("the message", err.Error(), "one that names "+name))
	}
}

// hold opens a Hold and waits for its answer. end closes it.
func (e *Env) hold(ctx context.Context, scope string) (
	stream grpc.ServerStreamingClient[pluginv1.HoldResponse], end func(), err error,
) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err = e.plugin().Hold(ctx, &pluginv1.HoldRequest{Scope: scope})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		cancel()
		return nil, nil, fmt.Errorf("hold: %w", err)
	}
	return stream, cancel, nil
}

func holdAnswersAndLasts(ctx context.Context, e *Env) {
	stream, end, err := e.hold(ctx, e.Scope)
	check(err)
	defer end()
	// Two calls go by while it lasts; one message only may come.
	for range 2 {
		must(e.plugin().Describe(ctx, &pluginv1.DescribeRequest{}))
	}
	end()
	if _, err = stream.Recv(); err == nil {
		fail(errors.New("hold: a second message came"))
	} else if errors.Is(err, io.EOF) {
		fail(errors.New("hold: the handler ended the stream"))
	}
	check(wantCode("a hold that was let go", err, codes.Canceled))
}

func holdIsShared(ctx context.Context, e *Env) {
	_, first, err := e.hold(ctx, e.Scope)
	check(err)
	defer first()
	_, second, err := e.hold(ctx, e.Scope)
	check(err)
	first()
	second()
	_, third, err := e.hold(ctx, e.Scope)
	check(err)
	third()
}

func holdTakesMany(ctx context.Context, e *Env) {
	var all sync.WaitGroup
	failed := make([]error, 64)
	for i := range failed {
		all.Go(func() {
			_, end, err := e.hold(ctx, fmt.Sprintf("%s%02x", e.Scope[:30], i))
			if failed[i] = err; err == nil {
				defer end()
				_, failed[i] = e.plugin().Describe(ctx, &pluginv1.DescribeRequest{})
			}
		})
	}
	all.Wait()
	check(errors.Join(failed...))
}

func healthServes(ctx context.Context, e *Env) {
	got, err := grpc_health_v1.NewHealthClient(e.Conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: wire.HealthService})
	check(named(fmt.Sprintf("health of %q", wire.HealthService), err))
	if got.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		fail(differs("health", got.GetStatus(), "SERVING"))
	}
}

func unknownMethods(ctx context.Context, e *Env) {
	for _, method := range []string{
		"/acphost.plugin.v1.PluginService/NoSuchMethod",
		"/conformance.v1.NoSuchService/NoSuchMethod",
	} {
		err := e.Conn.Invoke(ctx, method, &emptypb.Empty{}, &emptypb.Empty{})
		check(wantCode(method, err, codes.Unimplemented))
	}
}
