// Package services serves a supervisor's gRPC services to callers over HTTP: by Connect, gRPC and gRPC-Web, over
// HTTP/1.1 and HTTP/2. Each call goes to the supervisor in its caller's name and with its caller's role (package
// delegation), and the supervisor checks that role again.
//
// Methods are served by their descriptors: the package has no code for single methods, and passes each message on as
// its bytes, or converts it from JSON. The package knows calls, roles and their limits. It must not know what a method
// does, nor how a caller is authenticated.
package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/acphost/acphost/internal/connlimit"
	"github.com/acphost/acphost/internal/delegation"
	"github.com/acphost/acphost/internal/limits"
	_ "github.com/acphost/acphost/proto/acphost/supervisor/v1" // registers the descriptors
	"github.com/acphost/acphost/services/gatewayd/internal/auth"
)

const (
	// maxRequest bounds a request of callers that may prompt an agent, and maxSmall that of others, in bytes.
	maxRequest = limits.Whole
	maxSmall   = 64 << 10
	// bodyTimeout is how long a caller may take to send a request.
	bodyTimeout = time.Minute
	// writeTimeout is how long a caller may take to read a piece of an answer.
	writeTimeout = time.Minute
	// maxCalls limits active calls, and maxCallsEach those of one token or certificate.
	maxCalls, maxCallsEach = 1024, 64
)

// served is the package of the services; unserved is a service in it that is not served: agents are opened by /acp.
const (
	served   = "acphost.supervisor.v1"
	unserved = "acphost.supervisor.v1.GatewayService"
)

var (
	errRevoked  = errors.New("the token or certificate of this call has been revoked, or has expired")
	errStopping = errors.New("the gateway is stopping")
)

// Handler serves the services. Safe for concurrent use.
type Handler struct {
	conn      grpc.ClientConnInterface
	log       *slog.Logger
	methods   map[string]*method // by path
	rejection *connect.ErrorWriter
	calls     *connlimit.Limiter

	mu     sync.Mutex // guards the fields below
	live   map[*call]struct{}
	closed bool
}

// call is an active call.
type call struct {
	caller auth.Caller
	end    context.CancelCauseFunc
}

// method is a served method.
type method struct {
	name    string // "/package.Service/Method"
	need    delegation.Need
	input   protoreflect.MessageType
	output  protoreflect.MessageType
	handler http.Handler
}

// New returns a Handler that calls the supervisor over a connection. Close ends its calls.
func New(conn grpc.ClientConnInterface, log *slog.Logger) (*Handler, error) {
	h := &Handler{
		conn: conn, log: log, methods: map[string]*method{}, rejection: connect.NewErrorWriter(),
		calls: connlimit.New(maxCalls, maxCallsEach, connlimit.RejectNew), live: map[*call]struct{}{},
	}
	var problem error
	protoregistry.GlobalFiles.RangeFilesByPackage(served, func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			service := f.Services().Get(i)
			if service.FullName() == unserved {
				continue
			}
			for j := range service.Methods().Len() {
				problem = errors.Join(problem, h.add(service.Methods().Get(j)))
			}
		}
		return true
	})
	return h, problem
}

// add adds a method.
func (h *Handler) add(d protoreflect.MethodDescriptor) error {
	name := fmt.Sprintf("/%s/%s", d.Parent().FullName(), d.Name())
	if d.IsStreamingClient() {
		return fmt.Errorf("%s: requests that are streams are not served", name)
	}
	input, err := protoregistry.GlobalTypes.FindMessageByName(d.Input().FullName())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	output, err := protoregistry.GlobalTypes.FindMessageByName(d.Output().FullName())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	m := &method{name: name, need: delegation.NeedOf(d), input: input, output: output}
	options := []connect.HandlerOption{
		connect.WithCodec(protoCodec{}), connect.WithCodec(jsonCodec{}), connect.WithReadMaxBytes(maxRequest),
		// A few bytes can decompress to many; the limits apply to the received bytes.
		connect.WithCompression("gzip", nil, nil),
		connect.WithRequestInitializer(func(_ connect.Spec, made any) error {
			f, ok := made.(*frame)
			if !ok {
				return fmt.Errorf("expected a frame, got %T", made)
			}
			f.of = input
			return nil
		}),
	}
	if d.IsStreamingServer() {
		m.handler = connect.NewServerStreamHandler(name, func(ctx context.Context, req *connect.Request[frame], out *connect.ServerStream[frame]) error {
			return h.stream(ctx, m, req.Msg, out)
		}, options...)
	} else {
		m.handler = connect.NewUnaryHandler(name, func(ctx context.Context, req *connect.Request[frame]) (*connect.Response[frame], error) {
			return h.unary(ctx, m, req.Msg)
		}, options...)
	}
	h.methods[name] = m
	return nil
}

