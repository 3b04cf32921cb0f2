package main

import (
	"context"

	"github.com/coder/acp-go-sdk"
)

// ask asks the client for something of the turn's session. Params are without the session's id.
func ask[R any](ctx context.Context, t *turn, method string, params object) (R, error) {
	params["sessionId"] = t.session.id
	return acp.SendRequest[R](t.agent.conn, ctx, method, params)
}

// elicitation is the answer to elicitation/create. The library has no type for today's.
type elicitation struct {
	Action  string `json:"action"`
	Content object `json:"content"`
}

// completed notifies the client that the page of an elicitation is finished.
func (a *agent) completed(ctx context.Context, elicitation string) error {
	return a.conn.SendNotification(ctx, acp.ClientMethodElicitationComplete, object{"elicitationId": elicitation})
}

// tell sends a session/update.
func (a *agent) tell(ctx context.Context, session acp.SessionId, update any) error {
	return a.conn.SendNotification(ctx, acp.ClientMethodSessionUpdate, object{"sessionId": session, "update": update})
}
