package host

import (
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
)

func TestWatchOutput_SendsUntilEnd(t *testing.T) {
	data := func(text string) *terminalv1.WatchResponse {
		return &terminalv1.WatchResponse{Event: &terminalv1.WatchResponse_Data{Data: []byte(text)}}
	}
	dropped := func(n uint64) *terminalv1.WatchResponse {
		return &terminalv1.WatchResponse{Event: &terminalv1.WatchResponse_DroppedBytes{DroppedBytes: n}}
	}
	exit := func(e *terminalv1.ExitStatus) *terminalv1.WatchResponse {
		return &terminalv1.WatchResponse{Event: &terminalv1.WatchResponse_Exit{Exit: e}}
	}
	out := func(text string, missed uint64) *supervisorv1.WatchOutputResponse {
		return &supervisorv1.WatchOutputResponse{Data: []byte(text), Missed: missed}
	}
	for _, c := range []struct {
		name string
		in   []*terminalv1.WatchResponse
		err  error // behind them
		want []*supervisorv1.WatchOutputResponse
		code codes.Code
	}{
		{"an exit code", []*terminalv1.WatchResponse{data("a"), data("b"), exit(&terminalv1.ExitStatus{ExitCode: proto.Uint32(0)})}, io.EOF,
			[]*supervisorv1.WatchOutputResponse{out("a", 0), out("b", 0), {Ended: true, ExitCode: proto.Uint32(0)}}, codes.OK},
		{"a signal", []*terminalv1.WatchResponse{exit(&terminalv1.ExitStatus{Signal: proto.String("SIGKILL")})}, io.EOF,
			[]*supervisorv1.WatchOutputResponse{{Ended: true, Signal: "SIGKILL"}}, codes.OK},
		{"gaps", []*terminalv1.WatchResponse{dropped(2), dropped(3), data("a"), {}, data("b"), dropped(7), exit(&terminalv1.ExitStatus{})}, io.EOF,
			[]*supervisorv1.WatchOutputResponse{out("a", 5), out("b", 0), {Ended: true, Missed: 7}}, codes.OK},
		{"an end without an exit", []*terminalv1.WatchResponse{data("a")}, io.EOF, []*supervisorv1.WatchOutputResponse{out("a", 0)}, codes.Unavailable},
		{"a handler that is gone", nil, status.Error(codes.Unavailable, "gone"), nil, codes.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := c.in
			recv := func() (*terminalv1.WatchResponse, error) {
				if len(in) == 0 {
					return nil, c.err
				}
				next := in[0]
				in = in[1:]
				return next, nil
			}
			var got []*supervisorv1.WatchOutputResponse
			err := relayOutput("t", recv, func(r *supervisorv1.WatchOutputResponse) error {
				got = append(got, r)
				return nil
			})
			if status.Code(err) != c.code {
				t.Errorf("error is %v, want %v", err, c.code)
			}
			if len(got) != len(c.want) {
				t.Fatalf("told are %v, want %v", got, c.want)
			}
			for i := range got {
				if !proto.Equal(got[i], c.want[i]) {
					t.Errorf("got %v, want %v", got[i], c.want[i])
				}
			}
		})
	}
}

func TestWatchOutput_EndsWithWatcher(t *testing.T) {
	gone := errors.New("gone")
	recv := func() (*terminalv1.WatchResponse, error) {
		return &terminalv1.WatchResponse{Event: &terminalv1.WatchResponse_Data{Data: []byte("x")}}, nil
	}
	if err := relayOutput("t", recv, func(*supervisorv1.WatchOutputResponse) error { return gone }); !errors.Is(err, gone) {
		t.Errorf("error is %v, want that of the watcher", err)
	}
}

func TestSession_NeedsUniqueID(t *testing.T) {
	all := []*supervisorv1.Session{{AgentId: "a", SessionId: "1"}, {AgentId: "a", SessionId: "2"}, {AgentId: "b", SessionId: "2"}}
	for _, c := range []struct {
		session string
		want    *supervisorv1.Session
		class   fault.Class
	}{
		{"1", all[0], 0}, {"2", nil, fault.Precondition}, {"3", nil, fault.NotFound},
	} {
		got, err := oneSession(all, c.session)
		if f, ok := errors.AsType[*fault.Error](err); got != c.want || ok != (c.want == nil) || ok && f.Class != c.class {
			t.Errorf("%q is %v, %v", c.session, got, err)
		}
	}
}