// Paths returns the served paths.
func (h *Handler) Paths() []string {
	var all []string
	for path := range h.methods {
		all = append(all, path)
	}
	return all
}

type bodyKey struct{}

// ServeHTTP implements http.Handler. The request's context must carry the caller (auth.From).
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m, caller := h.methods[r.URL.Path], auth.From(r.Context())
	if m == nil {
		http.NotFound(w, r)
		return
	}
	need := m.need.Role
	if m.need.Asks {
		need = delegation.Viewer // the request decides
	}
	if !caller.HasRole(need) {
		h.writeRejection(w, r, caller, missingRole(caller, need))
		return
	}
	ctx, done, err := h.Begin(r.Context(), caller)
	if err != nil {
		h.writeRejection(w, r, caller, asError(err))
		return
	}
	defer done()
	w, r = Bound(w, r.WithContext(ctx))
	m.handler.ServeHTTP(w, r)
}

// Bound bounds a request's body, in size and in time, and how long its sender may take to read each piece of the
// answer. Arrived ends the timeout of the body.
func Bound(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) {
	control := http.NewResponseController(w)
	limit := int64(maxSmall)
	if auth.From(r.Context()).HasRole(delegation.Operator) {
		limit = maxRequest + 1<<10 // plus its envelope
	}
	r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, control))
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	return &timeoutWriter{ResponseWriter: w, control: control}, r
}

// Arrived ends the timeout of a request's body, after Bound.
func Arrived(ctx context.Context) {
	if control, ok := ctx.Value(bodyKey{}).(*http.ResponseController); ok {
		_ = control.SetReadDeadline(time.Time{}) // otherwise the deadline would end the request
	}
}

func (h *Handler) writeRejection(w http.ResponseWriter, r *http.Request, caller auth.Caller, err *connect.Error) {
	h.log.Info("refused a call", "method", r.URL.Path, "caller", caller.ID, "error", err.Message())
	if h.rejection.IsSupported(r) {
		_ = h.rejection.Write(w, r, err)
		return
	}
	http.Error(w, "this takes a POST of Connect, gRPC or gRPC-Web", http.StatusUnsupportedMediaType)
}

// Conn returns the connection to the supervisor. Calls on it need a context of Begin.
func (h *Handler) Conn() grpc.ClientConnInterface { return h.conn }

func missingRole(caller auth.Caller, need string) *connect.Error {
	return connect.NewError(connect.CodePermissionDenied, fmt.Errorf("this takes the role %s; yours is %s", need, caller.Role))
}

// ErrTooManyCalls rejects a call: the limit of concurrent calls is reached.
var ErrTooManyCalls = errors.New("too many calls are being answered: try again later")

// Begin begins a call for a caller, unless there are too many. The returned context carries the caller to the
// supervisor, and ends when the caller loses the permission to call. The caller of Begin calls done when the call ends.
func (h *Handler) Begin(ctx context.Context, caller auth.Caller) (_ context.Context, done func(), err error) {
	leave, ok := h.calls.Admit(caller.ID, nil)
	if !ok {
		return nil, nil, ErrTooManyCalls
	}
	ctx, end := context.WithCancelCause(ctx)
	c := &call{caller: caller, end: end}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		leave()
		end(errStopping)
		return nil, nil, errStopping
	}
	h.live[c] = struct{}{}
	return WithCaller(ctx, caller), func() {
		h.mu.Lock()
		delete(h.live, c)
		h.mu.Unlock()
		end(nil)
		leave()
	}, nil
}

