package question

import (
	"errors"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

func TestAnOptionThatCouldBeAnotherIsRefused(t *testing.T) {
	offered := []acp.PermissionOption{
		{ID: "y", Kind: acp.AllowOnce}, {ID: "z", Kind: acp.AllowOnce}, {ID: "n", Kind: acp.RejectOnce},
		{ID: "reject_once", Kind: acp.AllowAlways}, {ID: "x", Kind: acp.RejectAlways}, {ID: "x", Kind: acp.RejectAlways}, {ID: "", Kind: "_odd"}, {ID: "w", Kind: "_new"},
	}
	for option, want := range map[string]string{
		"y": "y", "n": "n", acp.AllowAlways: "reject_once", "w": "w", "_new": "w",
		acp.AllowOnce: "", acp.RejectOnce: "", "x": "", acp.RejectAlways: "", "_odd": "", "": "", "Y": "",
	} {
		got, err := Answer{Option: option}.option(offered)
		if got.ID != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, ErrNotOffered) {
			t.Errorf("%q: got %+v, %v", option, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), `"n" (reject_once)`) {
			t.Errorf("%q: it does not say what there is: %v", option, err)
		}
	}
	for _, a := range []Answer{{}, {Decline: true}, {Option: "y", Cancel: true}, {Accept: []byte("{}")}} {
		if _, err := a.option(offered); !errors.Is(err, ErrNotOffered) {
			t.Errorf("%+v: %v", a, err)
		}
	}
}
