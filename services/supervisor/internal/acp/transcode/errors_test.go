package transcode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

func detailed(t *testing.T, c codes.Code, d *acpv1.ErrorDetail) error {
	t.Helper()
	s, err := status.New(c, "m").WithDetails(d)
	if err != nil {
		t.Fatal(err)
	}
	return s.Err()
}

func TestErrors_Codes(t *testing.T) {
	for _, tt := range []struct {
		name    string
		err     error
		code    int
		message string
		data    string
	}{
		{"an invalid argument", status.Error(codes.InvalidArgument, "Path escapes workspace: /etc"), -32602, "Path escapes workspace: /etc", ""},
		{"out of range", status.Error(codes.OutOfRange, "too large"), -32602, "too large", ""},
		{"a missing file", status.Error(codes.NotFound, "Resource not found: /a"), -32002, "Resource not found: /a", ""},
		{"a missing file, in other words", status.Error(codes.NotFound, "/a"), -32002, "Resource not found: /a", ""},
		{"a missing file, without words", status.Error(codes.NotFound, ""), -32002, "Resource not found", ""},
		{"not implemented", status.Error(codes.Unimplemented, "no"), -32601, "no", ""},
		{"cancelled", status.Error(codes.Canceled, "context canceled"), -32800, "context canceled", ""},
		{"cancelled before it was sent", context.Canceled, -32800, "context canceled", ""},
		{"too late", fmt.Errorf("call: %w", context.DeadlineExceeded), -32603, "call: context deadline exceeded", `{"code":"DEADLINE_EXCEEDED","handler":"fs"}`},
		{"internal", status.Error(codes.Internal, "disk on fire"), -32603, "disk on fire", `{"code":"INTERNAL","handler":"fs"}`},
		{"unavailable", status.Error(codes.Unavailable, "gone"), -32603, "gone", `{"code":"UNAVAILABLE","handler":"fs"}`},
		{"an unknown code", status.Error(codes.Code(99), "x"), -32603, "x", `{"code":"UNKNOWN","handler":"fs"}`},
		{"no message", status.Error(codes.DataLoss, ""), -32603, "handler fs answered with DataLoss", `{"code":"DATA_LOSS","handler":"fs"}`},
		{"no status", errors.New("odd"), -32603, "odd", `{"code":"INTERNAL","handler":"fs"}`},
		{"an error that is ready", fmt.Errorf("x: %w", &jsonrpc.Error{Code: 7, Message: "ready"}), 7, "ready", ""},
		{"a detail", detailed(t, codes.Internal, &acpv1.ErrorDetail{Code: -32042, Data: "{\n\"a\":1}"}), -32042, "m", `{ "a":1}`},
		{"a detail with a code alone", detailed(t, codes.Internal, &acpv1.ErrorDetail{Code: 42}), 42, "m", ""},
		{"a detail with data alone", detailed(t, codes.Internal, &acpv1.ErrorDetail{Data: "1"}), -32603, "m", "1"},
		{"a detail that asks to authenticate", detailed(t, codes.Internal, &acpv1.ErrorDetail{Code: -32000}), -32603, "m", `{"code":"INTERNAL","handler":"fs"}`},
		{"a detail out of range", detailed(t, codes.InvalidArgument, &acpv1.ErrorDetail{Code: 32768}), -32602, "m", ""},
		{"a detail with broken data", detailed(t, codes.InvalidArgument, &acpv1.ErrorDetail{Code: 1, Data: "{"}), 1, "m", ""},
		{"a detail with too much data", detailed(t, codes.InvalidArgument, &acpv1.ErrorDetail{Code: 1, Data: `"` + strings.Repeat("x", 65536) + `"`}), 1, "m", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := ErrorFrom(tt.err, "fs")
			if e.Code != tt.code || e.Message != tt.message || string(e.Data) != tt.data {
				t.Errorf("got %d %q %s, want %d %q %s", e.Code, e.Message, e.Data, tt.code, tt.message, tt.data)
			}
			if line := jsonrpc.AppendError(nil, []byte("1"), e); !json.Valid(line) || strings.Count(string(line), "\n") != 1 {
				t.Errorf("got the line %s", line)
			}
		})
	}
	if e := ErrorFrom(nil, "fs"); e != nil {
		t.Errorf("no error became %v", e)
	}
}
