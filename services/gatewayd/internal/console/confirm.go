package console

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/confirmsocket"
	"github.com/acphost/acphost/services/gatewayd/internal/signin"
)

// Confirm returns the confirmsocket.Handler for requests of a person on this machine to a Broker.
func Confirm(broker *signin.Broker) confirmsocket.Handler {
	return func(ctx context.Context, r confirmsocket.Request) confirmsocket.Answer {
		switch {
		case r.List:
			var all []confirmsocket.Session
			for _, s := range broker.Sessions() {
				all = append(all, sessionInfo(s))
			}
			return confirmsocket.Answer{Sessions: all}
		case r.End != "":
			if !broker.End(r.End) {
				return confirmsocket.Answer{Error: "no browser with this id is signed in: \"acphost console --list\" lists the signed-in browsers"}
			}
			return confirmsocket.Answer{}
		case r.Confirm != nil:
			s, err := broker.Confirm(ctx, r.Code, r.Confirm.Role, time.Duration(r.Confirm.Seconds)*time.Second)
			if err != nil {
				return confirmsocket.Answer{Error: err.Error()}
			}
			session := sessionInfo(s)
			return confirmsocket.Answer{Session: &session}
		}
		b, err := broker.AwaitBrowser(ctx, r.Code)
		if err != nil {
			return confirmsocket.Answer{Error: err.Error(), Known: !errors.Is(err, signin.ErrNoBrowser) && !errors.Is(err, signin.ErrTooManyCodes)}
		}
		return confirmsocket.Answer{Browser: &confirmsocket.Browser{Address: b.Address, Agent: b.Agent}}
	}
}

func sessionInfo(s signin.Session) confirmsocket.Session {
	return confirmsocket.Session{
		ID: s.ID, Role: s.Role, How: strings.TrimSpace(s.Method), Created: s.Created, Expires: s.Expires,
		Browser: confirmsocket.Browser{Address: s.Browser.Address, Agent: s.Browser.Agent},
	}
}
