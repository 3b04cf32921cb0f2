package supervise

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/launch"
)

// to is a swap to a fake; nil: to a start that fails. It is called in the bubble of the test.
func to(f *fake) Swap {
	if f != nil {
		f.done = make(chan struct{})
	}
	return Swap{
		Spec: launch.Spec{Command: []string{"/bin/other"}},
		Start: func(context.Context, string) (Instance, error) {
			if f == nil {
				return nil, errStart
			}
			return f, nil
		},
	}
}

// wants fails the test unless the handler's calls go to this fake.
func wants(t *testing.T, h *Handler, f *fake) {
	t.Helper()
	conn, err := h.Conn()
	if err != nil || instanceOf(conn) != Instance(f) {
		t.Errorf("calls go to %v (%v), want %s %s", conn, err, f.describe.GetName(), f.describe.GetVersion())
	}
}

func other() *fake {
	f := newFake()
	f.describe = &pluginv1.DescribeResponse{Name: "other", Version: "2", Services: []string{"acphost.other.v1.OtherService"}}
	f.digest = "def"
	return f
}

func TestSwap_ReplacesProgram(t *testing.T) {
	first, second := newFake(), other()
	first.digest = "abc"
	settings, err := structpb.NewStruct(map[string]any{"a": 1})
	if err != nil {
		t.Fatal(err)
	}
	supervised(t, []*fake{first}, func(t *testing.T, h *Handler, _ *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.Hold("a")
		synctest.Wait()
		s := to(second)
		checked := 0
		s.Check = func(_ context.Context, conn grpc.ClientConnInterface, d *pluginv1.DescribeResponse) error {
			checked++
			if conn != Instance(second) || d.GetName() != "other" || len(second.configured) != 1 {
				t.Errorf("checked %v of %v with %d settings, want the new one, configured", d, conn, len(second.configured))
			}
			wants(t, h, first)
			return nil
		}
		forced, err := h.Swap(t.Context(), s)
		if err != nil || forced != 0 || checked != 1 {
			t.Fatalf("swap: %d forced, %v, checked %d times", forced, err, checked)
		}
		wants(t, h, second)
		synctest.Wait()
		if got := second.scopes(); len(got) != 1 || len(first.scopes()) != 0 {
			t.Errorf("held in the new one: %q, in the old one: %q", got, first.scopes())
		}
		if len(first.stopped()) != 1 || first.stopped()[0] {
			t.Errorf("stops of the old one = %v, want one, with time", first.stopped())
		}
		if got := second.configured[0].GetSettings().GetFields()["a"].GetNumberValue(); got != 1 {
			t.Errorf("configured with %v, want the old one's settings", second.configured[0])
		}
		st := h.Status()
		if st.GetState() != Ready || st.GetDescription() != "other 2" || st.GetCommand()[0] != "/bin/other" || h.Digest() != "def" ||
			st.GetRestarts() != 0 || h.Describe().GetName() != "other" {
			t.Errorf("status = %v", st)
		}
	}, func(o *Options) { o.Configure = &pluginv1.ConfigureRequest{Settings: settings} })
}

func TestSwap_FailureKeepsOld(t *testing.T) {
	refusing := other()
	refusing.configure = func(*pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
		return nil, status.Error(codes.InvalidArgument, "settings.policy: no such file")
	}
	nameless := other()
	nameless.describe = &pluginv1.DescribeResponse{}
	silent := other()
	silent.describes = func(ctx context.Context) error { <-ctx.Done(); return status.FromContextError(ctx.Err()).Err() }
	dying := other()
	dying.configure = func(*pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
		dying.end(errCrash)
		return nil, status.Error(codes.Unavailable, "EOF")
	}
	wrong := other()
	for name, tc := range map[string]struct {
		fake *fake
		why  string
	}{
		"it does not start":                           {nil, errStart.Error()},
		"it refuses its settings":                     {refusing, "settings.policy"},
		"it describes itself badly":                   {nameless, "name"},
		"it does not answer":                          {silent, "no answer within 10s"},
		"it is killed while it is configured":         {dying, errCrash.Error()},
		"the caller does not mistake it for the work": {wrong, "of another kind"},
	} {
		t.Run(name, func(t *testing.T) {
			first := newFake()
			supervised(t, []*fake{first}, func(t *testing.T, h *Handler, _ *fleet) {
				if err := h.Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				before := h.Status()
				s := to(tc.fake)
				s.Check = func(context.Context, grpc.ClientConnInterface, *pluginv1.DescribeResponse) error {
					return errors.New("it is of another kind")
				}
				_, err := h.Swap(t.Context(), s)
				if err == nil || !strings.Contains(err.Error(), tc.why) || !strings.HasPrefix(err.Error(), "swap handler fs: ") {
					t.Errorf("error = %v, want %q", err, tc.why)
				}
				wants(t, h, first)
				if after := h.Status(); after.GetSince().AsTime() != before.GetSince().AsTime() || after.GetRestarts() != 0 ||
					after.GetCommand()[0] != "/bin/faked" || len(first.stopped()) != 0 {
					t.Errorf("status = %v and %d stops, want all as it was", after, len(first.stopped()))
				}
				if tc.fake != nil && len(tc.fake.stopped()) != 1 {
					t.Errorf("stops of the new one = %v, want one", tc.fake.stopped())
				}
			})
		})
	}
}

