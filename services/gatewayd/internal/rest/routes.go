package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/acphost/acphost/internal/delegation"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// route maps a path to a method. Parts of the path, "{session_id}", are fields of the request.
type route struct {
	verb, path string
	// method is the method to call: "AgentService.ListAgents".
	method  string
	status  int
	summary string // for the description
	// query are the parameters that are fields of the request.
	query map[string]string
	// reshape converts a simple client's JSON to that of the request; nil: they are the same.
	reshape func(body map[string]json.RawMessage) error
	// extra are the fields that reshape accepts, and their schemas.
	extra map[string]any
	// serve handles a streaming method; nil: it is unary.
	serve func(*Handler, http.ResponseWriter, *http.Request, *plan, proto.Message)
}

// routes are the routes of methods, without the stream of events.
var routes = []route{
	{verb: "GET", path: "/agents", method: "AgentService.ListAgents", status: http.StatusOK, summary: "List the agents"},
	{verb: "POST", path: "/agents", method: "AgentService.StartAgent", status: http.StatusCreated, summary: "Start an agent: preset is its name"},
	{verb: "GET", path: "/agents/{agent_id}", method: "AgentService.GetAgent", status: http.StatusOK, summary: "Show an agent"},
	{verb: "DELETE", path: "/agents/{agent_id}", method: "AgentService.StopAgent", status: http.StatusOK, summary: "Stop an agent"},
	{verb: "POST", path: "/agents/{agent_id}/login", method: "AgentService.Authenticate", status: http.StatusOK,
		summary: "Log an agent in. The answer has the page that the user must open; the event auth.complete follows", serve: (*Handler).login},
	{verb: "GET", path: "/sessions", method: "SupervisorStateService.ListSessions", status: http.StatusOK, summary: "List the open sessions"},
	{verb: "POST", path: "/sessions", method: "SessionService.NewSession", status: http.StatusCreated, summary: "Open a session"},
	{verb: "GET", path: "/sessions/{session_id}", method: "SupervisorStateService.GetSession", status: http.StatusOK, summary: "Show a session"},
	{verb: "POST", path: "/sessions/{session_id}/prompt", method: "SessionService.Prompt", status: http.StatusAccepted,
		summary: "Begin a turn. What the agent does comes as events after the cursor in the answer", serve: (*Handler).prompt, reshape: textAsPrompt,
		extra: map[string]any{"text": map[string]any{"type": "string", "description": "A block of text, after those of prompt"}}},
	{verb: "POST", path: "/sessions/{session_id}/cancel", method: "SessionService.CancelPrompt", status: http.StatusOK, summary: "Ask the agent to end its turn"},
	{verb: "POST", path: "/sessions/{session_id}/mode", method: "SessionService.SetMode", status: http.StatusOK, summary: "Set the mode"},
	{verb: "GET", path: "/permissions", method: "ApprovalService.ListApprovals", status: http.StatusOK, summary: "List the questions that wait", query: map[string]string{"session": "session_id"}},
	{verb: "POST", path: "/permissions/{id}", method: "ApprovalService.AnswerApproval", status: http.StatusOK, summary: "Answer a question", reshape: objectAsAccept,
		extra: map[string]any{"accept": map[string]any{"type": []string{"object", "string"}, "description": "The answers to a form, or {}"}}},
}

// plan is a route with its method's descriptor.
type plan struct {
	route
	full          string // "/package.Service/Method"
	need          delegation.Need
	input, output protoreflect.MessageType
}

// plans returns the routes' plans.
func plans() ([]*plan, error) {
	var all []*plan
	for _, r := range routes {
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName("acphost.supervisor.v1." + r.method))
		if err != nil {
			return nil, err
		}
		m, ok := found.(protoreflect.MethodDescriptor)
		if !ok {
			return nil, fmt.Errorf("%s is no method", r.method)
		}
		p := &plan{route: r, full: fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name()), need: delegation.NeedOf(m)}
		if p.input, err = protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName()); err != nil {
			return nil, err
		}
		if p.output, err = protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName()); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// request converts an HTTP request to the method's message. body is JSON, or empty.
func (p *plan) request(r *http.Request, body []byte) (proto.Message, error) {
	req := p.input.New()
	fields := map[string]json.RawMessage{}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
			return nil, errors.New("the body is no JSON object")
		}
	}
	if p.reshape != nil {
		if err := p.reshape(fields); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, errors.New("the body is no JSON object")
	}
	if err := protojson.Unmarshal(text, req.Interface()); err != nil {
		return nil, fmt.Errorf("the body: %w", err)
	}
	of := p.input.Descriptor().Fields()
	for i := range of.Len() {
		f := of.Get(i)
		if value := r.PathValue(string(f.Name())); value != "" {
			if err := checkText(f.JSONName(), value); err != nil {
				return nil, err
			}
			if req.Has(f) {
				return nil, fmt.Errorf("%s: the path says it already", f.JSONName())
			}
			req.Set(f, protoreflect.ValueOfString(value))
		}
	}
	for parameter, name := range p.query {
		values := r.URL.Query()[parameter]
		if len(values) > 1 {
			return nil, fmt.Errorf("%s: it is there more than once", parameter)
		}
		if len(values) == 1 {
			if err := checkText(parameter, values[0]); err != nil {
				return nil, err
			}
			req.Set(of.ByName(protoreflect.Name(name)), protoreflect.ValueOfString(values[0]))
		}
	}
	return req.Interface(), nil
}

// checkText rejects a path segment that cannot be an id.
func checkText(name, value string) error {
	if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
		return fmt.Errorf("%s: it is not UTF-8, or has a NUL character", name)
	}
	return nil
}

// textAsPrompt appends text as a block of a prompt.
func textAsPrompt(body map[string]json.RawMessage) error {
	text, there := body["text"]
	if !there {
		return nil
	}
	delete(body, "text")
	var blocks []json.RawMessage
	if given, there := body["prompt"]; there {
		if err := json.Unmarshal(given, &blocks); err != nil {
			return errors.New("prompt: it takes a list of blocks")
		}
	}
	block := slices.Concat([]byte(`{"text": {"text": `), text, []byte(`}}`))
	all, err := json.Marshal(append(blocks, block))
	body["prompt"] = all
	return err
}

// objectAsAccept converts an object to the JSON text that the API requires.
func objectAsAccept(body map[string]json.RawMessage) error {
	answers := body["accept"]
	if len(answers) == 0 || answers[0] != '{' {
		return nil
	}
	text, err := json.Marshal(string(answers))
	body["accept"] = text
	return err
}

// page returns the first page of a login.
func page(step *supervisorv1.AuthenticateResponse) *supervisorv1.Elicitation {
	return step.GetQuestion().GetElicitation()
}