// WithCaller returns a context for calls to a supervisor in the name of a caller.
func WithCaller(ctx context.Context, caller auth.Caller) context.Context {
	name := delegation.Presentable(caller.Name, delegation.MaxName)
	if name == "" {
		name = caller.ID
	}
	return metadata.AppendToOutgoingContext(ctx, delegation.Caller{Name: name, Role: caller.Role}.Metadata()...)
}

// Sweep ends the calls of callers that have lost their permission.
func (h *Handler) Sweep() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.live {
		if !c.caller.Valid() {
			c.end(errRevoked)
		}
	}
}

// Close ends all calls; later ones are rejected.
func (h *Handler) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for c := range h.live {
		c.end(errStopping)
	}
}

// arrived is called when the request is complete. It returns an error if the request needs a role that the caller
// lacks.
func arrived(ctx context.Context, m *method, req *frame) error {
	Arrived(ctx)
	caller := auth.From(ctx)
	if !m.need.Asks || caller.HasRole(m.need.Role) {
		return nil
	}
	message, err := req.message()
	if err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	if look, ok := message.(interface{ GetOnlyLook() bool }); ok && look.GetOnlyLook() {
		return nil
	}
	return missingRole(caller, m.need.Role)
}

func (h *Handler) unary(ctx context.Context, m *method, req *frame) (*connect.Response[frame], error) {
	if err := arrived(ctx, m, req); err != nil {
		return nil, err
	}
	res := &frame{of: m.output}
	if err := h.conn.Invoke(ctx, m.name, req, res, grpc.ForceCodecV2(raw{})); err != nil {
		return nil, failure(ctx, err)
	}
	return connect.NewResponse(res), nil
}

func (h *Handler) stream(ctx context.Context, m *method, req *frame, out *connect.ServerStream[frame]) error {
	if err := arrived(ctx, m, req); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, err := h.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, m.name, grpc.ForceCodecV2(raw{}))
	if err != nil {
		return failure(ctx, err)
	}
	if err := in.SendMsg(req); err != nil && !errors.Is(err, io.EOF) { // RecvMsg returns the reason for EOF
		return failure(ctx, err)
	}
	if err := in.CloseSend(); err != nil {
		return failure(ctx, err)
	}
	// Send headers at once, so that the caller knows that the watch has begun.
	if err := out.Send(nil); err != nil {
		return err
	}
	for {
		res := &frame{of: m.output}
		switch err := in.RecvMsg(res); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return failure(ctx, err)
		}
		if err := out.Send(res); err != nil {
			return err
		}
	}
}

// failure is Failure with the type error.
func failure(ctx context.Context, err error) error { return Failure(ctx, err) }

// Failure returns the error of a call to the supervisor for its caller. ctx is that of the call.
func Failure(ctx context.Context, err error) *connect.Error {
	if cause := context.Cause(ctx); errors.Is(cause, errRevoked) || errors.Is(cause, errStopping) {
		return asError(cause)
	}
	return asError(err)
}

// asError converts an error to a Connect error.
func asError(err error) *connect.Error {
	switch {
	case errors.Is(err, ErrTooManyCalls):
		return connect.NewError(connect.CodeResourceExhausted, err)
	case errors.Is(err, errRevoked):
		return connect.NewError(connect.CodeUnauthenticated, err)
	case errors.Is(err, errStopping):
		return connect.NewError(connect.CodeUnavailable, err)
	}
	s := status.Convert(err)
	if s.Code() == codes.Unavailable && strings.HasPrefix(s.Message(), "connection error") { // do not reveal the supervisor's address
		return connect.NewError(connect.CodeUnavailable, errors.New("the supervisor cannot be reached: try again later"))
	}
	e := connect.NewError(connect.Code(s.Code()), errors.New(s.Message()))
	for _, d := range s.Proto().GetDetails() {
		if detail, err := connect.NewErrorDetail(d); err == nil {
			e.AddDetail(detail)
		}
	}
	return e
}

// timeoutWriter is a response writer with a timeout for each write.
type timeoutWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (p *timeoutWriter) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	return p.ResponseWriter.Write(b)
}

// Flush implements http.Flusher, which Connect requires.
func (p *timeoutWriter) Flush() {
	_ = p.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	_ = p.control.Flush()
}

// Unwrap is for http.ResponseController.
func (p *timeoutWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }
