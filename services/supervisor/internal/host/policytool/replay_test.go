package policytool_test

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/host/policytool"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
)

func recorded(verdict, command string) *supervisorv1.AuditRecord {
	return &supervisorv1.AuditRecord{
		Time:  timestamppb.New(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)),
		Agent: "gemini", Verdict: verdict, Plugin: "permd 1", AnsweredBy: "policy",
		Action: &permissionv1.Action{Kind: "terminal.create", Command: &permissionv1.Command{Text: command, SubCommands: []*permissionv1.SubCommand{{Argv: strings.Fields(command)}}}},
	}
}

// records yields them, then the error.
func records(err error, all ...*supervisorv1.AuditRecord) iter.Seq2[*supervisorv1.AuditRecord, error] {
	return func(yield func(*supervisorv1.AuditRecord, error) bool) {
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// byFirstWord returns the decision that a command's first word names.
func byFirstWord(req *permissionv1.ExplainRequest) (*permissionv1.ExplainResponse, error) {
	if len(req.GetFiles()) != 1 || req.GetFiles()[0].GetName() != "new.yaml" {
		return nil, status.Errorf(codes.InvalidArgument, "the files are %v", req.GetFiles())
	}
	d := &permissionv1.DecideResponse{Verdict: ask}
	switch word, _, _ := strings.Cut(req.GetAction().GetCommand().GetText(), " "); word {
	case "ls":
		d = &permissionv1.DecideResponse{Verdict: allow, Rule: "look"}
	case "rm":
		d = &permissionv1.DecideResponse{Verdict: deny, Rule: "no-removal"}
	}
	return &permissionv1.ExplainResponse{Decision: d}, nil
}

func TestReplay_ActionsOfAllowedCommandCountOnlyIfDenied(t *testing.T) {
	var all []*supervisorv1.AuditRecord
	for _, line := range []string{"make x", "ls a", "rm b"} {
		r := recorded("allow", line)
		r.AnsweredBy = gate.ByCommand
		all = append(all, r)
	}
	r, err := policytool.Replay(t.Context(), serve(t, &fake{explain: byFirstWord}), &permissionv1.PolicyFile{Name: "new.yaml"}, records(nil, all...), 0)
	if err != nil {
		t.Fatal(err)
	}
	if want := "3 decisions, 1 differs: 1 allow→deny"; r.Summary() != want {
		t.Errorf("got  %s\nwant %s", r.Summary(), want)
	}
}

func TestReplay_CountsOtherDecisions(t *testing.T) {
	earlier, own, granted, person := recorded("deny", "ls a"), recorded("deny", "ls b"), recorded("ask", "git push"), recorded("ask", "git pull")
	earlier.AnsweredBy = gate.ByEarlier // "a person refused just this a moment ago"
	own.Rule = gate.RuleGit             // of what a policy had been asked about
	granted.AnsweredBy, person.AnsweredBy = gate.ByGrant, gate.ByClient
	r, err := policytool.Replay(t.Context(), serve(t, &fake{explain: byFirstWord}), &permissionv1.PolicyFile{Name: "new.yaml"},
		records(nil, earlier, own, granted, person, earlier), 0)
	if err != nil {
		t.Fatal(err)
	}
	if want := "2 decisions, none differs (1 of acphost's own and 2 by earlier answers left out)"; r.Summary() != want {
		t.Errorf("got  %s\nwant %s", r.Summary(), want)
	}
}

func TestReplay_ListsDifferences(t *testing.T) {
	t.Setenv("TZ", "UTC")
	own := recorded("deny", "cat policy.yaml")
	own.Plugin, own.AnsweredBy = "", "acphost"
	all := []*supervisorv1.AuditRecord{
		recorded("ask", "ls a"), recorded("allow", "ls b"), recorded("allow", "rm -rf \x1b[2J"), {Note: "torn"}, own, recorded("ask", "git push"), recorded("ask", "ls c"),
	}
	for i := range 1300 {
		all = append(all, recorded("deny", fmt.Sprintf("rm %d", i)))
	}
	r, err := policytool.Replay(t.Context(), serve(t, &fake{explain: byFirstWord}), &permissionv1.PolicyFile{Name: "new.yaml"}, records(errors.New("a:7: torn"), all...), 0)
	if err != nil {
		t.Fatal(err)
	}
	if r.Decisions != 1305 || r.Own != 1 || len(r.Unread) != 1 || len(r.Differ) != 3 {
		t.Errorf("%d decisions, %d own, %d unread, %d differ; want 1305, 1, 1 and 3", r.Decisions, r.Own, len(r.Unread), len(r.Differ))
	}
	if want := "1,305 decisions, 3 differ: 2 ask→allow, 1 allow→deny (1 of acphost's own left out)"; r.Summary() != want {
		t.Errorf("got  %s\nwant %s", r.Summary(), want)
	}
	for i, d := range r.Differ {
		d.Record.Time = timestamppb.New(time.Date(2026, 3, 1, 12, i, 0, 0, time.Local))
	}
	var out bytes.Buffer
	r.Print(&out, policytool.Style{})
	golden(t, "replay", out.String())
	object, err := r.JSON()
	text := indented(t, object, err)
	for _, want := range []string{`"decisions": 1305`, `"would_be": "deny"`, `"was": "ask"`, `"rule": "no-removal"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the JSON does not contain %s", want)
		}
	}
}

func TestReplay_KeepsNewestDifferences(t *testing.T) {
	var all []*supervisorv1.AuditRecord
	for i := range 1000 {
		all = append(all, recorded("allow", fmt.Sprintf("rm %d", i)))
	}
	r, err := policytool.Replay(t.Context(), serve(t, &fake{explain: byFirstWord}), &permissionv1.PolicyFile{Name: "new.yaml"}, records(nil, all...), 30)
	if err != nil {
		t.Fatal(err)
	}
	if r.Count() != 1000 || r.Summary() != "1,000 decisions, 1,000 differ: 1,000 allow→deny" {
		t.Errorf("%d differ: %s", r.Count(), r.Summary())
	}
	if n := len(r.Differ); n != 30 || r.Differ[0].Record.GetAction().GetCommand().GetText() != "rm 970" || r.Differ[29].Record.GetAction().GetCommand().GetText() != "rm 999" {
		t.Errorf("%d are kept", n)
	}
}

func TestReplay_WithoutDifferences(t *testing.T) {
	r, err := policytool.Replay(t.Context(), serve(t, &fake{explain: byFirstWord}), &permissionv1.PolicyFile{Name: "new.yaml"}, records(nil, recorded("allow", "ls")), 0)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r.Print(&out, policytool.Style{})
	if out.String() != "1 decision, none differs\n" {
		t.Errorf("got %q", out.String())
	}
}

func TestReplay_ReturnsErrorOfPermd(t *testing.T) {
	_, err := policytool.Replay(t.Context(), serve(t, &fake{}), &permissionv1.PolicyFile{Name: "new.yaml"}, records(nil, recorded("allow", "ls")), 0)
	if err == nil || err.Error() != "decide by new.yaml: rules.yaml:3:1: no such effect" {
		t.Errorf("error is %v", err)
	}
}