// begin makes a call of methodWork in the background.
func begin(t *testing.T, h *Handler, timeout time.Duration) (answer chan error) {
	t.Helper()
	conn, err := h.Conn()
	if err != nil {
		t.Fatal(err)
	}
	answer = make(chan error, 2)
	go func() {
		ctx := context.Background()
		if timeout > 0 {
			c, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			ctx = c
		}
		answer <- conn.Invoke(ctx, methodWork, nil, nil)
	}()
	synctest.Wait()
	return answer
}

// takes sets the duration of a fake's work.
func takes(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

func TestSwap_DrainTimeout(t *testing.T) {
	for _, tc := range []struct {
		name    string
		takes   time.Duration
		timeout time.Duration // of the call; 0: none
		waits   time.Duration
		forced  int
	}{
		{"it answers in time", 4 * time.Second, time.Minute, 4 * time.Second, 0},
		{"it does not", time.Hour, time.Minute, 10 * time.Second, 1},
		{"unlimited calls are not waited for", time.Hour, 0, 0, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			first, second := newFake(), other()
			first.work = takes(tc.takes)
			supervised(t, []*fake{first}, func(t *testing.T, h *Handler, _ *fleet) {
				if err := h.Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				answer := begin(t, h, tc.timeout)
				began := time.Now()
				forced, err := h.Swap(t.Context(), to(second))
				if err != nil || forced != tc.forced || time.Since(began) != tc.waits {
					t.Errorf("swap: %d forced, %v, after %s; want %d, after %s", forced, err, time.Since(began), tc.forced, tc.waits)
				}
				want := codes.OK
				if tc.forced > 0 {
					want = codes.Unavailable
				}
				if err := <-answer; status.Code(err) != want {
					t.Errorf("answered with %v, want %v", err, want)
				}
			})
		})
	}
}

func TestSwap_NewServesDuringDrain(t *testing.T) {
	first, second := newFake(), other()
	first.work, second.work = takes(9*time.Second), takes(0)
	supervised(t, []*fake{first}, func(t *testing.T, h *Handler, _ *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		old, err := h.Conn()
		if err != nil {
			t.Fatal(err)
		}
		slow := begin(t, h, time.Minute)
		swapped := make(chan error, 1)
		go func() {
			_, err := h.Swap(t.Context(), to(second))
			swapped <- err
		}()
		synctest.Wait()
		wants(t, h, second)
		began := time.Now()
		if err := old.Invoke(t.Context(), methodWork, nil, nil); err != nil || time.Since(began) != 0 {
			t.Errorf("a late call on the old connection: %v after %s, want an answer of the new one", err, time.Since(began))
		}
		select {
		case err := <-swapped:
			t.Errorf("the swap returned (%v) while the old one worked", err)
		default:
		}
		if err := errors.Join(<-slow, <-swapped); err != nil {
			t.Error(err)
		}
	})
}

func TestSwap_OldEndEndsDrain(t *testing.T) {
	first, second := newFake(), other()
	first.work = func(context.Context) error {
		<-first.done
		return status.Error(codes.Unavailable, "EOF")
	}
	supervised(t, []*fake{first}, func(t *testing.T, h *Handler, _ *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		answer := begin(t, h, time.Minute)
		time.AfterFunc(3*time.Second, func() { first.end(errCrash) })
		began := time.Now()
		if forced, err := h.Swap(t.Context(), to(second)); err != nil || forced != 1 || time.Since(began) != 3*time.Second {
			t.Errorf("swap: %d forced, %v after %s, want 1 after 3 s", forced, err, time.Since(began))
		}
		if err := <-answer; status.Code(err) != codes.Unavailable {
			t.Errorf("answered with %v", err)
		}
		wants(t, h, second)
		if st := h.Status(); st.GetState() != Ready || st.GetError() != "" {
			t.Errorf("status = %v, want no word of the old one's end", st)
		}
	})
}

