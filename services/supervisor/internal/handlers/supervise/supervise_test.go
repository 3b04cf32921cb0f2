package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/launch"
)

// supervised runs a test in a bubble of fake time, with a handler made of fakes that is stopped at the end.
func supervised(t *testing.T, fakes []*fake, test func(t *testing.T, h *Handler, f *fleet), change ...func(*Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		for _, f := range fakes {
			if f != nil {
				f.done = make(chan struct{}) // a channel belongs to the bubble that it was made in
			}
		}
		f := &fleet{fakes: fakes}
		o := Options{Name: "fs", Start: f.start, Spec: launch.Spec{Command: []string{"/bin/faked"}}}
		for _, c := range change {
			c(&o)
		}
		h := New(o)
		h.Start(t.Context())
		test(t, h, f)
		if err := h.Stop(context.Background()); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}

func sidecar(o *Options) { o.Spec = launch.Spec{Address: "unix:///faked"} }

func wantState(t *testing.T, h *Handler, want supervisorv1.HandlerState) {
	t.Helper()
	synctest.Wait()
	if got := h.Status(); got.GetState() != want {
		t.Fatalf("state = %v (%s), want %v", got.GetState(), got.GetError(), want)
	}
}

func TestHandler_BecomesReady(t *testing.T) {
	f := newFake()
	f.digest = "abc"
	f.configure = func(*pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
		return &pluginv1.ConfigureResponse{Notes: []string{"no rule file"}}, nil
	}
	settings := &pluginv1.ConfigureRequest{Settings: &structpb.Struct{}, Host: &pluginv1.Host{Instance: "x"}}
	supervised(t, []*fake{f}, func(t *testing.T, h *Handler, fl *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if conn, err := h.Conn(); err != nil || instanceOf(conn) != Instance(f) {
			t.Errorf("conn = %v, %v, want the instance", conn, err)
		}
		if h.Describe().GetName() != "faked" {
			t.Errorf("describe = %v", h.Describe())
		}
		got := h.Status()
		if got.GetState() != Ready || got.GetDescription() != "faked 1" || got.GetPid() != 4711 || h.Digest() != "abc" ||
			!got.GetMutualTls() || got.GetRestarts() != 0 || got.GetError() != "" || !slices.Equal(got.GetNotes(), []string{"no rule file"}) {
			t.Errorf("status = %v", got)
		}
		if len(f.configured) != 1 || f.configured[0].GetHost().GetInstance() != "x" || f.configured[0].GetValidateOnly() {
			t.Errorf("configured with %v, want once, in earnest", f.configured)
		}
	}, func(o *Options) { o.Configure = settings })
	if settings.GetValidateOnly() {
		t.Error("the caller's request was changed")
	}
}

func TestSidecar_OnlyValidatesSettings(t *testing.T) {
	f := newFake()
	supervised(t, []*fake{f}, func(t *testing.T, h *Handler, _ *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(f.configured) != 1 || !f.configured[0].GetValidateOnly() {
			t.Errorf("configured with %v, want validate_only", f.configured)
		}
	}, sidecar)
}

func TestStart_FirstFailureIsFinal(t *testing.T) {
	refused := newFake()
	refused.configure = func(*pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
		return nil, status.Error(codes.InvalidArgument, "settings.max_bytes: unknown")
	}
	silent := newFake()
	silent.describes = func(ctx context.Context) error { <-ctx.Done(); return status.FromContextError(ctx.Err()).Err() }
	nameless := newFake()
	nameless.describe = &pluginv1.DescribeResponse{Version: "1", Services: []string{"x"}}
	idle := newFake()
	idle.describe = &pluginv1.DescribeResponse{Name: "x", Version: "1"}
	dying := newFake()
	dying.describes = func(context.Context) error { dying.end(errCrash); return status.Error(codes.Unavailable, "EOF") }
	for name, tc := range map[string]struct {
		fake *fake
		why  string
	}{
		"it does not start":               {nil, errStart.Error()},
		"it refuses its settings":         {refused, "settings.max_bytes: unknown"},
		"it does not answer Describe":     {silent, "no answer within 10s"},
		"it has no name":                  {nameless, "name"},
		"it has no service":               {idle, "without a service"},
		"it crashes while it is asked":    {dying, errCrash.Error()},
		"and a sidecar that is not there": {nil, errStart.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			change := func(o *Options) {
				if strings.Contains(name, "sidecar") {
					sidecar(o)
				}
			}
			supervised(t, []*fake{tc.fake}, func(t *testing.T, h *Handler, fl *fleet) {
				err := h.Ready(t.Context())
				var unavailable *Unavailable
				if !errors.As(err, &unavailable) || unavailable.State != Failed || unavailable.Name != "fs" || !strings.Contains(err.Error(), tc.why) {
					t.Fatalf("error = %v, want that handler fs failed and %q", err, tc.why)
				}
				time.Sleep(time.Hour)
				wantState(t, h, Failed)
				if fl.count() != 1 {
					t.Errorf("%d starts, want 1", fl.count())
				}
				if tc.fake != nil && !slices.Equal(tc.fake.stopped(), []bool{true}) {
					t.Errorf("stops = %v, want one, at once", tc.fake.stopped())
				}
			}, change)
		})
	}
}

