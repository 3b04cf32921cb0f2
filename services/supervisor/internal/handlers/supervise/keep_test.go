package supervise

import (
	"context"
	"testing"
	"testing/synctest"

	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
)

func TestKeep_RestoredAfterCrash(t *testing.T) {
	fakes := []*fake{newFake(), newFake(), newFake(), newFake()}
	other := newFake()
	for _, f := range append(fakes, other) {
		f.configure = func(req *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
			if kept := req.GetKept(); kept != nil {
				return &pluginv1.ConfigureResponse{Keep: kept}, nil
			}
			return &pluginv1.ConfigureResponse{Keep: []byte("the content of its files")}, nil
		}
	}
	type keeper interface {
		Kept() []byte
		Keep([]byte)
	}
	supervised(t, fakes, func(t *testing.T, h *Handler, _ *fleet) {
		ready := func() keeper {
			t.Helper()
			synctest.Wait()
			if err := h.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			conn, err := h.Conn()
			if err != nil {
				t.Fatal(err)
			}
			return conn.(keeper)
		}
		given := func(f *fake, want string) {
			t.Helper()
			if got := f.configured[len(f.configured)-1].GetKept(); string(got) != want {
				t.Errorf("it was given %q, want %q", got, want)
			}
		}
		other.done = make(chan struct{}) // of this bubble
		first := ready()
		given(fakes[0], "")
		if !h.Keeps() || string(first.Kept()) != "the content of its files" {
			t.Errorf("kept is %q", first.Kept())
		}
		first.Keep([]byte("a later state"))
		first.Keep(nil)
		fakes[0].end(errCrash)
		second := ready()
		given(fakes[1], "a later state")
		first.Keep([]byte("too late"))
		fakes[1].end(errCrash)
		third := ready()
		given(fakes[2], "a later state")
		if err := h.Configure(t.Context()); err != nil { // a person has it believe its files
			t.Fatal(err)
		}
		given(fakes[2], "")
		if got := third.Kept(); string(got) != "the content of its files" {
			t.Errorf("kept is %q", got)
		}
		third.Keep([]byte("a later state"))
		if err := h.Restart(t.Context(), nil); err != nil { // which is no order to believe anything
			t.Fatal(err)
		}
		given(fakes[3], "a later state")
		second.Keep([]byte("too late"))
		fourth := ready()
		if _, err := h.Swap(t.Context(), Swap{Start: func(context.Context, string) (Instance, error) { return other, nil }}); err != nil {
			t.Fatal(err)
		}
		given(other, "")
		fourth.Keep([]byte("too late"))
		if got := ready().Kept(); string(got) != "the content of its files" {
			t.Errorf("kept is %q", got)
		}
	})
}

func TestKeep_IgnoresSidecars(t *testing.T) {
	f := newFake()
	f.configure = func(*pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
		return &pluginv1.ConfigureResponse{Keep: []byte("a secret of others")}, nil
	}
	supervised(t, []*fake{f}, func(t *testing.T, h *Handler, _ *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if h.Keeps() {
			t.Error("it keeps something")
		}
	}, sidecar)
}

func TestKeep_InvalidAfterReload(t *testing.T) {
	first, second := newFake(), newFake()
	supervised(t, []*fake{first}, func(t *testing.T, h *Handler, _ *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		conn, err := h.Conn()
		if err != nil {
			t.Fatal(err)
		}
		count := func() uint64 {
			t.Helper()
			n, ok := conn.(interface{ Told() (uint64, bool) }).Told()
			if !ok {
				t.Fatal("the number of its configurations is unknown")
			}
			return n
		}
		before, during := count(), uint64(0)
		first.configure = func(*pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
			during = count()
			return nil, errStart // it may have taken some of it all the same
		}
		if err := h.Reload(t.Context()); err == nil {
			t.Error("it took the settings")
		}
		if after := count(); during == before || after == during {
			t.Errorf("configured %d times before, %d during and %d after a reload", before, during, after)
		}
		if _, err := h.Swap(t.Context(), to(second)); err != nil {
			t.Fatal(err)
		}
		if _, ok := conn.(interface{ Told() (uint64, bool) }).Told(); ok {
			t.Error("a state from before the swap is used")
		}
	})
}