func TestSwap_WorksUntilStopped(t *testing.T) {
	hanging := func() *fake {
		f := newFake()
		f.describes = func(ctx context.Context) error { <-ctx.Done(); return status.FromContextError(ctx.Err()).Err() }
		return f
	}
	for _, tc := range []struct {
		name  string
		fakes []*fake
		until func(h *Handler, fakes []*fake)
		state supervisorv1.HandlerState
	}{
		{"while it starts", []*fake{hanging()}, func(*Handler, []*fake) {}, Starting},
		{"while it waits to be started again", []*fake{newFake(), nil}, func(h *Handler, fakes []*fake) {
			_ = h.Ready(context.Background())
			fakes[0].end(errCrash)
		}, Backoff},
		{"after it has failed", []*fake{nil}, func(*Handler, []*fake) {}, Failed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			second := other()
			supervised(t, tc.fakes, func(t *testing.T, h *Handler, fl *fleet) {
				tc.until(h, tc.fakes)
				wantState(t, h, tc.state)
				if _, err := h.Swap(t.Context(), to(second)); err != nil {
					t.Fatal(err)
				}
				wants(t, h, second)
				wantState(t, h, Ready)
				starts := fl.count()
				time.Sleep(time.Minute)
				wantState(t, h, Ready)
				if fl.count() != starts {
					t.Error("the old program was started again")
				}
			})
		})
	}
	t.Run("not once it is stopped", func(t *testing.T) {
		supervised(t, []*fake{newFake()}, func(t *testing.T, h *Handler, _ *fleet) {
			if err := h.Stop(context.Background()); err != nil {
				t.Fatal(err)
			}
			if _, err := h.Swap(t.Context(), to(other())); err == nil || !strings.Contains(err.Error(), "stopped") {
				t.Errorf("error = %v, want that it is being stopped", err)
			}
		})
	})
	t.Run("nor before it is started", func(t *testing.T) {
		if _, err := New(Options{Name: "fs", Spec: launch.Spec{Command: []string{"/x"}}}).Swap(t.Context(), to(other())); err == nil {
			t.Error("it was swapped")
		}
	})
}

func TestSwap_ResetsRestartBudget(t *testing.T) {
	var fakes []*fake
	for range 4 {
		fakes = append(fakes, newFake())
	}
	var others []*fake
	for range 5 {
		others = append(others, other())
	}
	supervised(t, fakes, func(t *testing.T, h *Handler, _ *fleet) {
		for _, f := range fakes {
			if err := h.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.end(errCrash)
			synctest.Wait()
		}
		fl := &fleet{fakes: others}
		for _, f := range others {
			f.done = make(chan struct{})
		}
		if _, err := h.Swap(t.Context(), Swap{Spec: launch.Spec{Command: []string{"/bin/other"}}, Start: fl.start}); err != nil {
			t.Fatal(err)
		}
		for _, f := range others[:4] {
			if err := h.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			wants(t, h, f)
			f.end(errCrash)
			synctest.Wait()
		}
		if err := h.Ready(t.Context()); err != nil {
			t.Fatalf("after four ends of its own: %v", err)
		}
		if want := []string{"", "def", "def", "def", "def"}; strings.Join(fl.pins, " ") != strings.Join(want, " ") {
			t.Errorf("pins = %q, want %q", fl.pins, want)
		}
		others[4].end(errCrash)
		wantState(t, h, Failed)
	})
}

func TestStop_EndsSwap(t *testing.T) {
	hanging := other()
	hanging.describes = func(ctx context.Context) error { <-ctx.Done(); return status.FromContextError(ctx.Err()).Err() }
	for _, tc := range []struct {
		name string
		new  *fake
		busy time.Duration
	}{
		{"while the new one starts", hanging, 0},
		{"while the old one drains", other(), time.Hour},
	} {
		t.Run(tc.name, func(t *testing.T) {
			first := newFake()
			first.work = takes(tc.busy)
			supervised(t, []*fake{first}, func(t *testing.T, h *Handler, _ *fleet) {
				if err := h.Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				answer := begin(t, h, time.Minute)
				swapped := make(chan error, 1)
				go func() {
					_, err := h.Swap(t.Context(), to(tc.new))
					swapped <- err
				}()
				synctest.Wait()
				began := time.Now()
				if err := h.Stop(context.Background()); err != nil || time.Since(began) != 0 {
					t.Errorf("stop: %v after %s", err, time.Since(began))
				}
				<-swapped
				<-answer
				if len(first.stopped()) != 1 || len(tc.new.stopped()) != 1 {
					t.Errorf("stops: %v and %v, want one each", first.stopped(), tc.new.stopped())
				}
				wantState(t, h, Stopped)
			})
		})
	}
}

