package event

import (
	"cmp"
	"maps"
	"slices"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// maxPromptBlock is the limit of a prompt's block whose content is in the event, in bytes.
const maxPromptBlock = 64 << 10

// methodSetModel and methodSetConfigOption are requests of the client that change the state of a session.
const (
	methodSetModel        = acp.MethodSessionSetModel
	methodSetConfigOption = acp.MethodSessionSetOption
)

// kindCurrentModel is the kind of the update with which some agents report their model (see acp.ModelOf).
const kindCurrentModel = "current_model_update"

// fromClient processes a request of the client to the agent.
func (d *Decoder) fromClient(r *request, m *jsonrpc.Message) {
	switch r.method {
	case acp.MethodInitialize:
		d.begin()
	case acp.MethodSessionPrompt:
		delete(d.loading, r.session) // a client does not prompt a session that is still loading: the answer was lost
	case acp.MethodSessionNew, acp.MethodSessionFork, acp.MethodSessionLoad, acp.MethodSessionResume:
		if cwd := textOf(acp.CwdOf(m.Params)); cwd != "" {
			r.roots = append(r.roots, cwd)
		}
		r.roots = append(r.roots, texts(acp.Get(m.Params, "additionalDirectories"))...)
		r.loads = r.method == acp.MethodSessionLoad || r.method == acp.MethodSessionResume && isObject(acp.Get(m.Params, "replayFrom"))
	case acp.MethodSessionSetMode:
		r.value = textOf(acp.Get(m.Params, "modeId"))
	case methodSetModel:
		r.value = textOf(acp.Get(m.Params, "modelId"))
	case acp.MethodSessionClose, acp.MethodSessionDelete, methodSetConfigOption:
	default:
		if old := d.client.Delete(r.key); old != nil {
			d.lost(old, "its id was used again")
		}
		return
	}
	d.open(&d.client, r)
	if r.loads {
		d.emitted = emittedMessages{} // all messages are sent again
		d.loading[r.session]++
	}
	if r.method == acp.MethodSessionPrompt {
		d.release(r.session)
		delete(d.spent, r.session)
		prompt := blocks(acp.PromptOf(m.Params), maxPromptBlock)
		t := d.touching(r.session)
		var exists func(string) bool
		if folders := d.roots.At(r.session); d.Present != nil && len(folders) > 0 {
			exists = func(file string) bool { return d.Present(folders, file) }
		}
		t.prompt(prompt, exists)
		d.emit(&supervisorv1.Event{SessionId: r.session, Raw: raw(m.Params), Touches: t.list,
			Event: &supervisorv1.Event_TurnStarted{TurnStarted: &supervisorv1.TurnStarted{Prompt: prompt}}})
	}
}

// clientAnswered processes the answer to such a request.
func (d *Decoder) clientAnswered(r *request, a *answer) {
	if r.method == acp.MethodInitialize {
		d.dialect = safetext.Cut(textOf(acp.Get(a.result, "agentInfo", "name")), maxKept)
		d.version = acp.ParseInitialized(a.result).ProtocolVersion
		return
	}
	d.loaded(r)
	if r.method == acp.MethodSessionPrompt && !r.ended {
		d.turnEnded(r, a)
	}
	if a.fault != nil {
		d.ifGone(r.session, a)
	}
	if r.method == acp.MethodSessionPrompt || a.fault != nil {
		return
	}
	e := &supervisorv1.Event{SessionId: r.session, Raw: a.raw()}
	switch r.method {
	case acp.MethodSessionNew, acp.MethodSessionFork, acp.MethodSessionLoad, acp.MethodSessionResume:
		o := Settings(a.result)
		o.Method, o.Roots = r.method, r.roots
		if r.method == acp.MethodSessionNew || r.method == acp.MethodSessionFork {
			if id, ok := acp.String(acp.Get(a.result, "sessionId")); ok {
				e.SessionId = id
			}
		}
		e.Event = &supervisorv1.Event_SessionOpened{SessionOpened: o}
		d.roots.Keep(e.GetSessionId(), r.roots, maxRequests)
		if all := acp.Get(a.result, "availableCommands"); isArray(all) { // ACP v2
			d.emit(e)
			e = &supervisorv1.Event{SessionId: e.GetSessionId(), Event: &supervisorv1.Event_AvailableCommands{
				AvailableCommands: &supervisorv1.AvailableCommands{Commands: commands(all)},
			}}
		}
	case acp.MethodSessionClose, acp.MethodSessionDelete:
		d.roots.Delete(r.session)
		d.release(r.session)
		e.Event = &supervisorv1.Event_SessionClosed{SessionClosed: &supervisorv1.SessionClosed{Reason: r.method}}
	case acp.MethodSessionSetMode:
		if r.value == "" {
			return
		}
		e.Event = &supervisorv1.Event_CurrentMode{CurrentMode: &supervisorv1.CurrentMode{ModeId: r.value}}
	case methodSetModel:
		if r.value == "" {
			return
		}
		// The same form as the corresponding update.
		e.Raw = `{"sessionUpdate":"` + kindCurrentModel + `","currentModelId":` + string(jsonrpc.AppendString(nil, r.value)) + `}`
		e.Event = &supervisorv1.Event_OtherUpdate{OtherUpdate: &supervisorv1.OtherUpdate{Kind: kindCurrentModel}}
	case methodSetConfigOption:
		all := acp.Get(a.result, "configOptions")
		if !isArray(all) {
			return
		}
		e.Event = &supervisorv1.Event_ConfigOptions{ConfigOptions: &supervisorv1.ConfigOptions{Options: configOptions(all)}}
	}
	d.emit(e)
}

func (d *Decoder) turnEnded(r *request, a *answer) {
	t := &supervisorv1.TurnEnded{}
	if a.fault != nil {
		t.Error = ErrorOf(r.method, a.fault, a.ours())
	} else {
		readEnd(t, a.result)
		if acp.PromptAccepted(a.result, d.version) && len(d.accepted) < maxRequests {
			d.accepted[r.session] = true // ACP v2: the answer marks the start of the turn
			return
		}
	}
	if t.GetUsage() == nil {
		t.Usage = d.spent[r.session]
	}
	delete(d.spent, r.session)
	end := &supervisorv1.Event{SessionId: r.session, Raw: a.raw(), Event: &supervisorv1.Event_TurnEnded{TurnEnded: t}}
	if a.ours() { // acphost answered for an agent that has ended
		d.emit(end)
		return
	}
	d.endTurnLater(r.key, end)
}

// readEnd decodes the end of a turn.
func readEnd(t *supervisorv1.TurnEnded, v []byte) {
	read(v, "stopReason", &t.StopReason, "usage", func(v []byte) { t.Usage = tokenUsage(v) })
}

// idle processes an update of ACP v2 with a session's state. It returns the end of the active turn; nil if none ends.
func (d *Decoder) idle(session string, v []byte) *supervisorv1.TurnEnded {
	if !d.accepted[session] || !acp.Idle(v) {
		return nil
	}
	delete(d.accepted, session)
	t := &supervisorv1.TurnEnded{}
	readEnd(t, v)
	if fault := acp.Get(v, "error"); isObject(fault) {
		t.StopReason, t.Error = "", ErrorOf(acp.MethodSessionPrompt, fault, false)
	}
	return t
}

// endTurn processes the agent's notification that a turn has ended: its answer to the prompt then ends nothing more.
// Without an active turn, the event has the raw notification.
func (d *Decoder) endTurn(session string, params []byte) {
	key, under := "", d.accepted[session]
	for _, r := range d.client.All() {
		if r.method == acp.MethodSessionPrompt && r.session == session && !r.ended {
			r.ended, under, key = true, true, r.key
		}
	}
	if !under {
		d.emitOther(session, acp.MethodSessionEndTurn, params)
		return
	}
	delete(d.accepted, session)
	t := &supervisorv1.TurnEnded{}
	t.StopReason = acp.EndTurnReason(params)
	if t.GetStopReason() == "" {
		words, _ := acp.String(acp.Get(params, "error"))
		t.Error = &supervisorv1.AgentError{Kind: supervisorv1.ErrorKind_ERROR_KIND_AGENT_ERROR,
			Message: acp.MethodSessionPrompt + ": the agent ended the turn with an error: " + cmp.Or(words, "it gives no reason")}
	}
	t.Usage = d.spent[session]
	delete(d.spent, session)
	d.endTurnLater(key, &supervisorv1.Event{SessionId: session, Raw: raw(params), Event: &supervisorv1.Event_TurnEnded{TurnEnded: t}})
}

// loaded ends the history of a session.
func (d *Decoder) loaded(r *request) {
	if !r.loads {
		return
	}
	if d.loading[r.session]--; d.loading[r.session] <= 0 {
		delete(d.loading, r.session)
	}
}

// ifGone ends open requests of a session if acphost answers for an agent that has ended. An agent cannot forge such an
// answer.
func (d *Decoder) ifGone(session string, a *answer) {
	if a.ours() && goneKind(a.fault) != supervisorv1.ErrorKind_ERROR_KIND_UNSPECIFIED {
		d.endCalls("the agent is gone", func(r *request) bool { return r.session == session || r.session == "" })
	}
}

// begin drops open requests: initialize begins a connection.
func (d *Decoder) begin() {
	const why = "the connection to the agent has ended"
	d.releaseAll()
	d.endAll(&d.client, why, anyRequest)
	d.endCalls(why, anyRequest)
	for _, session := range slices.Sorted(maps.Keys(d.accepted)) {
		d.turnLost(session, why)
	}
	clear(d.loading)
	clear(d.accepted)
	clear(d.spent)
	d.version = 0
	d.reports, d.emitted = reports{}, emittedMessages{}
}

func anyRequest(*request) bool { return true }

// endCalls ends requests that will not be answered any more.
func (d *Decoder) endCalls(why string, which func(*request) bool) {
	d.endAll(&d.calls, why, which)
	d.endAll(&d.own, why, which)
}

func (d *Decoder) endAll(t *table, why string, which func(*request) bool) {
	for key, r := range t.All() {
		if which(r) {
			t.Delete(key)
			d.lost(r, why)
		}
	}
}

// lost emits the end of a request whose answer will not arrive.
func (d *Decoder) lost(r *request, why string) {
	d.loaded(r)
	switch {
	case r.question != "":
		d.questionEnded(r, &supervisorv1.ApprovalAnswer{Outcome: "withdrawn", AnsweredBy: byNobody}, "")
	case r.to != "":
		d.emit(&supervisorv1.Event{SessionId: r.session, Event: &supervisorv1.Event_CallEnded{
			CallEnded: &supervisorv1.CallEnded{Id: r.id, Method: r.method, Error: why},
		}})
	case r.method == acp.MethodSessionPrompt && !r.ended:
		d.turnLost(r.session, why)
	}
}

func (d *Decoder) turnLost(session, why string) {
	d.emit(&supervisorv1.Event{SessionId: session, Event: &supervisorv1.Event_TurnEnded{TurnEnded: &supervisorv1.TurnEnded{
		Error: &supervisorv1.AgentError{Message: acp.MethodSessionPrompt + ": " + why},
	}}})
}
