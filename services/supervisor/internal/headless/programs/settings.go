package programs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// The categories of the options for the mode and the model.
const (
	categoryMode  = "mode"
	categoryModel = "model"
)

const (
	methodSetModel        = "session/set_model"
	methodSetConfigOption = acp.MethodSessionSetOption
)

// change is a request that changes a setting of a session.
type change struct {
	method string
	params []byte
	mode   bool // it sets the mode
}

// SetMode sets a session's mode.
func (reg *Registry) SetMode(ctx context.Context, r *supervisorv1.SetModeRequest) (*supervisorv1.SetModeResponse, error) {
	s, err := reg.set(ctx, r.GetAgentId(), r.GetSessionId(), func(run *run, s *supervisorv1.Session) (change, error) {
		return run.mode(s, r.GetModeId())
	})
	return &supervisorv1.SetModeResponse{Session: s}, err
}

// SetModel sets a session's model.
func (reg *Registry) SetModel(ctx context.Context, r *supervisorv1.SetModelRequest) (*supervisorv1.SetModelResponse, error) {
	s, err := reg.set(ctx, r.GetAgentId(), r.GetSessionId(), func(run *run, s *supervisorv1.Session) (change, error) {
		return run.model(s, r.GetModelId())
	})
	return &supervisorv1.SetModelResponse{Session: s}, err
}

// SetConfigOption sets an option.
func (reg *Registry) SetConfigOption(ctx context.Context, r *supervisorv1.SetConfigOptionRequest) (*supervisorv1.SetConfigOptionResponse, error) {
	s, err := reg.set(ctx, r.GetAgentId(), r.GetSessionId(), func(run *run, s *supervisorv1.Session) (change, error) {
		return run.option(s, r)
	})
	return &supervisorv1.SetConfigOptionResponse{Session: s}, err
}

// set changes a setting of a session with the request that how returns, and returns the session.
func (reg *Registry) set(ctx context.Context, agentID, sessionID string, how func(*run, *supervisorv1.Session) (change, error)) (*supervisorv1.Session, error) {
	s, err := reg.session(agentID, sessionID)
	if err != nil {
		return nil, err
	}
	r, err := s.agent.runs()
	if err != nil {
		return nil, err
	}
	c, err := how(r, reg.show(ctx, s))
	if err != nil {
		return nil, err
	}
	if _, err := r.call(ctx, c.method, c.params, callTimeout); err != nil {
		return nil, err
	}
	if c.mode {
		r.modeChosen(s)
	}
	return reg.show(ctx, s), nil
}

// mode returns the request that sets a session's mode.
func (r *run) mode(s *supervisorv1.Session, id string) (change, error) {
	if o := byCategory(s, categoryMode); o != nil {
		return setOption(s, o, id, oneOf("mode", id, values(o.GetChoices())))
	}
	var ids []string
	for _, m := range s.GetModes() {
		ids = append(ids, m.GetId())
	}
	if len(ids) == 0 {
		return change{}, r.unsupported("modes")
	}
	return change{acp.MethodSessionSetMode, sessionParams(s.GetSessionId(), member("modeId", id)), true}, oneOf("mode", id, ids)
}

// model returns the request that sets a session's model.
func (r *run) model(s *supervisorv1.Session, id string) (change, error) {
	if o := byCategory(s, categoryModel); o != nil {
		return setOption(s, o, id, oneOf("model", id, values(o.GetChoices())))
	}
	ids := values(s.GetModels())
	if len(ids) == 0 {
		return change{}, r.unsupported("a choice of models")
	}
	return change{method: methodSetModel, params: sessionParams(s.GetSessionId(), member("modelId", id))}, oneOf("model", id, ids)
}

// option returns the request that sets a session's option.
func (r *run) option(s *supervisorv1.Session, req *supervisorv1.SetConfigOptionRequest) (change, error) {
	if len(s.GetOptions()) == 0 {
		return change{}, r.unsupported("options")
	}
	var ids []string
	for _, o := range s.GetOptions() {
		if ids = append(ids, o.GetId()); o.GetId() != req.GetConfigId() {
			continue
		}
		_, flag := o.GetCurrent().(*supervisorv1.ConfigOption_Enabled)
		switch to := req.GetTo().(type) {
		case *supervisorv1.SetConfigOptionRequest_Enabled:
			if !flag {
				return change{}, fault.New(fault.Invalid, "option %q is not one that is on or off; its values are %s", o.GetId(), listed(values(o.GetChoices())))
			}
			return change{method: methodSetConfigOption, params: sessionParams(s.GetSessionId(), member("configId", o.GetId()),
				`,"type":"boolean","value":`, strconv.FormatBool(to.Enabled))}, nil
		default:
			if flag {
				return change{}, fault.New(fault.Invalid, "option %q is on or off, and has no values: set enabled", o.GetId())
			}
			return setOption(s, o, req.GetValue(), among(values(o.GetChoices()), req.GetValue(),
				fmt.Sprintf("option %q has no value %q", o.GetId(), excerpt(req.GetValue()))))
		}
	}
	return change{}, oneOf("option", req.GetConfigId(), ids)
}

// setOption returns the request that sets an option with choices, or wrong if it is not nil.
func setOption(s *supervisorv1.Session, o *supervisorv1.ConfigOption, value string, wrong error) (change, error) {
	return change{
		method: methodSetConfigOption, params: sessionParams(s.GetSessionId(), member("configId", o.GetId()), member("value", value)),
		mode: is(o, categoryMode),
	}, wrong
}

// byCategory returns the option of a category that has choices; nil if none exists.
func byCategory(s *supervisorv1.Session, category string) *supervisorv1.ConfigOption {
	for _, o := range s.GetOptions() {
		if is(o, category) {
			return o
		}
	}
	return nil
}

// is reports whether an option has a category, and choices. Without a category, the option's id is its category.
func is(o *supervisorv1.ConfigOption, category string) bool {
	_, flag := o.GetCurrent().(*supervisorv1.ConfigOption_Enabled)
	return !flag && cmp.Or(o.GetCategory(), o.GetId()) == category
}

func values(choices []*supervisorv1.ConfigChoice) []string {
	out := make([]string, len(choices))
	for i, c := range choices {
		out[i] = c.GetValue()
	}
	return out
}

// oneOf returns an error if an id is not one of ids.
func oneOf(what, id string, ids []string) error {
	return among(ids, id, fmt.Sprintf("there is no %s %q", what, excerpt(id)))
}

func among(ids []string, id, refusal string) error {
	switch {
	case slices.Contains(ids, id):
		return nil
	case len(ids) == 0:
		return fault.New(fault.Invalid, "%s, and no other one", refusal)
	}
	return fault.New(fault.Invalid, "%s: there are %s", refusal, listed(ids))
}