func TestSwap_WaitsForOtherSwap(t *testing.T) {
	first, second, third := newFake(), other(), other()
	first.work = takes(5 * time.Second)
	supervised(t, []*fake{first}, func(t *testing.T, h *Handler, _ *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		answer := begin(t, h, time.Minute)
		swaps := make(chan error, 1)
		go func() {
			_, err := h.Swap(t.Context(), to(second))
			swaps <- err
		}()
		synctest.Wait()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Swap(impatient, to(nil)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v, want that another swap is under way", err)
		}
		if _, err := h.Swap(t.Context(), to(third)); err != nil {
			t.Error(err)
		}
		wants(t, h, third)
		if err := errors.Join(<-swaps, <-answer); err != nil {
			t.Error(err)
		}
	})
}

func TestRestart_KeepsProgramAndPin(t *testing.T) {
	first, second, third := newFake(), newFake(), other()
	first.digest, second.digest = "abc", "abc"
	supervised(t, []*fake{first, second, third}, func(t *testing.T, h *Handler, fl *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := h.Restart(t.Context(), func(context.Context) error { return errors.New("terminals live") }); err == nil {
			t.Error("the check did not count")
		}
		time.Sleep(time.Minute)
		fl.mu.Lock()
		fl.starts = 1
		second.ended, second.err, second.stops = false, nil, nil
		second.done = make(chan struct{})
		fl.mu.Unlock()
		if err := h.Restart(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		wants(t, h, second)
		if st := h.Status(); !st.GetSince().AsTime().Equal(time.Now()) {
			t.Errorf("it serves since %v, want now, %v", st.GetSince().AsTime(), time.Now())
		}
		if st := h.Status(); st.GetRestarts() != 0 || h.Digest() != "abc" || fl.pins[2] != "abc" {
			t.Errorf("status = %v, pins = %q", st, fl.pins)
		}
		if err := h.Restart(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "other services") {
			t.Errorf("error = %v, want that it is another one", err)
		}
		wants(t, h, second)
	})
}

func TestConfigure_ReportsNotesAndErrors(t *testing.T) {
	f := newFake()
	n := 0
	f.configure = func(*pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
		if n++; n == 3 {
			return nil, status.Error(codes.InvalidArgument, "policy.yaml:3:1: rule: no effect")
		}
		return &pluginv1.ConfigureResponse{Notes: []string{fmt.Sprint("load ", n)}}, nil
	}
	supervised(t, []*fake{f}, func(t *testing.T, h *Handler, _ *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := h.Configure(t.Context()); err != nil || h.Status().GetNotes()[0] != "load 2" {
			t.Errorf("notes = %q, %v", h.Status().GetNotes(), err)
		}
		if err := h.Configure(t.Context()); err == nil || err.Error() != "policy.yaml:3:1: rule: no effect" {
			t.Errorf("error = %v, want the handler's own", err)
		}
		if got := h.Status(); got.GetNotes()[0] != "load 2" || got.GetState() != Ready {
			t.Errorf("status = %v, want what it was", got)
		}
		f.end(errCrash)
		var unavailable *Unavailable
		if err := h.Configure(t.Context()); !errors.As(err, &unavailable) {
			t.Errorf("error = %v, want Unavailable", err)
		}
	})
}

func TestChanges_KeepOrderAcrossSwaps(t *testing.T) {
	first, second := newFake(), other()
	var mu sync.Mutex
	var changes []string
	supervised(t, []*fake{first}, func(t *testing.T, h *Handler, _ *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Swap(t.Context(), to(second)); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if got, want := strings.Join(changes, ", "), "STARTING /bin/faked, READY /bin/faked, READY /bin/other"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}, func(o *Options) {
		o.OnChange = func(s *supervisorv1.HandlerStatus) {
			mu.Lock()
			defer mu.Unlock()
			changes = append(changes, strings.TrimPrefix(s.GetState().String(), "HANDLER_STATE_")+" "+s.GetCommand()[0])
		}
	})
}
