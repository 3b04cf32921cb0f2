package acp

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// The kinds of option that a permission question offers.
const (
	AllowOnce    = "allow_once"
	AllowAlways  = "allow_always"
	RejectOnce   = "reject_once"
	RejectAlways = "reject_always"
)

// PermissionRequest is a session/request_permission.
type PermissionRequest struct {
	// ToolCall is the raw toolCall member.
	ToolCall []byte
	// Options are what may be answered.
	Options []PermissionOption
}

// PermissionOption is one option of a question.
type PermissionOption struct{ ID, Kind string }

// ParsePermissionRequest reads the params of session/request_permission. It fails if toolCall or options are missing or
// of a wrong type, and on duplicate names, which would let one peer read another question than the next.
func ParsePermissionRequest(params []byte) (PermissionRequest, error) {
	var req PermissionRequest
	var optErr error
	err := Members(params, func(name string, v []byte) bool {
		switch name {
		case "toolCall":
			req.ToolCall = v
		case "options":
			req.Options, optErr = parseOptions(v)
		}
		return true
	})
	if err = cmp.Or(err, optErr); err == nil && (len(req.ToolCall) == 0 || req.ToolCall[0] != '{') {
		err = errors.New("toolCall: expected an object")
	}
	return req, err
}

func parseOptions(raw []byte) ([]PermissionOption, error) {
	var opts []PermissionOption
	err := Elements(raw, func(v []byte) bool {
		var o PermissionOption
		if Members(v, func(name string, v []byte) bool {
			switch name {
			case "optionId":
				o.ID, _ = Exact(v)
			case "kind":
				setString(&o.Kind, v)
			}
			return true
		}) == nil {
			opts = append(opts, o)
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	return opts, nil
}

// Option returns the id of the first option of one of the kinds, in the order the kinds are given.
func (r PermissionRequest) Option(kinds ...string) (id string, ok bool) {
	for _, k := range kinds {
		for _, o := range r.Options {
			if o.Kind == k {
				return o.ID, true
			}
		}
	}
	return "", false
}

// Selected returns the result that answers a question with an option.
func Selected(optionID string) []byte {
	return append(jsonrpc.AppendString([]byte(`{"outcome":{"outcome":"selected","optionId":`), optionID), "}}"...)
}

// Cancelled returns the result that answers a question of a turn that was cancelled.
func Cancelled() []byte { return []byte(`{"outcome":{"outcome":"cancelled"}}`) }
