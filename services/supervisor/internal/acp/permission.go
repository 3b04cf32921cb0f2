package acp

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

// MetaDetail is the member of _meta in acphost's own questions that says how the policy came to ask.
const MetaDetail = "acphost.detail"

// The kinds of options of a permission request.
const (
	AllowOnce    = "allow_once"
	AllowAlways  = "allow_always"
	RejectOnce   = "reject_once"
	RejectAlways = "reject_always"
)

// PermissionRequest is a session/request_permission in the format of ACP v1 or v2, or in another format that agents
// use.
type PermissionRequest struct {
	// ToolCall is a report of the tool call in question, a JSON object that is never empty. It is a part of the params,
	// or made of them.
	ToolCall []byte
	// At is the path in the params to ToolCall, or nil if ToolCall is not a part of them.
	At []string
	// Title is the title of the request itself. It is empty if only the tool call has a title.
	Title string
	// Ambiguous says why readers may understand the subject of the request differently. Empty means that it is
	// unambiguous.
	Ambiguous string
	// Options are the possible answers.
	Options []PermissionOption
	// Flat means that the agent expects the id of the chosen option in the result itself.
	Flat bool
}

// PermissionOption is one option of a permission request.
type PermissionOption struct {
	ID string
	// Kind is a kind of ACP if the meaning of the option is certain, else the text of the agent.
	Kind string
	// Name is the text for users.
	Name string
}

// ParsePermissionRequest parses the params of session/request_permission. It returns an error if the request has no
// subject and no options, and for duplicate names, which parsers may read differently. It returns the parsed members in
// that case, too. All other members may be missing or unknown; the report contains little then.
func ParsePermissionRequest(params []byte) (PermissionRequest, error) {
	var req PermissionRequest
	var options []byte
	about := map[string][]byte{}
	err := Members(params, func(name string, v []byte) bool {
		if name == "options" {
			options = v
		} else if string(v) != "null" {
			about[name] = v
		}
		return true
	})
	req.subject(about)
	var unread error
	req.Options, req.Flat, unread = parseOptions(options)
	if errors.Is(unread, errNothing) && (isObject(about["toolCall"]) || isObject(about["subject"])) {
		unread = nil // the request is decided all the same
	}
	return req, cmp.Or(err, unread)
}

// errNothing says that a permission request cannot be answered.
var errNothing = errors.New("options: it offers nothing to choose")

// subject sets the subject of the request.
func (r *PermissionRequest) subject(params map[string][]byte) {
	r.Title, _ = String(params["title"])
	call, subject := params["toolCall"], params["subject"]
	if err := jsonrpc.DuplicateNames(subject, "type", "toolCall", "command", "cwd", "toolCallId"); err != nil {
		r.Ambiguous = fmt.Sprintf("its subject cannot be read in one way only: %v", err)
	}
	wrapped := Get(subject, "toolCall")
	kind, _ := String(Get(subject, "type"))
	switch {
	case isObject(call):
		r.ToolCall, r.At = call, []string{"toolCall"}
		if subject != nil && string(wrapped) != string(call) {
			r.Ambiguous = "it is about a toolCall and a subject that differ"
		}
		r.beside(params, call)
		return
	case isObject(wrapped):
		r.ToolCall, r.At = wrapped, []string{"subject", "toolCall"}
		r.beside(params, wrapped)
		id := Get(subject, "toolCallId")
		if Get(subject, "command") != nil || id != nil && ToolCallID(wrapped) != ToolCallID(subject) {
			r.Ambiguous = "its subject is a tool call and something else"
		}
		return
	}
	report := object{}
	if isObject(subject) {
		report.add("title", params["title"])
		report.add("toolCallId", Get(subject, "toolCallId"))
		if kind == "command" {
			input := object{}
			// other members may change the meaning of the command
			_ = Members(subject, func(name string, v []byte) bool {
				if !slices.Contains([]string{"type", "toolCallId", "terminalId", "_meta"}, name) {
					input.add(name, v)
				}
				return true
			})
			report.add("kind", []byte(`"execute"`))
			report.add("rawInput", input.end())
		}
	} else { // the members of a tool call, perhaps by other names, in the params
		for _, name := range [...]string{"toolCallId", "kind", "content", "locations", "_meta"} {
			report.add(name, params[name])
		}
		report.add("title", params["title"], params["description"], params["message"])
		report.add("name", r.one(params, "name", "tool", "toolName"))
		report.add("rawInput", r.one(params, "rawInput", "input"))
	}
	r.ToolCall = report.end()
	name, _ := String(cmpBytes(params["tool"], params["toolName"]))
	description, _ := String(params["description"])
	if r.At == nil && r.Title == "" && name != "" && description != "" {
		r.Title = name + ": " + description
	}
}