func TestRestart_AfterEnd(t *testing.T) {
	first, second := newFake(), newFake()
	first.digest = "abc"
	supervised(t, []*fake{first, second}, func(t *testing.T, h *Handler, fl *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		first.end(errCrash)
		if _, err := h.Conn(); err == nil {
			t.Error("the connection of an ended handler was handed out")
		}
		wantState(t, h, Backoff)
		_, err := h.Conn()
		var unavailable *Unavailable
		if !errors.As(err, &unavailable) || unavailable.State != Backoff || !errors.Is(err, errCrash) {
			t.Errorf("error = %v, want Unavailable, BACKOFF and the cause", err)
		}
		if s := status.Convert(err); s.Code() != codes.Unavailable || strings.Contains(s.Message(), "panic") {
			t.Errorf("as gRPC: %v, want UNAVAILABLE without the cause", s)
		}
		if err := h.Ready(t.Context()); err != nil { // waits for the restart
			t.Fatal(err)
		}
		if conn, err := h.Conn(); err != nil || instanceOf(conn) != Instance(second) {
			t.Errorf("conn = %v, %v, want the second instance", conn, err)
		}
		if got := h.Status(); got.GetRestarts() != 1 || got.GetError() != "" {
			t.Errorf("status = %v, want one restart, and no error of a handler that is ready", got)
		}
		if len(second.configured) != 1 {
			t.Error("the restarted handler was not configured")
		}
		if want := []string{"", "abc"}; !slices.Equal(fl.pins, want) {
			t.Errorf("pins = %q, want %q", fl.pins, want)
		}
	})
}

func TestRestart_LimitsCrashesPerMinute(t *testing.T) {
	var fakes []*fake
	for range 5 {
		fakes = append(fakes, newFake())
	}
	supervised(t, fakes, func(t *testing.T, h *Handler, fl *fleet) {
		for i, f := range fakes {
			if err := h.Ready(t.Context()); err != nil {
				t.Fatalf("start %d: %v", i+1, err)
			}
			f.end(errCrash)
			synctest.Wait()
		}
		wantState(t, h, Failed)
		time.Sleep(time.Hour)
		if err := h.Ready(t.Context()); err == nil || fl.count() != 5 {
			t.Errorf("ready = %v after %d starts, want failed after 5", err, fl.count())
		}
	})
}

