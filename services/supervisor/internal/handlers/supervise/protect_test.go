package supervise

import (
	"slices"
	"testing"
	"testing/synctest"

	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
)

func TestProtect_SentToLaterInstances(t *testing.T) {
	first, second := newFake(), newFake()
	var sent [][]string
	for _, f := range []*fake{first, second} {
		f.configure = func(req *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
			sent = append(sent, req.GetHost().GetProtectedPaths())
			return &pluginv1.ConfigureResponse{}, nil
		}
	}
	settings := &pluginv1.ConfigureRequest{Host: &pluginv1.Host{ProtectedPaths: []string{"/own"}}}
	supervised(t, []*fake{first, second}, func(t *testing.T, h *Handler, _ *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.Protect([]string{"/key"})
		h.Protect([]string{"/key"})
		if err := h.Configure(t.Context()); err != nil {
			t.Fatal(err)
		}
		first.end(errCrash)
		synctest.Wait()
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}, func(o *Options) { o.Configure = settings })
	want := [][]string{{"/own"}, {"/own", "/key"}, {"/own", "/key"}}
	if !slices.EqualFunc(sent, want, slices.Equal) {
		t.Errorf("sent were %q, want %q", sent, want)
	}
	if len(settings.GetHost().GetProtectedPaths()) != 1 {
		t.Error("the argument of the constructor was changed")
	}
}
