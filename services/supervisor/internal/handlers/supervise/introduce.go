package supervise

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
)

// introduceTimeout bounds Describe and Configure, each.
const introduceTimeout = 10 * time.Second

// maxName is the longest name and version, in characters, according to the API.
const maxName = 64

// introduction holds a handler's answers to Describe and Configure.
type introduction struct {
	describe *pluginv1.DescribeResponse
	notes    []string
	keep     []byte
}

func (i introduction) description() string {
	return i.describe.GetName() + " " + i.describe.GetVersion()
}

// introduce describes and configures a handler that was just started. kept is the data that the previous instance gave
// to be kept; nil: the handler uses its files.
func (h *Handler) introduce(ctx context.Context, inst Instance, t *target, kept []byte) (introduction, error) {
	client := pluginv1.NewPluginServiceClient(inst)
	describe, err := call(ctx, func(ctx context.Context) (*pluginv1.DescribeResponse, error) {
		return client.Describe(ctx, &pluginv1.DescribeRequest{SupervisorVersion: h.opts.Version})
	})
	if err != nil {
		return introduction{}, fmt.Errorf("it does not describe itself: %w", ended(inst, err))
	}
	if err := check(describe); err != nil {
		return introduction{}, err
	}
	configured, err := h.configure(ctx, inst, t, kept, false)
	if err != nil {
		return introduction{}, fmt.Errorf("it refuses its settings: %w", err)
	}
	return introduction{describe: describe, notes: configured.GetNotes(), keep: keepable(t, configured.GetKeep())}, nil
}

// configure sends the settings; a sidecar only validates them. reload: a person ordered the handler to read its files
// again.
func (h *Handler) configure(ctx context.Context, inst Instance, t *target, kept []byte, reload bool) (*pluginv1.ConfigureResponse, error) {
	req := cmp.Or(proto.CloneOf(t.configure), &pluginv1.ConfigureRequest{})
	h.mu.Lock()
	if len(h.guarded) > 0 {
		req.Host = cmp.Or(req.Host, &pluginv1.Host{})
		req.Host.ProtectedPaths = append(req.Host.ProtectedPaths, h.guarded...)
	}
	h.mu.Unlock()
	req.ValidateOnly = t.sidecar()
	req.Kept, req.Reload = kept, reload
	answer, err := call(ctx, func(ctx context.Context) (*pluginv1.ConfigureResponse, error) {
		return pluginv1.NewPluginServiceClient(inst).Configure(ctx, req)
	})
	if err != nil {
		return nil, ended(inst, err)
	}
	return answer, nil
}

// check validates a handler's description against the API.
func check(d *pluginv1.DescribeResponse) error {
	for _, f := range []struct{ what, value string }{{"name", d.GetName()}, {"version", d.GetVersion()}} {
		if n := utf8.RuneCountInString(f.value); n == 0 || n > maxName {
			return fmt.Errorf("it describes itself with a %s of %d characters: 1 to %d are allowed", f.what, n, maxName)
		}
	}
	if len(d.GetServices()) == 0 {
		return errors.New("it describes itself without a service: there is nothing to call")
	}
	return nil
}

// same rejects a restarted handler that serves other methods than at first: the routes depend on these.
func (h *Handler) same(before, now *pluginv1.DescribeResponse) error {
	was, is := slices.Sorted(slices.Values(before.GetServices())), slices.Sorted(slices.Values(now.GetServices()))
	enough := slices.Equal(was, is)
	if needs := h.opts.Needs; needs != nil {
		enough = !slices.ContainsFunc(needs, func(service string) bool { return !slices.Contains(is, service) })
	}
	if !enough {
		return fmt.Errorf("it came back with other services (%s) than it had at first (%s): restart acphost to route to them",
			strings.Join(is, ", "), strings.Join(was, ", "))
	}
	if !bytes.Equal(before.GetDescriptorSet(), now.GetDescriptorSet()) {
		return errors.New("it came back with other descriptors than it had at first: restart acphost to route by them")
	}
	return nil
}

// call makes one call with a timeout, and removes gRPC's prefix from its error.
func call[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, introduceTimeout)
	defer cancel()
	answer, err := do(ctx)
	if err == nil {
		return answer, nil
	}
	var none T
	if s, ok := status.FromError(err); ok {
		if s.Code() == codes.DeadlineExceeded {
			return none, fmt.Errorf("no answer within %s", introduceTimeout)
		}
		if s.Code() == codes.Unavailable {
			return none, lost{errors.New(s.Message())}
		}
		return none, errors.New(s.Message())
	}
	return none, err
}

// lost is an error of the connection. An instance loses its connection just before its process has ended.
type lost struct{ error }

// endingTime is how long ended waits for the process's end after a lost connection.
const endingTime = time.Second

// ended returns the reason of the process's end if the handler ended during a call, else err.
func ended(inst Instance, err error) error {
	if errors.As(err, new(lost)) {
		select {
		case <-inst.Done():
		case <-time.After(endingTime):
		}
	}
	if isOver(inst) && inst.Err() != nil {
		return inst.Err()
	}
	return err
}

// isOver reports whether an instance has ended.
func isOver(inst Instance) bool {
	select {
	case <-inst.Done():
		return true
	default:
		return false
	}
}