func TestRestart_SlowCrashesHaveNoLimit(t *testing.T) {
	var fakes []*fake
	for range 30 {
		fakes = append(fakes, newFake())
	}
	supervised(t, fakes, func(t *testing.T, h *Handler, fl *fleet) {
		for i, f := range fakes[:29] {
			if err := h.Ready(t.Context()); err != nil {
				t.Fatalf("start %d: %v", i+1, err)
			}
			time.Sleep(16 * time.Second)
			f.end(errCrash)
			synctest.Wait()
		}
		if err := h.Ready(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestSidecar_ReconnectsForever(t *testing.T) {
	fakes := []*fake{newFake()}
	for range 200 {
		fakes = append(fakes, nil)
	}
	back := newFake()
	fakes = append(fakes, back)
	supervised(t, fakes, func(t *testing.T, h *Handler, fl *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		fakes[0].end(errors.New("the connection is lost"))
		began := time.Now()
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 201*30*time.Second {
			t.Errorf("200 tries took %s, more than 30 s each", took)
		}
		if len(back.configured) != 1 {
			t.Error("the sidecar was not described and configured again")
		}
	}, sidecar)
}

func TestBackoff_DoublesWithJitter(t *testing.T) {
	seen := map[time.Duration]bool{}
	for failures := range 100 {
		want := maxBackoff
		if failures < 8 {
			want = minBackoff << failures
		}
		for range 100 {
			got := Delay(failures)
			if got < min(want, maxBackoff) || got > min(want*3/2, maxBackoff) {
				t.Fatalf("after %d failures: %s, want %s to one and a half of it, 30 s at most", failures, got, want)
			}
			if failures == 3 {
				seen[got] = true
			}
		}
	}
	if len(seen) < 10 {
		t.Errorf("%d different delays in 100: no jitter", len(seen))
	}
}

func TestRestart_OtherIdentityFails(t *testing.T) {
	services := newFake()
	services.describe = &pluginv1.DescribeResponse{Name: "faked", Version: "2", Services: []string{"acphost.fs.v1.FileSystemService", "more"}}
	descriptors := newFake()
	descriptors.describe = &pluginv1.DescribeResponse{Name: "faked", Version: "2", Services: []string{"acphost.fs.v1.FileSystemService"}, DescriptorSet: []byte{1}}
	for name, tc := range map[string]struct {
		second *fake
		why    string
	}{
		"other services":    {services, "other services"},
		"other descriptors": {descriptors, "other descriptors"},
	} {
		t.Run(name, func(t *testing.T) {
			first := newFake()
			supervised(t, []*fake{first, tc.second}, func(t *testing.T, h *Handler, fl *fleet) {
				if err := h.Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				first.end(errCrash)
				synctest.Wait()
				if err := h.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), tc.why) {
					t.Errorf("error = %v, want %q", err, tc.why)
				}
				if len(tc.second.stopped()) != 1 {
					t.Error("it was left running")
				}
			})
		})
	}
}

func TestRestart_RejectsOtherProgram(t *testing.T) {
	first := newFake()
	calls := 0
	supervised(t, nil, func(t *testing.T, h *Handler, _ *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		first.end(errCrash)
		synctest.Wait()
		if err := h.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "swap") {
			t.Errorf("error = %v, want that it is a swap", err)
		}
		wantState(t, h, Failed)
	}, func(o *Options) {
		first.done = make(chan struct{})
		o.Start = func(context.Context, string) (Instance, error) {
			if calls++; calls == 1 {
				return first, nil
			}
			return nil, &SwappedError{Program: "/bin/faked", Want: "a", Got: "b"}
		}
	})
}

func TestDigest_MeasuredAfterReadyBeforeRestart(t *testing.T) {
	first := newFake()
	supervised(t, []*fake{first, newFake()}, func(t *testing.T, h *Handler, f *fleet) {
		first.measuring = make(chan struct{})
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		first.end(errCrash)
		time.Sleep(maxBackoff) // of the bubble
		synctest.Wait()
		if n := f.count(); n != 1 {
			t.Errorf("%d starts while the program is unknown", n)
		}
		close(first.measuring)
		time.Sleep(maxBackoff)
		wantState(t, h, Ready)
		if f.pins[1] != "abc" || h.Digest() != "abc" {
			t.Errorf("started again with the digest %q, status %v", f.pins[1], h.Status())
		}
	})
}

func TestDigest_UnmeasuredProgramIsNotRestarted(t *testing.T) {
	first := newFake()
	first.digest = ""
	supervised(t, []*fake{first, newFake()}, func(t *testing.T, h *Handler, f *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		first.end(errCrash)
		time.Sleep(maxBackoff)
		wantState(t, h, Failed)
		if err := h.Ready(t.Context()); f.count() != 1 || !strings.Contains(err.Error(), "acphost handler swap") {
			t.Errorf("%d starts, error = %v, want one and what to do", f.count(), err)
		}
		if err := h.Restart(t.Context(), nil); err == nil || f.count() != 1 {
			t.Errorf("a restart: %v, %d starts", err, f.count())
		}
	})
}

func TestHold_KeepsScopesInEachInstance(t *testing.T) {
	for name, together := range map[string]bool{"over one stream": true, "over a stream each": false} {
		t.Run(name, func(t *testing.T) { scopesAreHeld(t, together) })
	}
}

func scopesAreHeld(t *testing.T, together bool) {
	first, second := newFake(), newFake()
	first.together, second.together = together, together
	supervised(t, []*fake{first, second}, func(t *testing.T, h *Handler, _ *fleet) {
		h.Hold("early") // before it is ready
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.Hold("a")
		h.Hold("a")
		h.Hold("b")
		synctest.Wait()
		if got, want := first.scopes(), []string{"a", "b", "early"}; !slices.Equal(got, want) {
			t.Fatalf("held = %q, want %q", got, want)
		}
		h.Drop("b")
		synctest.Wait()
		if got, want := first.scopes(), []string{"a", "early"}; !slices.Equal(got, want) {
			t.Errorf("held after a drop = %q, want %q", got, want)
		}
		first.end(errCrash)
		synctest.Wait()
		h.Drop("early") // while none exists
		h.Hold("late")
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got, want := second.scopes(), []string{"a", "late"}; !slices.Equal(got, want) {
			t.Errorf("held after a restart = %q, want %q", got, want)
		}
		if got := first.scopes(); len(got) != 0 {
			t.Errorf("held in the ended one: %q", got)
		}
		if streams := first.streams + second.streams; together && (streams != 2 || first.opened+second.opened != 0) || !together && streams != 0 {
			t.Errorf("HoldAll was called %d times, and Hold %d and %d times", streams, first.opened, second.opened)
		}
	})
}

func TestHoldAll_ReopensWithCurrentScopes(t *testing.T) {
	f := newFake()
	f.together = true
	supervised(t, []*fake{f}, func(t *testing.T, h *Handler, _ *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.Hold("dropped")
		h.Hold("kept")
		synctest.Wait()
		f.cut()
		synctest.Wait()
		if got := f.scopes(); len(got) != 0 {
			t.Fatalf("held = %q, though the stream is cut", got)
		}
		h.Drop("dropped") // while none exists
		h.Hold("new")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		h.Hold("late")
		synctest.Wait()
		if got, want := f.scopes(), []string{"kept", "late", "new"}; !slices.Equal(got, want) || f.streams != 2 {
			t.Errorf("held = %q over stream %d, want %q over the second", got, f.streams, want)
		}
	})
}

func TestHoldAll_FallsBackToHold(t *testing.T) {
	for code, apart := range map[codes.Code]bool{
		codes.Unimplemented: true, codes.Unknown: true, codes.Internal: true, codes.NotFound: true, codes.PermissionDenied: true,
		codes.Unavailable: false, codes.ResourceExhausted: false,
	} {
		t.Run(code.String(), func(t *testing.T) {
			f := newFake()
			f.allErr = status.Error(code, "no such method")
			supervised(t, []*fake{f}, func(t *testing.T, h *Handler, _ *fleet) {
				if err := h.Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				h.Hold("a")
				synctest.Wait()
				if held := len(f.scopes()) == 1; held != apart {
					t.Errorf("held over a stream of its own: %v, want %v", held, apart)
				}
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if asked := f.streams; apart && asked != 1 || !apart && (asked < 10 || asked > 40) {
					t.Errorf("HoldAll was asked %d times in ten minutes", asked)
				}
			})
		})
	}
}

func TestHold_BacksOff(t *testing.T) {
	f := newFake()
	f.holdErr = status.Error(codes.Internal, "always")
	supervised(t, []*fake{f}, func(t *testing.T, h *Handler, _ *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.Hold("a")
		opened := func() int {
			synctest.Wait()
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.opened
		}
		time.Sleep(releaseDelay)
		if n := opened(); n < 10 || n > 11 {
			t.Errorf("opened %d times before the handler lets go, want once a second", n)
		}
		before := opened()
		time.Sleep(10 * time.Minute)
		if n := opened() - before; n < 10 || n > 30 {
			t.Errorf("opened %d more times in ten minutes", n)
		}
	})
}

func TestHold_ReopensAfterEnd(t *testing.T) {
	f := newFake()
	f.holdErr = status.Error(codes.Internal, "once")
	supervised(t, []*fake{f}, func(t *testing.T, h *Handler, _ *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.Hold("a")
		synctest.Wait()
		f.mu.Lock()
		f.holdErr = nil
		f.mu.Unlock()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := f.scopes(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("held = %q, want it opened again", got)
		}
	})
}

func TestHold_UnimplementedIsNotRetried(t *testing.T) {
	f := newFake()
	f.holdErr = status.Error(codes.Unimplemented, "unknown method Hold")
	supervised(t, []*fake{f}, func(t *testing.T, h *Handler, _ *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.Hold("a")
		time.Sleep(time.Hour)
		synctest.Wait()
		if f.opened != 1 {
			t.Errorf("Hold was called %d times, want once", f.opened)
		}
	})
}

func TestStop_CancelsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{Name: "fs", Start: func(ctx context.Context, _ string) (Instance, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		h.Start(t.Context())
		synctest.Wait()
		if err := h.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		wantState(t, h, Stopped)
		if err := h.Ready(t.Context()); err == nil {
			t.Error("ready after it was stopped")
		}
	})
}

