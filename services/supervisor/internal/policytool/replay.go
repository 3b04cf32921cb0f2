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
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/intent"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// replayAtOnce is how many decisions permd works on at a time.
const replayAtOnce = 16

// Replayed is what a rule file would have decided of decisions that were recorded.
type Replayed struct {
	Policy *permissionv1.PolicyFile
	// Decisions were decided anew. Own were acphost's own, which no policy is asked about, or in which acphost's rule
	// counted in place of the policy's. Earlier were given by an answer to an earlier try, and what the policy said is
	// not recorded.
	Decisions, Own, Earlier int
	// Differ are those with another verdict, in their order: all, or the newest of them.
	Differ []Difference
	// Changes counts all of them by what they are: "allow→deny".
	Changes map[string]int
	// Unread are the records that could not be read, or not be decided.
	Unread []error
}

// Difference is a decision that would be another one.
type Difference struct {
	Record *supervisorv1.AuditRecord
	Now    *permissionv1.DecideResponse
}

func (d Difference) was() string { return d.Record.GetVerdict() }
func (d Difference) now() string { return gate.VerdictName(d.Now.GetVerdict()) }

// same reports whether the decision would be the one that it was. Of what an allowed command does, only a denial
// counts.
func (d Difference) same() bool {
	if d.Record.GetAnsweredBy() == gate.ByCommand {
		return d.Now.GetVerdict() != permissionv1.Verdict_VERDICT_DENY
	}
	return d.was() == d.now()
}

// Replay has permd decide each record's action by the rule file alone, as the user's. keep bounds what is kept of the
// differences, the newest; 0: all are. The error is one that ends it: the file does not load, or permd is gone.
func Replay(
	ctx context.Context, service permissionv1.PolicyServiceClient, policy *permissionv1.PolicyFile,
	records iter.Seq2[*supervisorv1.AuditRecord, error], keep int,
) (*Replayed, error) {
	r := &Replayed{Policy: policy, Changes: map[string]int{}}
	var batch []*supervisorv1.AuditRecord
	for record, err := range records {
		switch {
		case err != nil:
			r.Unread = append(r.Unread, err)
			continue
		case record.GetAction() == nil: // a note of the record about itself
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

// Count is how many decisions would be different.
func (r *Replayed) Count() (n int) {
	for _, of := range r.Changes {
		n += of
	}
	return n
}

// decide decides a few records at once, and keeps their order.
func (r *Replayed) decide(ctx context.Context, service permissionv1.PolicyServiceClient, batch []*supervisorv1.AuditRecord) error {
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

// Print writes what would be different as a table, and what that is in all.
func (r *Replayed) Print(w io.Writer, s Style) {
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

// Summary says it in a line: "1,240 decisions, 12 differ: 9 allow→deny, 3 ask→allow".
func (r *Replayed) Summary() string {
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

// changes counts the differences by what they are, the most frequent first.
func (r *Replayed) changes() string {
	kinds := slices.SortedFunc(maps.Keys(r.Changes), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Changes[b], r.Changes[a]), cmp.Compare(a, b))
	})
	for i, kind := range kinds {
		kinds[i] = safetext.Number(r.Changes[kind]) + " " + kind
	}
	return strings.Join(kinds, ", ")
}

// JSON is all of it as an object for JSON; the records are whole.
func (r *Replayed) JSON() (any, error) {
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
