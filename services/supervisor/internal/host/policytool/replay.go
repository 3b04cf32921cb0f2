package policytool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/panics"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// replayAtOnce limits the concurrent decisions of permd.
const replayAtOnce = 16

// ReplayResult is the result of deciding recorded actions again with a rule file.
type ReplayResult struct {
	Policy *permissionv1.PolicyFile
	// Decisions counts the actions that were decided again. Own counts decisions of acphost itself, which do not depend
	// on a policy. Earlier counts decisions by an earlier answer of the user, for which no decision of the policy is
	// recorded.
	Decisions, Own, Earlier int
	// Differ are the decisions with another verdict, in order: all, or the newest.
	Differ []Difference
	// Changes counts all different decisions by their change: "allow→deny".
	Changes map[string]int
	// Unread are the errors of records that could not be read or decided.
	Unread []error
}

// Difference is a decision with another verdict.
type Difference struct {
	Record *supervisorv1.AuditRecord
	Now    *permissionv1.DecideResponse
}

func (d Difference) was() string { return d.Record.GetVerdict() }
func (d Difference) now() string { return gate.VerdictName(d.Now.GetVerdict()) }

// same reports whether the verdict is the same. For an action of an allowed command, only a denial is a difference.
func (d Difference) same() bool {
	if d.Record.GetAnsweredBy() == gate.ByCommand {
		return d.Now.GetVerdict() != permissionv1.Verdict_VERDICT_DENY
	}
	return d.was() == d.now()
}

// Replay makes permd decide each record's action with only the rule file, as the user's. keep limits the differences
// that are stored, the newest; 0 means all. It returns an error if the file does not load, or if permd has ended.
func Replay(
	ctx context.Context, service permissionv1.PolicyServiceClient, policy *permissionv1.PolicyFile,
	records iter.Seq2[*supervisorv1.AuditRecord, error], keep int,
) (*ReplayResult, error) {
	r := &ReplayResult{Policy: policy, Changes: map[string]int{}}
	var batch []*supervisorv1.AuditRecord
	for record, err := range records {
		switch {
		case err != nil:
			r.Unread = append(r.Unread, err)
			continue
		case record.GetAction() == nil: // a note about the audit itself
			continue
		case record.GetPlugin() == "" && record.GetAnsweredBy() == gate.ByAcphost, strings.HasPrefix(record.GetRule(), gate.OwnRules):
			r.Own++
			continue
		case record.GetAnsweredBy() == gate.ByEarlier:
			r.Earlier++
			continue
		}
		if batch = append(batch, record); len(batch) == replayAtOnce {
			if err := r.decide(ctx, service, batch); err != nil {
				return nil, err
			}
			batch = batch[:0]
			if keep > 0 && len(r.Differ) >= 2*keep {
				r.Differ = slices.Clone(r.Differ[len(r.Differ)-keep:])
			}
		}
	}
	if err := r.decide(ctx, service, batch); err != nil {
		return nil, err
	}
	if keep > 0 && len(r.Differ) > keep {
		r.Differ = r.Differ[len(r.Differ)-keep:]
	}
	return r, nil
}

// Count returns the number of different decisions.
func (r *ReplayResult) Count() (n int) {
	for _, of := range r.Changes {
		n += of
	}
	return n
}

// decide decides a batch of records concurrently, and keeps their order.
func (r *ReplayResult) decide(ctx context.Context, service permissionv1.PolicyServiceClient, batch []*supervisorv1.AuditRecord) error {
	answers, errs := make([]*permissionv1.ExplainResponse, len(batch)), make([]error, len(batch))
	var wg sync.WaitGroup
	for i, record := range batch {
		wg.Go(func() {
			errs[i] = panics.Catch(nil, "deciding a recorded action", func() (err error) {
				answers[i], err = service.Explain(ctx, &permissionv1.ExplainRequest{
					Action: record.GetAction(), Files: []*permissionv1.PolicyFile{r.Policy},
				})
				return err
			})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return serverError("decide by "+r.Policy.GetName(), cmp.Or(errs...))
	}
	for i, record := range batch {
		r.Decisions++
		d := Difference{Record: record, Now: answers[i].GetDecision()}
		if !d.same() {
			r.Differ = append(r.Differ, d)
			r.Changes[d.was()+"→"+d.now()]++
		}
	}
	return nil
}

// Print writes the differences as a table, and a summary.
func (r *ReplayResult) Print(w io.Writer, s Style) {
	if len(r.Differ) > 0 {
		rows := [][]cell{{{"TIME", bold}, {"AGENT", bold}, {"WAS", bold}, {"WOULD BE", bold}, {"RULE", bold}, {"WHAT", bold}}}
		for _, d := range r.Differ {
			rows = append(rows, []cell{
				{text: d.Record.GetTime().AsTime().Local().Format(time.DateTime)},
				{text: safetext.Fit(safetext.Exact(cmp.Or(d.Record.GetAgent(), "-")), 24)},
				{d.was(), colorOf(d.was())},
				{d.now(), colorOf(d.now())},
				{text: safetext.Fit(safetext.Exact(cmp.Or(d.Now.GetRule(), "-")), 32)},
				{text: intent.Summary(d.Record.GetAction())},
			})
		}
		s.table(w, "", rows)
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, r.Summary())
}

// Summary returns a summary in one line: "1,240 decisions, 12 differ: 9 allow→deny, 3 ask→allow".
func (r *ReplayResult) Summary() string {
	text := safetext.Count(r.Decisions, "decision")
	switch n := r.Count(); n {
	case 0:
		text += ", none differs"
	case 1:
		text += ", 1 differs: " + r.changes()
	default:
		text += ", " + safetext.Number(n) + " differ: " + r.changes()
	}
	var out []string
	if r.Own > 0 {
		out = append(out, safetext.Number(r.Own)+" of acphost's own")
	}
	if r.Earlier > 0 {
		out = append(out, safetext.Number(r.Earlier)+" by earlier answers")
	}
	if len(out) > 0 {
		text += " (" + strings.Join(out, " and ") + " left out)"
	}
	return text
}

// changes counts the differences by their change, the most frequent first.
func (r *ReplayResult) changes() string {
	kinds := slices.SortedFunc(maps.Keys(r.Changes), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Changes[b], r.Changes[a]), cmp.Compare(a, b))
	})
	for i, kind := range kinds {
		kinds[i] = safetext.Number(r.Changes[kind]) + " " + kind
	}
	return strings.Join(kinds, ", ")
}

// JSON returns the result as an object for JSON, with complete records.
func (r *ReplayResult) JSON() (any, error) {
	differ := make([]any, len(r.Differ))
	for i, d := range r.Differ {
		record, err := fields(d.Record)
		if err != nil {
			return nil, err
		}
		now, err := fields(d.Now)
		if err != nil {
			return nil, err
		}
		differ[i] = map[string]any{"record": record, "was": d.was(), "would_be": d.now(), "decision": now}
	}
	return map[string]any{
		"policy": r.Policy.GetName(), "decisions": r.Decisions, "own": r.Own, "earlier": r.Earlier, "unread": len(r.Unread), "differ": differ,
	}, nil
}