// beside marks the request as ambiguous if its params have an input that differs from the input of its tool call.
func (r *PermissionRequest) beside(params map[string][]byte, call []byte) {
	for _, name := range [...]string{"rawInput", "input"} {
		if v := params[name]; v != nil && string(v) != string(Get(call, "rawInput")) {
			r.Ambiguous = "it has " + name + " beside a tool call that has another input"
		}
	}
}

// one returns the value of a member with several names. It marks the request as ambiguous if two values differ, because
// readers differ about which one counts.
func (r *PermissionRequest) one(params map[string][]byte, names ...string) (v []byte) {
	for _, name := range names {
		switch also := params[name]; {
		case also == nil:
		case v == nil:
			v = also
		case string(also) != string(v):
			r.Ambiguous = "it has " + name + " and another name for that, which differ"
		}
	}
	return v
}

// object builds a JSON object.
type object []byte

// add adds a member with the first value that is not nil, if there is one.
func (o *object) add(name string, values ...[]byte) {
	v := cmpBytes(values...)
	if v == nil {
		return
	}
	before := byte(',')
	if len(*o) == 0 {
		before = '{'
	}
	*o = append(append(jsonrpc.AppendString(append(*o, before), name), ':'), v...)
}

func (o object) end() []byte {
	if len(o) == 0 {
		return []byte("{}")
	}
	return append(o, '}')
}

// cmpBytes returns the first value that is not nil.
func cmpBytes(values ...[]byte) []byte {
	for _, v := range values {
		if v != nil {
			return v
		}
	}
	return nil
}

func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

// parseOptions parses the options of a request. flat reports that the id of an option is not at ACP's place.
func parseOptions(raw []byte) (options []PermissionOption, flat bool, err error) {
	n := 0
	if isObject(raw) { // the options are unknown, but there are some
		err = Members(raw, func(string, []byte) bool { n++; return true })
	} else if len(raw) > 0 && raw[0] == '[' {
		err = Elements(raw, func(v []byte) bool {
			n++
			o, own, ok := ParsePermissionOption(v)
			if ok {
				options = append(options, o)
			}
			flat = flat || !own
			return true
		})
	}
	switch {
	case err != nil:
		err = fmt.Errorf("options: %w", err)
	case n == 0 && len(raw) > 0 && raw[0] != 'n' && raw[0] != '[':
		err = fmt.Errorf("options: expected an array, got %.40s", raw)
	case n == 0:
		err = errNothing
	}
	return options, flat, err
}

// ParsePermissionOption parses an option of a permission request. ok is false if it has no valid id. own reports that
// the id is at ACP's place.
func ParsePermissionOption(raw []byte) (o PermissionOption, own, ok bool) {
	if o.ID, ok = Exact(raw); ok { // only an id
		o.Name = o.ID
		o.Kind = optionKind("", o.ID, o.Name)
		return o, false, true
	}
	var id, optionID, name, label, kind []byte
	if Members(raw, func(member string, v []byte) bool {
		switch member {
		case "optionId":
			optionID = v
		case "id":
			id = v
		case "name":
			name = v
		case "label":
			label = v
		case "kind":
			kind = v
		}
		return true
	}) != nil {
		return o, true, false
	}
	own = optionID != nil || id == nil
	o.ID, ok = Exact(cmpBytes(optionID, id))
	o.Name, _ = String(cmpBytes(name, label))
	o.Kind, _ = String(kind)
	if kind == nil || string(kind) == "null" || o.Kind != "" {
		o.Kind = optionKind(o.Kind, o.ID, o.Name)
	}
	return o, own, ok
}

// choices maps words, as wordOf returns them, to kinds of options.
var choices = map[string]string{
	"allowonce": AllowOnce, "allow": AllowOnce, "approve": AllowOnce, "accept": AllowOnce, "yes": AllowOnce,
	"approveonce": AllowOnce, "acceptonce": AllowOnce, "proceedonce": AllowOnce,
	"allowalways": AllowAlways, "alwaysallow": AllowAlways, "approvealways": AllowAlways, "alwaysapprove": AllowAlways,
	"rejectonce": RejectOnce, "reject": RejectOnce, "deny": RejectOnce, "denyonce": RejectOnce, "decline": RejectOnce, "no": RejectOnce,
	"rejectalways": RejectAlways, "alwaysreject": RejectAlways, "denyalways": RejectAlways, "alwaysdeny": RejectAlways,
}

// wordOf removes the differences between spellings of a kind: "Allow once" and "allow_once" become "allowonce".
func wordOf(s string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '_' || r == '-' {
			return -1
		}
		return r
	}, strings.ToLower(s))
}

