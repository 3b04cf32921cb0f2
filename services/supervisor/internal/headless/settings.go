package headless

import (
	"context"
	"strconv"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
)

const (
	methodSetModel        = "session/set_model"
	methodSetConfigOption = acp.MethodSessionSetOption
)

// SetMode puts a session in a mode.
func (h *Headless) SetMode(ctx context.Context, r *supervisorv1.SetModeRequest) (*supervisorv1.Session, error) {
	return h.set(ctx, r.GetAgentId(), r.GetSessionId(), func(run *run, s *supervisorv1.Session) (string, []byte, error) {
		if method, params, err, ok := byCategory(s, "mode", r.GetModeId()); ok {
			return method, params, err
		}
		var ids []string
		for _, m := range s.GetModes() {
			ids = append(ids, m.GetId())
		}
		if len(ids) == 0 {
			return "", nil, run.unsupported("modes")
		}
		return acp.MethodSessionSetMode, sessionParams(s.GetSessionId(), member("modeId", r.GetModeId())), oneOf("mode", r.GetModeId(), ids)
	})
}

// SetModel chooses a session's model.
func (h *Headless) SetModel(ctx context.Context, r *supervisorv1.SetModelRequest) (*supervisorv1.Session, error) {
	return h.set(ctx, r.GetAgentId(), r.GetSessionId(), func(run *run, s *supervisorv1.Session) (string, []byte, error) {
		if method, params, err, ok := byCategory(s, "model", r.GetModelId()); ok {
			return method, params, err
		}
		ids := values(s.GetModels())
		if len(ids) == 0 {
			return "", nil, run.unsupported("a choice of models")
		}
		return methodSetModel, sessionParams(s.GetSessionId(), member("modelId", r.GetModelId())), oneOf("model", r.GetModelId(), ids)
	})
}

// SetConfigOption sets an option.
func (h *Headless) SetConfigOption(ctx context.Context, r *supervisorv1.SetConfigOptionRequest) (*supervisorv1.Session, error) {
	if r.GetTo() == nil {
		return nil, fault.New(fault.Invalid, "set an option: give exactly one of value and enabled")
	}
	return h.set(ctx, r.GetAgentId(), r.GetSessionId(), func(run *run, s *supervisorv1.Session) (string, []byte, error) {
		if len(s.GetOptions()) == 0 {
			return "", nil, run.unsupported("options")
		}
		var ids []string
		for _, o := range s.GetOptions() {
			if ids = append(ids, o.GetId()); o.GetId() != r.GetConfigId() {
				continue
			}
			_, flag := o.GetCurrent().(*supervisorv1.ConfigOption_Enabled)
			switch to := r.GetTo().(type) {
			case *supervisorv1.SetConfigOptionRequest_Enabled:
				if !flag {
					return "", nil, fault.New(fault.Invalid, "option %q is not one that is on or off; its values are %s", o.GetId(), listed(values(o.GetChoices())))
				}
				return methodSetConfigOption, sessionParams(s.GetSessionId(), member("configId", o.GetId()),
					`,"type":"boolean","value":`, strconv.FormatBool(to.Enabled)), nil
			case *supervisorv1.SetConfigOptionRequest_Value:
				if flag {
					return "", nil, fault.New(fault.Invalid, "option %q is on or off, and has no values: set enabled", o.GetId())
				}
				return setOption(s, o, to.Value)
			}
		}
		return "", nil, oneOf("option", r.GetConfigId(), ids)
	})
}

// set asks how something of a session is set, has the agent set it, and shows the session.
func (h *Headless) set(ctx context.Context, agentID, sessionID string, how func(*run, *supervisorv1.Session) (method string, params []byte, err error)) (*supervisorv1.Session, error) {
	s, err := h.session(agentID, sessionID)
	if err != nil {
		return nil, err
	}
	r, err := s.agent.runs()
	if err != nil {
		return nil, err
	}
	method, params, err := how(r, h.show(ctx, s))
	if err != nil {
		return nil, err
	}
	if _, err := r.call(ctx, method, params, callTimeout); err != nil {
		return nil, err
	}
	return h.show(ctx, s), nil
}

// byCategory sets what an option of a category is for; false: there is no such option.
func byCategory(s *supervisorv1.Session, category, value string) (method string, params []byte, err error, ok bool) { //nolint:revive,staticcheck // the error is of what was found
	for _, o := range s.GetOptions() {
		if _, flag := o.GetCurrent().(*supervisorv1.ConfigOption_Enabled); o.GetCategory() == category && !flag {
			method, params, err = setOption(s, o, value)
			return method, params, err, true
		}
	}
	return "", nil, nil, false
}

// setOption sets an option that has choices.
func setOption(s *supervisorv1.Session, o *supervisorv1.ConfigOption, value string) (method string, params []byte, err error) {
	return methodSetConfigOption, sessionParams(s.GetSessionId(), member("configId", o.GetId()), member("value", value)),
		oneOf("value of option \""+o.GetId()+"\"", value, values(o.GetChoices()))
}

func values(choices []*supervisorv1.ConfigChoice) []string {
	out := make([]string, len(choices))
	for i, c := range choices {
		out[i] = c.GetValue()
	}
	return out
}

// oneOf refuses what is not among what there is.
func oneOf(what, id string, ids []string) error {
	for _, known := range ids {
		if known == id {
			return nil
		}
	}
	return fault.New(fault.Invalid, "there is no %s %q; there are %s", what, excerpt(id), listed(ids))
}