func TestStop_DuringBackoffReturnsAtOnce(t *testing.T) {
	first := newFake()
	supervised(t, []*fake{first, newFake()}, func(t *testing.T, h *Handler, fl *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		first.end(errCrash)
		wantState(t, h, Backoff)
		if err := h.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		wantState(t, h, Stopped)
		if fl.count() != 1 {
			t.Errorf("%d starts, want 1", fl.count())
		}
	})
}

func TestStop_WaitsUntilDeadline(t *testing.T) {
	f := newFake()
	f.stop = func(ctx context.Context) error { <-ctx.Done(); return nil }
	var states []supervisorv1.HandlerState
	var changes atomic.Int64
	supervised(t, []*fake{f}, func(t *testing.T, h *Handler, _ *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		was := changes.Load()
		if h.markConfigure(); changes.Load() != was+1 {
			t.Errorf("notified of %d changes when it is configured, want 1", changes.Load()-was)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if err := h.Stop(ctx); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("stop = %v after %s, want nil after 3 s", err, time.Since(began))
		}
		if !slices.Equal(f.stopped(), []bool{false}) {
			t.Errorf("stops = %v, want one, with time", f.stopped())
		}
	}, func(o *Options) {
		o.OnChange = func(s *supervisorv1.HandlerStatus) { states = append(states, s.GetState()) }
		o.Changed = func() { changes.Add(1) }
	})
	if n := changes.Load(); n < int64(len(states)+1) {
		t.Errorf("notified of %d changes, and there were %d states", n, len(states))
	}
	if want := []supervisorv1.HandlerState{Starting, Ready, Stopping, Stopped}; !slices.Equal(states, want) {
		t.Errorf("states = %v, want %v", states, want)
	}
}