// optionKind returns the ACP kind of an option. An option without a kind gets the kind that its id or its name clearly
// means. It allows if its name means exactly that, or its id if it has no other name. It rejects if the name or the id
// means that, and the other does not mean the opposite. In all other cases the kind is the agent's text, and such an
// option is never chosen automatically.
//
// A kind counts only if neither the id nor the name means the opposite, because users choose by the name.
func optionKind(kind, id, name string) string {
	if kind != "" {
		known := cmp.Or(choices[wordOf(kind)], kind)
		if contradicts(known, id) || contradicts(known, name) {
			return ""
		}
		return known
	}
	byID, byName := choices[wordOf(id)], choices[wordOf(name)]
	rejects := func(kind string) bool { return kind == RejectOnce || kind == RejectAlways }
	switch {
	case byID == byName:
		return byName
	case byID == "" || rejects(byID) && rejects(byName):
		return byName
	case byName == "" && (rejects(byID) || name == ""):
		return byID
	}
	return ""
}

// Option returns the id of the first option with one of the kinds, in the order of kinds.
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

// Selected returns the result that chooses an option.
func Selected(optionID string) []byte {
	return append(jsonrpc.AppendString([]byte(`{"outcome":{"outcome":"selected","optionId":`), optionID), "}}"...)
}

// SelectedFlat is Selected for an agent that expects the id of the option in the result itself.
func SelectedFlat(optionID string) []byte {
	both := Selected(optionID)
	return append(jsonrpc.AppendString(append(both[:len(both)-1], `,"optionId":`...), optionID), '}')
}

// Answer is the answer to a permission request: the result of the client's response.
type Answer struct {
	// Option is the id of the chosen option. It is empty if none was chosen, or if it cannot be parsed.
	Option string
	// Ambiguous says why parsers may read the answer differently: a name occurs twice, or in two cases. Empty means
	// that it is unambiguous.
	Ambiguous string
	// Unknown says why the answer is neither an answer of ACP nor of an older client. Empty means that it is one.
	Unknown string
}

// ParseAnswer parses the answer to a permission request: {"outcome": {"outcome": "selected", "optionId": ID}}, of which
// older clients omit the outer or the inner object, or {"outcome": {"outcome": "cancelled"}}.
func ParseAnswer(result []byte) Answer {
	outer, ambiguous := readOutcome(result)
	inner := outer
	if ambiguous == "" && isObject(outer.outcome) {
		inner, ambiguous = readOutcome(outer.outcome)
	}
	kind, isText := String(inner.outcome)
	id, isID := Exact(inner.option)
	switch {
	case ambiguous != "":
		return Answer{Ambiguous: ambiguous}
	case !isObject(result):
		return Answer{Unknown: "the result is no object"}
	case inner.option != nil && !isID:
		return Answer{Unknown: "its optionId is no text"}
	case outer.option != nil && string(outer.option) != string(inner.option):
		return Answer{Unknown: "it names an option beside the outcome, and another one or none in it"}
	case kind == "cancelled" && inner.option == nil:
		return Answer{}
	case id != "" && (kind == "selected" || inner.outcome == nil):
		return Answer{Option: id}
	case kind == "selected" || inner.outcome == nil:
		return Answer{Unknown: "it names no option"}
	case !isText:
		return Answer{Unknown: "its outcome is no text"}
	}
	return Answer{Unknown: fmt.Sprintf("its outcome is %.40q where \"selected\", or \"cancelled\" without an option, is expected", kind)}
}

// outcome is an object of an answer, without its null members.
type outcome struct{ outcome, option []byte }

// readOutcome parses an object of an answer. ambiguous says which name occurs twice, or in two cases.
func readOutcome(object []byte) (o outcome, ambiguous string) {
	err := Members(object, func(name string, v []byte) bool {
		for known, to := range map[string]*[]byte{"outcome": &o.outcome, "optionId": &o.option} {
			switch {
			case name == known && string(v) != "null":
				*to = v
			case name != known && strings.EqualFold(name, known):
				ambiguous = fmt.Sprintf("the name %.40q differs from %q only in case", name, known)
			}
		}
		return true
	})
	if err != nil && isObject(object) {
		return o, err.Error()
	}
	return o, ambiguous
}

// Chosen returns the id of the option that an answer chooses, or "" if it chooses none or several.
func Chosen(result []byte) string { return ParseAnswer(result).Option }

// Cancelled returns the answer to a permission request of a cancelled turn.
func Cancelled() []byte { return []byte(`{"outcome":{"outcome":"cancelled"}}`) }
