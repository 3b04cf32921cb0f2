// Package conformance contains the contract of a handler as test cases. The cases run over a connection to any handler: a
// child, a sidecar, a server in the same process, or a handler in another language.
//
// A case knows the proto contract and not the handler. The handler must see the same file system as the suite: each case
// works in a new folder of its own. The cases are ordered from simple to special, and no case needs another one to have
// run.
//
// The package does not import testing, so that a command can run it (sdk/cmd/acphost-conformance). For tests, use
// sdk/handlertest.
package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
)

// The kinds of handlers, as in the configuration.
const (
	KindFS         = "fs"
	KindTerminal   = "terminal"
	KindPermission = "permission"
	KindExtension  = "extension"
)

// DefaultTimeout is how long one case may take.
const DefaultTimeout = 60 * time.Second

// ErrSkipped is wrapped by the result of a case that does not apply: an optional method that the handler does not
// answer, a system that cannot set the case up. It is not a failure.
var ErrSkipped = errors.New("skipped")

// Case is one demand of the contract.
type Case struct {
	// Name is "KIND/what is demanded", unique in a suite.
	Name string
	// Kind is the kind of handler that it is for; "plugin" for cases that are for every kind.
	Kind string
	// Run returns nil if the demand is met, an error that wraps ErrSkipped, or what is wrong.
	Run func(ctx context.Context, e *Env) error
}

// Env is what a case works with.
type Env struct {
	Suite
	// Dir is a fresh folder, by its real path, and the root of Context. It is removed after the case.
	Dir string
	// Scope is a fresh scope: 32 characters of lower-case hexadecimal.
	Scope string

	mu      sync.Mutex
	cleanup []func() // what is done when the case has ended, the last first
}

// after has a function called when the case has ended.
func (e *Env) after(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cleanup = append(e.cleanup, f)
}

// Context is a call's context as a supervisor would set it: this case's scope, and its folder as the only root.
func (e *Env) Context() *acpv1.CallContext {
	return &acpv1.CallContext{
		SessionId:       "conformance-" + e.Scope[:8],
		Scope:           e.Scope,
		Roots:           []*acpv1.Root{{Path: e.Dir}},
		Agent:           "conformance",
		ProtocolVersion: 1,
	}
}

// Kinds are the kinds that Cases knows.
func Kinds() []string { return []string{KindFS, KindTerminal, KindPermission, KindExtension} }

// Cases are those for a kind of handler, the ones for every kind first. An unknown kind has none.
func Cases(kind string) []Case {
	var own []Case
	switch kind {
	case KindFS:
		own = fsCases()
	case KindTerminal:
		own = terminalCases()
	case KindPermission:
		own = permissionCases()
	case KindExtension:
	default:
		return nil
	}
	return append(pluginCases(), own...)
}

// Suite runs cases against one handler.
type Suite struct {
	// Conn is a connection to the handler.
	Conn grpc.ClientConnInterface
	// Kind is the handler's kind.
	Kind string
	// Sidecar says that the handler keeps the settings that it was started with.
	Sidecar bool
	// Settings are the handler's, which it is configured with before each case. Default (nil): none, and each case finds
	// the handler as the one before left it.
	Settings *structpb.Struct
	// Impure says that decisions depend on more than the action, on the time of day or on another server, so that the
	// same action may be judged otherwise the next time. Cases that demand the same verdict are skipped then.
	Impure bool
	// NoTTY says that a handler of terminals gives commands pipes to write to, and no pseudo-terminal. Cases about what a
	// pseudo-terminal does are skipped then, and raw output ends its lines as the command does.
	NoTTY bool
	// Program is how the handler is started, for ChildCases. Default (nil): they are skipped.
	Program *Program
	// Timeout bounds each case. Default (0): DefaultTimeout.
	Timeout time.Duration
}

// RunCase runs one case in an environment of its own, and always returns by its deadline if the connection honours
// deadlines. A panic is an error.
func (s Suite) RunCase(ctx context.Context, c Case) (err error) {
	dir, err := os.MkdirTemp("", "acphost-conformance-")
	if err != nil {
		return fmt.Errorf("cannot make a folder for the case: %w", err)
	}
	defer func() { err = errors.Join(err, removeAll(dir)) }()
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("cannot make a folder for the case: %w", err)
	}
	var scope [16]byte
	_, _ = rand.Read(scope[:]) // never fails

	timeout := s.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the case panicked: %v\n%s", v, debug.Stack())
		}
	}()
	e := &Env{Suite: s, Dir: real, Scope: hex.EncodeToString(scope[:])}
	if s.Settings != nil {
		if _, err := e.plugin().Configure(ctx, &pluginv1.ConfigureRequest{Settings: s.Settings}); err != nil {
			return fmt.Errorf("configure the handler for the case: %w", err)
		}
	}
	return c.Run(ctx, e)
}

// removeAll removes a case's folder, also if the case took rights away.
func removeAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if entry != nil && entry.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// demand is a case in the making. Its function ends the case by check, must or fail, as Fatal of package testing ends a
// test, so that it reads as a list of what the contract demands.
type demand struct {
	Name string
	Run  func(ctx context.Context, e *Env)
}

// kind makes cases of demands on one kind of handler.
func kind(name string, demands []demand) []Case {
	cases := make([]Case, len(demands))
	for i, d := range demands {
		cases[i] = Case{Name: name + "/" + d.Name, Kind: name, Run: func(ctx context.Context, e *Env) (err error) {
			defer func() {
				v := recover()
				for _, f := range slices.Backward(e.cleanup) {
					f()
				}
				if end, ok := v.(ended); ok {
					err = end.error
				} else if v != nil {
					panic(v)
				}
			}()
			d.Run(ctx, e)
			return nil
		}}
	}
	return cases
}

// ended is what fail panics with; kind makes it the case's result again.
type ended struct{ error }

// fail ends a case with its result. It, check and must are for the case's own goroutine alone.
func fail(err error) { panic(ended{err}) }

// check ends a case with err unless it is nil.
func check(err error) {
	if err != nil {
		fail(err)
	}
}

// must returns value, or ends a case as check does.
func must[T any](value T, err error) T {
	check(err)
	return value
}

// named is err with what it is about; nil if err is nil.
func named(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// same demands that got is want.
func same[T comparable](what string, got, want T) error {
	if got != want {
		return differs(what, got, want)
	}
	return nil
}

// alike is same for messages.
func alike(what string, got, want proto.Message) error {
	if !proto.Equal(got, want) {
		return differs(what, got, want)
	}
	return nil
}

// skip says why a case does not apply.
func skip(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrSkipped, fmt.Sprintf(format, args...))
}

// differs says what was got and what the contract demands.
func differs(what string, got, want any) error {
	return fmt.Errorf("%s: got %s, want %s", what, shown(got), shown(want))
}

// shown is a value, cut to what a person reads.
func shown(v any) string {
	const most = 300
	text := fmt.Sprintf("%+v", v)
	if s, ok := v.(string); ok {
		text = fmt.Sprintf("%q", s)
	}
	if len(text) > most {
		text = fmt.Sprintf("%s… (%d bytes)", text[:most], len(text))
	}
	return text
}

// wantCode demands an error with one of the codes.
func wantCode(what string, err error, allowed ...codes.Code) error {
	got := status.Code(err)
	if slices.Contains(allowed, got) {
		return nil
	}
	if err == nil {
		return fmt.Errorf("%s: it succeeded, want %v", what, allowed)
	}
	return fmt.Errorf("%s: got %v (%s), want %v", what, got, shown(status.Convert(err).Message()), allowed)
}
