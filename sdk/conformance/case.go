// Package conformance contains the contract of a handler as test cases. The cases run over a connection to any handler:
// a child, a sidecar, a server in the same process, or a handler in another language.
//
// A case knows the proto contract and not the handler. The handler must see the same file system as the suite: each
// case works in a new folder. The cases are ordered from simple to special, and do not depend on one another.
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

// DefaultTimeout is the default time limit of one case.
const DefaultTimeout = 60 * time.Second

// ErrSkipped is wrapped by the result of a case that does not apply: an optional method that the handler does not
// implement, or a system on which the case cannot be set up. It is not a failure.
var ErrSkipped = errors.New("skipped")

// Case is one requirement of the contract.
type Case struct {
	// Name is "KIND/requirement", unique in a suite; KIND is "plugin" for cases that apply to every kind of handler.
	Name string
	// run ends through check, must, demand, expect or skipIf if a requirement is not met, as Fatal of package testing
	// ends a test, so that it reads as a list of requirements.
	run func(ctx context.Context, e *env)
}

// env is the environment of a case.
type env struct {
	Suite
	dir     string   // new, by its real path, and the root of context; removed after the case
	scope   string   // new: 32 lower-case hexadecimal characters
	cleanup []func() // called when the case has ended, the last first

	mu sync.Mutex // guards cleanup
}

// onCleanup registers a function to be called when the case has ended.
func (e *env) onCleanup(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cleanup = append(e.cleanup, f)
}

// context returns a call's context as a supervisor would set it: this case's scope, and its folder as the only root.
func (e *env) context() *acpv1.CallContext {
	return &acpv1.CallContext{
		SessionId:       "conformance-" + e.scope[:8],
		Scope:           e.scope,
		Roots:           []*acpv1.Root{{Path: e.dir}},
		Agent:           "conformance",
		ProtocolVersion: 1,
	}
}

// Kinds returns the kinds that Cases knows.
func Kinds() []string { return []string{KindFS, KindTerminal, KindPermission, KindExtension} }

// ownCases are the cases of each kind.
var ownCases = map[string][][]Case{
	KindFS: {fsReadCases, fsPathCases, fsWriteCases, fsListCases},
	// Commands are lines for a POSIX shell.
	KindTerminal: {terminalCommandCases, terminalDecidedCases, terminalOutputCases, terminalLifeCases, terminalWatchCases},
	// No case knows the policy of the handler, so none of them wants a certain verdict.
	KindPermission: {permissionCases},
	KindExtension:  nil,
}

// Cases returns the cases for a kind of handler, first those for every kind. For an unknown kind it returns none.
func Cases(kind string) []Case {
	own, known := ownCases[kind]
	if !known {
		return nil
	}
	return append(named("plugin", pluginCases), named(kind, own...)...)
}

// ChildCases returns the cases about the life of a child, for every kind of handler. Each starts the suite's Program
// anew.
func ChildCases() []Case { return named("child", childCases) }

// named returns the cases with complete names.
func named(kind string, groups ...[]Case) []Case {
	cases := slices.Concat(groups...)
	for i := range cases {
		cases[i].Name = kind + "/" + cases[i].Name
	}
	return cases
}

// Suite runs cases against one handler.
type Suite struct {
	// Conn is a connection to the handler.
	Conn grpc.ClientConnInterface
	// Kind is the handler's kind.
	Kind string
	// Sidecar means that the handler keeps the settings that it was started with.
	Sidecar bool
	// Settings are the handler's settings, applied before each case. Default (nil): none, and each case finds the
	// handler in the state that the previous case left.
	Settings *structpb.Struct
	// Impure means that decisions depend on more than the action, such as the time of day or another server, so that
	// the same action may get another decision later. Cases that require the same verdict are skipped then.
	Impure bool
	// NoTTY means that a handler of terminals gives commands pipes to write to, and no pseudo-terminal. Cases about
	// properties of a pseudo-terminal are skipped then, and raw output has the line ends of the command.
	NoTTY bool
	// Program describes how to start the handler, for ChildCases. Default (nil): they are skipped.
	Program *Program
	// Timeout limits each case. Default (0): DefaultTimeout.
	Timeout time.Duration
}

