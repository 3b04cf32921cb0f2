package host

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/fault"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/ownhandler"
	"github.com/acphost/acphost/services/supervisor/internal/host/policytool"
	"github.com/acphost/acphost/services/supervisor/internal/policy/audit"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
)

// Limits of decisions in responses, as the API documents them.
const (
	maxLatest       = 1000
	usualReplay     = 10_000
	maxReplay       = 100_000
	maxDifferences  = 500
	maxFindings     = 200
	replayTimeout   = time.Minute
	replayStop      = 5 * time.Second
	decisionsAtOnce = 1 << 20 // bytes of decisions in a response
)

// replayed is the name of a rule file that a request contains.
const replayed = "policy.yaml"

var _ admin.Decisions = (*host)(nil)

// WatchDecisions implements admin.Decisions.
func (h *host) WatchDecisions(
	ctx context.Context, req *supervisorv1.WatchDecisionsRequest, send func(*supervisorv1.WatchDecisionsResponse) error,
) error {
	if h.audit == nil {
		if err := send(&supervisorv1.WatchDecisionsResponse{Note: h.unrecordedWhy()}); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}
	newest := true
	filter := audit.Filter{Limit: int(min(req.GetLatest(), maxLatest))}
	return audit.Watch(ctx, h.config.GetPermission().GetAudit().GetFile(), filter, func(records []*supervisorv1.AuditRecord) error {
		res, size := &supervisorv1.WatchDecisionsResponse{}, 0
		for _, r := range records {
			d := toDecision(r)
			if size += proto.Size(d); size > decisionsAtOnce && len(res.Decisions) > 0 {
				if err := send(res); err != nil {
					return err
				}
				res, size = &supervisorv1.WatchDecisionsResponse{}, proto.Size(d)
			}
			res.Decisions = append(res.Decisions, d)
		}
		if len(res.Decisions) > 0 {
			if err := send(res); err != nil {
				return err
			}
		}
		if newest {
			newest = false
			return send(&supervisorv1.WatchDecisionsResponse{Note: h.unrecordedWhy()})
		}
		return nil
	})
}

// toDecision converts a record for a response. It modifies the record.
func toDecision(r *supervisorv1.AuditRecord) *supervisorv1.Decision {
	if r.GetAction() == nil {
		return &supervisorv1.Decision{Record: r}
	}
	r.Action.RawInput = ""
	return &supervisorv1.Decision{Record: r, What: intent.Summary(r.GetAction())}
}

// unrecordedWhy returns the reason why decisions are not recorded, and the setting for it, or "".
func (h *host) unrecordedWhy() string {
	a := h.config.GetPermission().GetAudit()
	switch {
	case h.opts.Mode == ModeObserve:
		return "this supervisor only watches (run --observe): nothing is decided here"
	case h.handlers != nil && h.handlers.permissionAtClient():
		return "all questions go to the client (--permission=front), so no policy decides: run without it"
	case a.GetDisabled():
		return "the record of decisions is turned off: set permission.audit.disabled to false"
	case h.audit == nil && a.GetFile() == "":
		return "the record of decisions: " + errNoRecord.Error()
	case h.audit == nil:
		return "decisions are not recorded: the file of permission.audit.file could not be opened, as the log says"
	case !h.opts.Config.PolicySet():
		return "no policy is set, so what agents do is not decided and not recorded, but for workspaces with rules of their own: set permission.policy, or run with --policy"
	}
	return ""
}

// ReplayPolicy implements admin.Decisions. A separate process evaluates the rule file, so that it does not delay the
// active policy, and can be killed.
func (h *host) ReplayPolicy(ctx context.Context, req *supervisorv1.ReplayPolicyRequest) (*supervisorv1.ReplayPolicyResponse, error) {
	if h.audit == nil {
		return nil, fault.New(fault.Precondition, "there is no record to decide anew: %s", h.unrecordedWhy())
	}
	ctx, cancel := context.WithTimeoutCause(ctx, replayTimeout, fault.New(fault.Exhausted, "the replay took more than %v: give a later since, or a smaller limit", replayTimeout))
	defer cancel()
	service, stop, err := policytool.StartPermd(ctx, h.opts.Programs.Command([]string{ownhandler.Permission}), h.log)
	if err != nil {
		return nil, fault.New(fault.Precondition, "%w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replayStop)
		defer cancel()
		if err := stop(ctx); err != nil {
			h.log.Warn("stop the permd of a replay", "error", err)
		}
	}()
	out, err := h.replay(ctx, service, req)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return out, err
}

func (h *host) replay(
	ctx context.Context, service permissionv1.PolicyServiceClient, req *supervisorv1.ReplayPolicyRequest,
) (*supervisorv1.ReplayPolicyResponse, error) {
	file := &permissionv1.PolicyFile{Name: replayed, Content: req.GetPolicy(), Layer: permissionv1.Layer_LAYER_USER}
	if name := string(bytes.TrimSpace(file.GetContent())); config.IsReadyPolicy(name) {
		content, err := policytool.ReadyPolicy(ctx, service, name)
		if err != nil {
			return nil, err
		}
		file.Name, file.Content = name, content
	}
	checked, err := policytool.Check(ctx, service, file)
	if err != nil {
		return nil, err
	}
	findings := checked.Answer.GetFindings()
	out := &supervisorv1.ReplayPolicyResponse{Findings: findings[:min(len(findings), maxFindings)]}
	if !checked.OK() {
		return out, nil
	}
	limit := int(min(req.GetLimit(), maxReplay))
	if limit == 0 {
		limit = usualReplay
	}
	filter := audit.Filter{Limit: limit}
	if req.GetSince() != nil {
		filter.Since = req.GetSince().AsTime()
	}
	r, err := policytool.Replay(ctx, service, file, until(ctx, audit.Read(h.config.GetPermission().GetAudit().GetFile(), filter), out), maxDifferences)
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return nil, err
	}
	out.Decisions, out.Own, out.Unread, out.Differ = uint32(r.Decisions), uint32(r.Own), uint32(len(r.Unread)), uint32(r.Count())
	out.Summary = r.Summary()
	size := 0
	for i := len(r.Differ) - 1; i >= 0 && size < decisionsAtOnce; i-- {
		d := &supervisorv1.Difference{Decision: toDecision(r.Differ[i].Record), WouldBe: r.Differ[i].Now}
		size += proto.Size(d)
		out.Differences = append([]*supervisorv1.Difference{d}, out.Differences...)
	}
	return out, nil
}

// until yields records until ctx ends. A missing file has no records. It sets the time of the oldest record in out.
func until(
	ctx context.Context, records iter.Seq2[*supervisorv1.AuditRecord, error], out *supervisorv1.ReplayPolicyResponse,
) iter.Seq2[*supervisorv1.AuditRecord, error] {
	return func(yield func(*supervisorv1.AuditRecord, error) bool) {
		for r, err := range records {
			if ctx.Err() != nil || errors.Is(err, fs.ErrNotExist) {
				return
			}
			if out.Oldest == nil && r.GetAction() != nil {
				out.Oldest = r.GetTime()
			}
			if !yield(r, err) {
				return
			}
		}
	}
}
