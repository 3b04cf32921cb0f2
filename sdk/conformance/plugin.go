package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"

	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"github.com/acphost/acphost/sdk/internal/wire"
)

// services are the services that a handler of each kind must serve.
var services = map[string]string{
	KindFS:         "acphost.fs.v1.FileSystemService",
	KindTerminal:   "acphost.terminal.v1.TerminalService",
	KindPermission: "acphost.permission.v1.PermissionService",
}

// largeMessage is a size of request, in bytes, that every handler must accept.
const largeMessage = 16 << 20

// pluginCases apply to every kind of handler.
var pluginCases = []Case{
	{"Describe describes the handler", func(ctx context.Context, e *env) {
		d := must(e.plugin().Describe(ctx, &pluginv1.DescribeRequest{SupervisorVersion: "conformance"}))
		for what, value := range map[string]string{"name": d.GetName(), "version": d.GetVersion()} {
			expect(len(value) >= 1 && len(value) <= 64, "the length of the "+what, len(value), "1 to 64")
		}
		size := d.GetMaxMessageBytes()
		expect(size == 0 || size >= largeMessage, "max_message_bytes", size, fmt.Sprintf("0 or at least %d", largeMessage))
		for _, service := range d.GetServices() {
			expect(strings.Contains(service, ".") && !strings.ContainsAny(service, "/ "),
				"a service", service, "a full gRPC service name")
		}
		for name := range d.GetCapabilityMeta().GetFields() {
			expect(strings.ContainsAny(name, "./"), "a name in capability_meta", name, "one with a dot or a slash")
		}
	}},
	{"Describe can be repeated", func(ctx context.Context, e *env) {
		first := must(e.plugin().Describe(ctx, &pluginv1.DescribeRequest{}))
		second := must(e.plugin().Describe(ctx, &pluginv1.DescribeRequest{}))
		equalMessages("the second answer", second, first)
	}},
	{"Describe accepts a request of 16 MiB", func(ctx context.Context, e *env) {
		must(e.plugin().Describe(ctx, &pluginv1.DescribeRequest{SupervisorVersion: strings.Repeat("v", largeMessage)}))
	}},
	{"Describe lists the service of its kind", func(ctx context.Context, e *env) {
		d := must(e.plugin().Describe(ctx, &pluginv1.DescribeRequest{}))
		want, ok := services[e.Kind]
		if !ok {
			require(len(d.GetServices()) != 0, "no service is announced, so nothing would ever be called")
			return
		}
		expect(slices.Contains(d.GetServices(), want), "services", d.GetServices(), want)
	}},
	{"Configure accepts the same settings twice", func(ctx context.Context, e *env) {
		for range 2 {
			must(e.plugin().Configure(ctx, &pluginv1.ConfigureRequest{Settings: e.Settings}))
		}
		settings := e.Settings
		if settings == nil {
			settings = &structpb.Struct{} // equivalent to none
		}
		host := &pluginv1.Host{Instance: e.scope}
		must(e.plugin().Configure(ctx, &pluginv1.ConfigureRequest{Settings: settings, Host: host}))
	}},
	{"Configure rejects an unknown setting and names it", func(ctx context.Context, e *env) {
		refusesUnknownSetting(ctx, e, false)
	}},
	{"Configure rejects an unknown setting with validate_only", func(ctx context.Context, e *env) {
		refusesUnknownSetting(ctx, e, true)
	}},
	{"CheckFolders returns the missing folders", func(ctx context.Context, e *env) {
		file, missing := filepath.Join(e.dir, "file"), filepath.Join(e.dir, "missing", "below")
		check(os.WriteFile(file, nil, 0o600))
		res, err := e.plugin().CheckFolders(ctx, &pluginv1.CheckFoldersRequest{Paths: []string{e.dir, file, missing, e.dir + "/"}})
		skipIf(status.Code(err) == codes.Unimplemented, "CheckFolders is optional, and not there")
		check(err)
		var paths []string
		for _, m := range res.GetMissing() {
			paths = append(paths, m.GetPath())
			require(m.GetReason() != "", "a missing folder has no reason")
		}
		expect(slices.Equal(paths, []string{file, missing}), "the missing folders", paths, []string{file, missing})
		_, err = e.plugin().CheckFolders(ctx, &pluginv1.CheckFoldersRequest{Paths: []string{"relative"}})
		wantCode("a relative path", err, codes.InvalidArgument)
		_, err = e.plugin().CheckFolders(ctx, &pluginv1.CheckFoldersRequest{})
		wantCode("no path", err, codes.InvalidArgument)
	}},
	{"Hold answers at once and stays open", func(ctx context.Context, e *env) {
		held := must(e.hold(ctx, e.scope))
		// Two calls complete while the stream is open; only one message may arrive.
		for range 2 {
			must(e.plugin().Describe(ctx, &pluginv1.DescribeRequest{}))
		}
		held.end()
		_, err := held.Recv()
		require(err != nil, "hold: a second message came")
		require(!errors.Is(err, io.EOF), "hold: the handler ended the stream")
		wantCode("a hold that was let go", err, codes.Canceled)
	}},
	{"Hold can be opened twice for one scope, and again", func(ctx context.Context, e *env) {
		first, second := must(e.hold(ctx, e.scope)), must(e.hold(ctx, e.scope))
		first.end()
		second.end()
		must(e.hold(ctx, e.scope)).end()
	}},
	{"Hold accepts many scopes at once", func(ctx context.Context, e *env) {
		concurrently(64, func(i int) error {
			held, err := e.hold(ctx, fmt.Sprintf("%s%02x", e.scope[:30], i))
			if err != nil {
				return err
			}
			defer held.end()
			_, err = e.plugin().Describe(ctx, &pluginv1.DescribeRequest{})
			return err
		})
	}},
	{"HoldAll, if implemented, answers at once and stays open", func(ctx context.Context, e *env) {
		ctx, end := context.WithCancel(ctx)
		defer end()
		stream, err := e.plugin().HoldAll(ctx)
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) == codes.Unimplemented {
			return
		}
		check(wrap("hold all", err))
		for _, drop := range []bool{false, false, true, false} {
			check(wrap("hold all", stream.Send(&pluginv1.HoldAllRequest{Scope: e.scope, Drop: drop})))
		}
		for range 2 {
			must(e.plugin().Describe(ctx, &pluginv1.DescribeRequest{}))
		}
		end()
		_, err = stream.Recv()
		require(err != nil, "hold all: a second message came")
		require(!errors.Is(err, io.EOF), "hold all: the handler ended the stream")
		wantCode("a stream that was let go", err, codes.Canceled)
	}},
	{"health reports SERVING", func(ctx context.Context, e *env) {
		got, err := grpc_health_v1.NewHealthClient(e.Conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: wire.HealthService})
		check(wrap(fmt.Sprintf("health of %q", wire.HealthService), err))
		expect(got.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING, "health", got.GetStatus(), "SERVING")
	}},
	{"an unknown method is UNIMPLEMENTED", func(ctx context.Context, e *env) {
		for _, method := range []string{
			"/acphost.plugin.v1.PluginService/NoSuchMethod",
			"/conformance.v1.NoSuchService/NoSuchMethod",
		} {
			err := e.Conn.Invoke(ctx, method, &emptypb.Empty{}, &emptypb.Empty{})
			wantCode(method, err, codes.Unimplemented)
		}
	}},
}

func (e *env) plugin() pluginv1.PluginServiceClient { return pluginv1.NewPluginServiceClient(e.Conn) }

func refusesUnknownSetting(ctx context.Context, e *env, validateOnly bool) {
	const name = "conformance_knows_no_such_setting"
	settings := &structpb.Struct{Fields: map[string]*structpb.Value{name: structpb.NewBoolValue(true)}}
	proto.Merge(settings, e.Settings)
	_, err := e.plugin().Configure(ctx, &pluginv1.ConfigureRequest{Settings: settings, ValidateOnly: validateOnly})
	wantCode("an unknown setting", err, codes.InvalidArgument)
	wantErrorText("an unknown setting", err, name)
}

// held is a scope that is held until end is called.
type held struct {
	grpc.ServerStreamingClient[pluginv1.HoldResponse]
	end func()
}

// hold opens a Hold and waits for its answer.
func (e *env) hold(ctx context.Context, scope string) (held, error) {
	ctx, end := context.WithCancel(ctx)
	stream, err := e.plugin().Hold(ctx, &pluginv1.HoldRequest{Scope: scope})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		end()
	}
	return held{stream, end}, wrap("hold", err)
}