func TestStop_ReportsRemainingProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.stop = func(context.Context) error { return errors.New("process 4711 does not end") }
		h := New(Options{Name: "fs", Start: func(context.Context, string) (Instance, error) { return f, nil }})
		h.Start(t.Context())
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := h.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "4711") {
			t.Errorf("error = %v, want the process that is left", err)
		}
		if err := h.Stop(t.Context()); err == nil {
			t.Error("the second Stop forgot it")
		}
	})
}

func TestStop_UnstartedHandler(t *testing.T) {
	h := New(Options{Name: "fs"})
	if err := h.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	h.Start(t.Context())
	if got := h.Status().GetState(); got != Stopped {
		t.Errorf("state = %v, want stopped", got)
	}
}

func TestReady_EndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{Name: "fs", Start: func(ctx context.Context, _ string) (Instance, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		h.Start(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := h.Ready(ctx)
		var unavailable *Unavailable
		if !errors.As(err, &unavailable) || unavailable.State != Starting || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v, want that it is being started, and the deadline", err)
		}
		if err := h.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestRestart_ResourceExhaustionIsNotCounted(t *testing.T) {
	first, second := newFake(), newFake()
	full := make([]*fake, 3*exitLimit)
	fakes := slices.Concat([]*fake{first}, full, []*fake{second})
	supervised(t, fakes, func(t *testing.T, h *Handler, fl *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		first.end(errCrash)
		time.Sleep(time.Hour)
		wantState(t, h, Ready)
		if got := fl.count(); got != len(fakes) {
			t.Errorf("%d starts, want %d", got, len(fakes))
		}
	}, func(o *Options) {
		start := o.Start
		o.Start = func(ctx context.Context, pin string) (Instance, error) {
			inst, err := start(ctx, pin)
			if err != nil {
				err = fmt.Errorf("start it: %w", &fs.PathError{Op: "fork/exec", Path: "/bin/faked", Err: syscall.EAGAIN})
			}
			return inst, err
		}
	})
}

func TestHandler_ReconnectsSidecarAtOnce(t *testing.T) {
	fakes := []*fake{newFake()}
	for range 100 {
		fakes = append(fakes, nil) // it cannot be reached
	}
	fakes = append(fakes, newFake())
	supervised(t, fakes, func(t *testing.T, h *Handler, _ *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		fakes[0].end(errCrash)
		began := time.Now()
		synctest.Wait()
		_, err := h.Conn()
		if u, ok := errors.AsType[*Unavailable](err); !ok || !strings.Contains(u.GRPCStatus().Message(), "handler fs cannot be reached") {
			t.Errorf("the error of a call is %v, which does not name the handler", err)
		}
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 101*sidecarRetry {
			t.Errorf("100 attempts took %v, more than %v each", took, sidecarRetry)
		}
		if got := h.Status(); got.GetRestarts() != 1 || got.GetError() != "" {
			t.Errorf("the status is %v, want one restart and no error", got)
		}
	}, sidecar)
}
