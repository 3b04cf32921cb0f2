package main

import (
	"context"

	"github.com/coder/acp-go-sdk"
)

// The ways to log in.
const (
	byBrowser  = "browser"
	byTerminal = "terminal"
)

// authMethods returns the login methods, if a login is required.
func (a *agent) authMethods() []object {
	if !a.how.auth {
		return []object{}
	}
	return []object{
		{"id": byBrowser, "name": "Log in with a browser", "description": "Opens a page"},
		{"id": byTerminal, "name": "Log in on a terminal", "type": "terminal", "args": []string{"-login"}},
	}
}

// authorized returns an error if a login is required first.
func (a *agent) authorized() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.how.auth && !a.loggedIn {
		if a.loggedIn = a.kept.login(); !a.loggedIn { // it may have happened on a terminal meanwhile
			return acp.NewAuthRequired(object{"authMethods": []string{byBrowser, byTerminal}})
		}
	}
	return nil
}

func (a *agent) setLogin(in bool) error {
	a.mu.Lock()
	a.loggedIn = in
	a.mu.Unlock()
	return a.kept.setLogin(in)
}

// authenticate logs in with a page that a person has to open.
func (a *agent) authenticate(ctx context.Context, p struct {
	MethodID string `json:"methodId"`
}) (any, error) {
	const id = "login-1"
	switch {
	case p.MethodID == byTerminal:
		return nil, acp.NewInvalidParams(object{"error": "this method is for a terminal: demoagent -login"})
	case p.MethodID != byBrowser || !a.how.auth:
		return nil, acp.NewInvalidParams(object{"methodId": p.MethodID})
	case a.clientCan().Elicitation.URL == nil:
		return nil, acp.NewInternalError(object{"error": "a page has to be opened, and the client cannot show one"})
	}
	answer, err := acp.SendRequest[elicitation](a.conn, ctx, acp.ClientMethodElicitationCreate, object{
		"mode": "url", "requestId": a.wire.loginID(), "elicitationId": id,
		"url": "https://example.com/login?code=demo", "message": "Please log in.",
	})
	if err != nil {
		return nil, err
	}
	if answer.Action != "accept" {
		return nil, acp.NewAuthRequired(object{"action": answer.Action})
	}
	if err := a.completed(ctx, id); err != nil {
		return nil, err
	}
	return object{}, a.setLogin(true)
}

func (a *agent) logout(context.Context, struct{}) (any, error) {
	return object{}, a.setLogin(false)
}
