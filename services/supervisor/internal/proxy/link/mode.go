package link

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

// modeTimeout is how long an agent may take to set the mode of a session.
const modeTimeout = 30 * time.Second

// modeChange is acphost's own request to set a mode in which the agent asks before it acts, after the agent has opened a session in another
// mode. Until it is answered, the client gets nothing about the session.
type modeChange struct {
	opening   *clientCall // the request that opened the session
	session   string
	from, to  string
	corrected []byte // the answer to opening, with the new mode
	place     *place // holds the messages of the session
	send      []byte // the answer to opening that is sent, set before place is left
}

// modeToSet returns the mode that a session has to be set to, which the agent opened with result; "": the session is in a mode that asks,
// or has no modes. from is its current mode. The error means that the agent offers no mode that asks.
func (l *Link) modeToSet(result []byte) (from, to string, err error) {
	from = acp.ParseOpened(result).Mode
	if len(l.opts.Modes) == 0 || from == "" || slices.Contains(l.opts.Modes, from) {
		return from, "", nil
	}
	offered := acp.OfferedModes(result)
	for _, mode := range l.opts.Modes {
		if slices.Contains(offered, mode) {
			return from, mode, nil
		}
	}
	return from, "", fmt.Errorf("the agent %s opened the session in mode %q and offers none of the modes in which it asks before it acts (%s)",
		l.opts.AgentName, from, strings.Join(l.opts.Modes, ", "))
}

// correctMode handles the answer to a request that opened a session in a mode in which the agent does not ask. It returns false if the mode
// is acceptable, and the answer can be forwarded.
func (p *agentPump) correctMode(c *clientCall, m *jsonrpc.Message) (corrects bool, err error) {
	if !opensSession(c.method) || m.Error != nil || p.opts.Observe {
		return false, nil
	}
	from, to, wrong := p.modeToSet(m.Result)
	if to == "" && wrong == nil {
		return false, nil
	}
	change := &modeChange{opening: c, from: from, to: to, session: acp.ParseOpened(m.Result).SessionID}
	if change.session == "" {
		change.session = c.sessionID
	}
	request, params := acp.SetModeRequest(m.Result, change.session, to)
	if wrong == nil {
		change.corrected, wrong = acp.WithMode(m.Raw, to)
	}
	p.answered(c, m.Result, wrong != nil)
	if wrong != nil {
		p.see(frame.AgentToClient, RefusedName, m.Raw)
		p.refuseClient(c.id, jsonrpc.CodeInternal, wrongModeMessage(c, wrong))
		return true, nil
	}
	if err := p.out.flush(); err != nil {
		return true, err
	}
	change.place = p.order.enter(change.session)
	own := &clientCall{id: jsonrpc.AppendString(nil, p.opts.Names.next("mode-"+jsonrpc.NewID())), method: request, sessionID: change.session, change: change}
	if _, err := p.order.keep(p.queue.ctx, []byte(change.session), len(change.corrected), func() error {
		return p.sendClient(change.send)
	}); err != nil {
		<-p.ended
		return true, errHandled
	}
	p.opts.Sessions.SettingMode(jsonrpc.CanonicalID(own.id), change.session, to)
	p.clientCalls.Add(own.id, own)
	own.timer.Store(time.AfterFunc(modeTimeout, panics.Guard(p.log, "waiting for an agent to set a mode", func() {
		if _, ok := p.clientCalls.Remove(own.id); ok {
			_ = p.modeAnswered(own, fmt.Errorf("it did not answer %s within %v", own.method, modeTimeout))
		}
	}, p.broken)))
	p.postAgent(jsonrpc.AppendRequest(nil, own.id, request, params))
	return true, nil
}

// modeAnswered ends a modeChange. failed is the reason why the agent did not set the mode; nil: it did. The client then gets the answer to
// its request, or an error, and the agent's messages about the session since then. An error means that the client is gone.
func (l *Link) modeAnswered(own *clientCall, failed error) error {
	change := own.change
	l.opts.Sessions.ModeSet(jsonrpc.CanonicalID(own.id), failed != nil)
	change.send = change.corrected
	if failed != nil {
		err := fmt.Errorf("the agent %s opened the session in mode %q and could not be put in mode %q, in which it asks before it acts: %w",
			l.opts.AgentName, change.from, change.to, failed)
		l.log.Warn("a session was refused, because the agent would not ask before it acts", "session", change.session, "error", err)
		change.send = jsonrpc.AppendError(nil, change.opening.id, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: wrongModeMessage(change.opening, err)})
		l.Forget(change.session)
	} else {
		l.log.Info("the session was put in a mode in which the agent asks before it acts", "session", change.session, "from", change.from, "to", change.to)
	}
	err := l.order.leave(change.session, change.place)
	if failed == nil {
		l.tellUntested(change.session)
	}
	return err
}

// wrongModeMessage returns the message of the error for a request that opened a session in a mode that does not ask.
func wrongModeMessage(opening *clientCall, err error) string {
	return fmt.Sprintf("%s: %v; change the agent's own settings, or name the modes that you accept in agents.json (acphost.modes)", opening.method, err)
}

// checkVersion logs a warning if acphost was not tested with the agent's version.
func (l *Link) checkVersion(version string) {
	if len(l.opts.Tested) > 0 && !slices.Contains(l.opts.Tested, version) {
		text := fmt.Sprintf("The agent %s is of version %q. Tested versions are %s. Another version may ask for less than these do.",
			l.opts.AgentName, version, strings.Join(l.opts.Tested, ", "))
		l.untested.Store(&text)
		l.log.Warn("acphost was not tested with this version of the agent, which may ask for less than the tested versions do",
			"agent", l.opts.AgentName, "version", version, "tested", strings.Join(l.opts.Tested, ", "))
	}
}

// tellUntested notifies the user, once and in the first session, that acphost was not tested with the agent's version, if the client shows
// notices.
func (l *Link) tellUntested(sessionID string) {
	if !l.notices.Load() {
		return
	}
	if text := l.untested.Swap(nil); text != nil {
		l.tell(sessionID, "acphost was not tested with this version of the agent", *text)
	}
}

// opensSession reports whether a method opens a session.
func opensSession(method string) bool {
	switch method {
	case acp.MethodSessionNew, acp.MethodSessionLoad, acp.MethodSessionResume, acp.MethodSessionFork:
		return true
	}
	return false
}

// errorOf returns the error of a response; nil: it has none.
func errorOf(m *jsonrpc.Message) error {
	if m.Error == nil {
		return nil
	}
	message, _ := acp.String(acp.Get(m.Error, "message"))
	return fmt.Errorf("it answered with the error %q", excerpt([]byte(message)))
}
