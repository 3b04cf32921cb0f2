package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestErrors_CodeOfEachFault(t *testing.T) {
	agent := func(kind supervisorv1.ErrorKind, code int32) error {
		return fmt.Errorf("start x: %w", fault.Agent(&supervisorv1.AgentError{Kind: kind, Message: "it", Code: code}))
	}
	for _, c := range []struct {
		err  error
		want codes.Code
	}{
		{nil, codes.OK},
		{fault.New(fault.Precondition, "x"), codes.FailedPrecondition},
		{fault.New(fault.NotFound, "x"), codes.NotFound},
		{fault.New(fault.Invalid, "x"), codes.InvalidArgument},
		{fault.New(fault.TooOld, "x"), codes.OutOfRange},
		{fault.New(fault.Exhausted, "x"), codes.ResourceExhausted},
		{fault.New(fault.Unsupported, "x"), codes.Unimplemented},
		{fault.New(fault.Class(99), "x"), codes.Unknown},
		{fmt.Errorf("y: %w", fault.New(fault.NotFound, "x: %w", context.Canceled)), codes.NotFound},
		{agent(supervisorv1.ErrorKind_ERROR_KIND_UNSPECIFIED, 0), codes.Unknown},
		{agent(supervisorv1.ErrorKind_ERROR_KIND_SPAWN_FAILED, 0), codes.FailedPrecondition},
		{agent(supervisorv1.ErrorKind_ERROR_KIND_COMMAND_NOT_FOUND, 0), codes.NotFound},
		{agent(supervisorv1.ErrorKind_ERROR_KIND_HANDSHAKE_TIMEOUT, 0), codes.DeadlineExceeded},
		{agent(supervisorv1.ErrorKind_ERROR_KIND_CRASHED, 0), codes.Aborted},
		{agent(supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED, -32000), codes.FailedPrecondition},
		{agent(supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND, -32002), codes.NotFound},
		{agent(supervisorv1.ErrorKind_ERROR_KIND_NOT_SUPPORTED, -32601), codes.Unimplemented},
		{agent(supervisorv1.ErrorKind_ERROR_KIND_AGENT_ERROR, -32602), codes.InvalidArgument},
		{agent(supervisorv1.ErrorKind_ERROR_KIND_AGENT_ERROR, -32800), codes.Canceled},
		{agent(supervisorv1.ErrorKind_ERROR_KIND_AGENT_ERROR, -32603), codes.Unknown},
		{agent(supervisorv1.ErrorKind_ERROR_KIND_STOPPED, 0), codes.Aborted},
		{context.Canceled, codes.Canceled},
		{fmt.Errorf("wait: %w", context.DeadlineExceeded), codes.DeadlineExceeded},
		{status.Error(codes.Unavailable, "x"), codes.Unavailable},
		{status.Error(codes.Unauthenticated, "x"), codes.FailedPrecondition}, // the error of a handler, for example, and not of an unknown caller
		{errStopping, codes.Unavailable},
		{errors.New("x"), codes.FailedPrecondition},
	} {
		if got := status.Code(asStatus(c.err)); got != c.want {
			t.Errorf("%v is %v, want %v", c.err, got, c.want)
		}
	}
}

func TestErrors_CodeOfEachAgentErrorKind(t *testing.T) {
	// A new kind without a code is UNKNOWN, which the contract assigns to no new kind.
	for number, name := range supervisorv1.ErrorKind_name {
		kind := supervisorv1.ErrorKind(number)
		code := codeOf(&fault.Error{Class: fault.OfAgent, Agent: &supervisorv1.AgentError{Kind: kind}})
		if unknown := code == codes.Unknown; unknown != (kind == supervisorv1.ErrorKind_ERROR_KIND_UNSPECIFIED || kind == supervisorv1.ErrorKind_ERROR_KIND_AGENT_ERROR) {
			t.Errorf("%s is %v", name, code)
		}
	}
}

func TestErrors_CarryDetails(t *testing.T) {
	code := int32(3)
	agent := &supervisorv1.AgentError{Kind: supervisorv1.ErrorKind_ERROR_KIND_CRASHED, Message: "it ended", ExitCode: &code, StderrTail: []string{"a", "b"}, Data: `{"x": 1}`}
	answer := &supervisorv1.ApprovalAnswer{Id: "x/1", Outcome: "denied", AnsweredBy: "front"}
	f := fault.Agent(agent)
	f.Answer = answer
	details := status.Convert(asStatus(fmt.Errorf("prompt: %w", f))).Details()
	if len(details) != 2 || !proto.Equal(details[0].(proto.Message), answer) || !proto.Equal(details[1].(proto.Message), agent) {
		t.Errorf("details are %v", details)
	}
}

func TestErrors_LimitSizeAndReplaceInvalidText(t *testing.T) {
	var tail []string
	for i := range 20 {
		tail = append(tail, fmt.Sprintf("%02d%s\xff", i, strings.Repeat("é", 249)))
	}
	long := &supervisorv1.AgentError{
		Kind: supervisorv1.ErrorKind_ERROR_KIND_CRASHED, Message: "it ended\xff" + strings.Repeat("x", 5000), Data: strings.Repeat("y", 100000) + "\xff", StderrTail: tail, Signal: "SIGKILL",
	}
	before := proto.CloneOf(long)
	st := status.Convert(asStatus(fault.Agent(long)))
	if size := proto.Size(st.Proto()); size > 6000 || len(st.Message()) > 1000 {
		t.Errorf("the status has %d bytes, its message %d", size, len(st.Message()))
	}
	detail, ok := st.Details()[0].(*supervisorv1.AgentError)
	if !ok || detail.GetSignal() != "SIGKILL" || !strings.HasPrefix(detail.GetStderrTail()[len(detail.GetStderrTail())-1], "19é") {
		t.Errorf("the detail is %v", st.Details())
	}
	if !proto.Equal(long, before) {
		t.Error("the error itself was changed")
	}
	short := &supervisorv1.AgentError{Message: "x", StderrTail: tail[:2]}
	if got := fitting(short); len(got.GetStderrTail()) != 2 {
		t.Errorf("a text within the limit was cut: %v", got)
	}
}
