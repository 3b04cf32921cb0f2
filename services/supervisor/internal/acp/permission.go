package acp

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// MetaDetail is the member of _meta in acphost's own questions that says how the policy came to ask.
const MetaDetail = "acphost.detail"

// The kinds of option that a permission question offers.
const (
	AllowOnce    = "allow_once"
	AllowAlways  = "allow_always"
	RejectOnce   = "reject_once"
	RejectAlways = "reject_always"
)

// PermissionRequest is a session/request_permission, in the shape of ACP v1 or v2, or in another one that agents use.
type PermissionRequest struct {
	// ToolCall is a report of the tool call that it is about, a JSON object that is never empty: a part of the params, or
	// made of them.
	ToolCall []byte
	// At leads from the params to ToolCall; nil: ToolCall is no part of them.
	At []string
	// Title is what the request itself says that it is about; empty: it leaves that to the tool call.
	Title string
	// Ambiguous says why what it is about cannot be trusted to mean one thing. Empty: it can.
	Ambiguous string
	// Options are what may be answered.
	Options []PermissionOption
	// Flat: the agent looks for the id of the chosen option in the result itself.
	Flat bool
}

// PermissionOption is one option of a question.
type PermissionOption struct {
	ID string
	// Kind is one of ACP's if it is certain that it is meant, else what the agent wrote.
	Kind string
	// Name is what people are shown.
	Name string
}

// ParsePermissionRequest reads the params of session/request_permission. It fails if it is about nothing and offers nothing to choose
// from, and on duplicate names, which would let one peer read another question than the next; it returns what it has read also then.
// Everything else may be missing, or be something else than is known: then the report says little.
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
		unread = nil // what it is about is to be decided all the same
	}
	return req, cmp.Or(err, unread)
}

// errNothing says that a question cannot be answered.
var errNothing = errors.New("options: it offers nothing to choose")

// subject finds what the request is about.
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
			_ = Members(subject, func(name string, v []byte) bool { // what else it says of the command may change what runs
				if !slices.Contains([]string{"type", "toolCallId", "terminalId", "_meta"}, name) {
					input.add(name, v)
				}
				return true
			})
			report.add("kind", []byte(`"execute"`))
			report.add("rawInput", input.end())
		}
	} else { // the members of a tool call, or what they are called elsewhere, in the params
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

// beside makes the request ambiguous if it has an input beside that of its tool call, and another one.
func (r *PermissionRequest) beside(params map[string][]byte, call []byte) {
	for _, name := range [...]string{"rawInput", "input"} {
		if v := params[name]; v != nil && string(v) != string(Get(call, "rawInput")) {
			r.Ambiguous = "it has " + name + " beside a tool call that has another input"
		}
	}
}

// one is the member that agents call by several names. Two that differ make the request ambiguous: readers differ about which
// of them counts.
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

// object is a JSON object that is being made.
type object []byte

// add adds a member with the first of values that is there, if one is.
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

// cmpBytes is the first of values that is not nil.
func cmpBytes(values ...[]byte) []byte {
	for _, v := range values {
		if v != nil {
			return v
		}
	}
	return nil
}

func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

// parseOptions reads the options of a request; flat: some have their id where ACP does not have it.
func parseOptions(raw []byte) (options []PermissionOption, flat bool, err error) {
	n := 0
	if isObject(raw) { // what it offers is not known, but that it does
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

// ParsePermissionOption reads an option of a question; not ok: it has no id that can be read. own: its id is where ACP has
// it.
func ParsePermissionOption(raw []byte) (o PermissionOption, own, ok bool) {
	if o.ID, ok = Exact(raw); ok { // the id alone
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

// choices are words for ACP's kinds of option, as they are written after wordOf.
var choices = map[string]string{
	"allowonce": AllowOnce, "allow": AllowOnce, "approve": AllowOnce, "accept": AllowOnce, "yes": AllowOnce,
	"approveonce": AllowOnce, "acceptonce": AllowOnce, "proceedonce": AllowOnce,
	"allowalways": AllowAlways, "alwaysallow": AllowAlways, "approvealways": AllowAlways, "alwaysapprove": AllowAlways,
	"rejectonce": RejectOnce, "reject": RejectOnce, "deny": RejectOnce, "denyonce": RejectOnce, "decline": RejectOnce, "no": RejectOnce,
	"rejectalways": RejectAlways, "alwaysreject": RejectAlways, "denyalways": RejectAlways, "alwaysdeny": RejectAlways,
}

// wordOf is a word for a kind without what differs between agents: "Allow once" is "allowonce", as "allow_once" is.
func wordOf(s string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '_' || r == '-' {
			return -1
		}
		return r
	}, strings.ToLower(s))
}

// optionKind is the kind of an option as ACP has it. One without a kind has that of its id or its name if they leave no
// doubt: an option is taken for one that allows if its name says just that, or its id, where it has no other name; and for
// one that rejects if either says so and the other does not say the opposite. What is left in doubt stays as the agent wrote
// it, and is never chosen by itself.
//
// A kind counts only if neither the id nor the name says the opposite: people choose by the name, and not by the kind.
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

// SelectedFlat is Selected for an agent that looks for the option's id in the result itself.
func SelectedFlat(optionID string) []byte {
	both := Selected(optionID)
	return append(jsonrpc.AppendString(append(both[:len(both)-1], `,"optionId":`...), optionID), '}')
}

// Answer is the answer to a permission request, as the result of the client's response has it.
type Answer struct {
	// Option is the id of the option that it chooses. Empty: none, or it cannot be read.
	Option string
	// Ambiguous says why no two readers need find the same in it: a name stands twice, or in two cases. Empty: they do.
	Ambiguous string
	// Unknown says why it is none of the answers that ACP has, nor that of an older client. Empty: it is one.
	Unknown string
}

// ParseAnswer reads the answer to a permission request: {"outcome": {"outcome": "selected", "optionId": ID}}, of which older
// clients leave out the outer or the inner object, or {"outcome": {"outcome": "cancelled"}}.
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

// outcome is an object of an answer, without what is null in it.
type outcome struct{ outcome, option []byte }

// readOutcome reads an object of an answer. ambiguous says which name stands there twice, or in two cases.
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

// Chosen is the id of the option that the answer to a question chooses; "": it chooses none, or more than one.
func Chosen(result []byte) string { return ParseAnswer(result).Option }

// Cancelled returns the result that answers a question of a turn that was cancelled.
func Cancelled() []byte { return []byte(`{"outcome":{"outcome":"cancelled"}}`) }