// RunCase runs one case in a new environment. It always returns by its deadline if the connection honours deadlines. A
// panic becomes an error.
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
	e := &env{Suite: s, dir: real, scope: hex.EncodeToString(scope[:])}
	if s.Settings != nil {
		if _, err := e.plugin().Configure(ctx, &pluginv1.ConfigureRequest{Settings: s.Settings}); err != nil {
			return fmt.Errorf("configure the handler for the case: %w", err)
		}
	}
	defer func() {
		switch v := recover().(type) {
		case nil:
		case ended:
			err = v.error
		default:
			err = fmt.Errorf("the case panicked: %v\n%s", v, debug.Stack())
		}
	}()
	defer func() {
		for _, f := range slices.Backward(e.cleanup) {
			f()
		}
	}()
	c.run(ctx, e)
	return nil
}

// removeAll removes a case's folder, also if the case removed permissions.
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

// ended is the value of the panic that ends a case; RunCase converts it to the case's result.
type ended struct{ error }

// check ends a case with err unless it is nil. Like all functions that end a case, it must be called only in the case's
// own goroutine.
func check(err error) {
	if err != nil {
		panic(ended{err})
	}
}

// must returns value, or ends a case as check does.
func must[T any](value T, err error) T {
	check(err)
	return value
}

// require ends a case unless the condition is met; the text describes the failure.
func require(met bool, format string, args ...any) {
	if !met {
		check(fmt.Errorf(format, args...))
	}
}

// expect is demand with a text that contains the received and the expected value.
func expect(met bool, what string, got, want any) {
	if !met {
		check(differs(what, got, want))
	}
}

// skipIf ends a case that does not apply, with the reason.
func skipIf(skipped bool, format string, args ...any) {
	if skipped {
		check(skip(format, args...))
	}
}

// wrap adds the subject to err. It returns nil if err is nil.
func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// equal requires that got equals want.
func equal[T comparable](what string, got, want T) { expect(got == want, what, got, want) }

// equalMessages is equal for messages.
func equalMessages(what string, got, want proto.Message) {
	expect(proto.Equal(got, want), what, got, want)
}

// skip returns the reason why a case does not apply.
func skip(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrSkipped, fmt.Sprintf(format, args...))
}

// differs returns an error with the received and the expected value.
func differs(what string, got, want any) error {
	return fmt.Errorf("%s: got %s, want %s", what, display(got), display(want))
}

// display returns a value as text, shortened for people.
func display(v any) string {
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

// wantCode requires an error with one of the codes.
func wantCode(what string, err error, allowed ...codes.Code) {
	got := status.Code(err)
	switch {
	case slices.Contains(allowed, got):
	case err == nil:
		require(false, "%s: it succeeded, want %v", what, allowed)
	default:
		require(false, "%s: got %v (%s), want %v", what, got, display(status.Convert(err).Message()), allowed)
	}
}

// concurrently makes n calls concurrently, and ends a case if one fails.
func concurrently(n int, call func(i int) error) {
	var all sync.WaitGroup
	failed := make([]error, n)
	for i := range failed {
		all.Go(func() { failed[i] = call(i) })
	}
	all.Wait()
	check(errors.Join(failed...))
}

// begin makes a call concurrently with the case. The returned channel gets its error, and is closed then.
func begin(call func() error) <-chan error {
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		ended <- call()
	}()
	return ended
}

// await repeats ask until it returns a value, because no notification exists, and returns the value. late describes the
// missing value.
func await[T any](ctx context.Context, late string, ask func() (T, bool, error)) (T, error) {
	for {
		if got, ok, err := ask(); ok || err != nil {
			return got, err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			var none T
			return none, fmt.Errorf("%s: %w", late, context.Cause(ctx))
		}
	}
}
