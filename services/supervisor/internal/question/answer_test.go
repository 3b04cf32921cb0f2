package question

import (
	"errors"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
)

func TestAnswer_RejectsAmbiguousOptions(t *testing.T) {
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

func TestAnswered_DeniesOptionOfUnknownKind(t *testing.T) {
	q := &Question{Method: acp.MethodRequestPermission, Options: []acp.PermissionOption{{ID: "no", Kind: "reject"}}}
	for option, want := range map[string]struct {
		end    Outcome
		record gate.Outcome
	}{
		"no": {Denied, gate.Outcome{By: "cli", Unclear: true}},
		"":   {Cancelled, gate.Outcome{By: "cli", Cancelled: true}},
	} {
		end, record := q.answered(&Ending{Cause: SomebodyAnswers, Option: option}, "cli")
		if end.Outcome != want.end || record != want.record {
			t.Errorf("option %q: observers are told %v, the record says %+v; want %v, %+v", option, end.Outcome, record, want.end, want.record)
		}
	}
}
