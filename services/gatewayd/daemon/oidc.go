package daemon

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/keyfiles"
	"github.com/acphost/acphost/internal/tokens"
	"github.com/acphost/acphost/services/gatewayd/internal/oidc"
)

// callback is the path to which a provider redirects browsers after sign-in.
const callback = "/console/oidc/callback"

// oidcFlags are the flags for OpenID Connect.
type oidcFlags struct {
	issuer, clientID, secret, audience, claim string
	roles, scopes, parties                    list
}

func (f *oidcFlags) define(set *flag.FlagSet) {
	set.StringVar(&f.issuer, "oidc-issuer", "", "authenticate people with the OpenID Connect provider at this `URL`")
	set.StringVar(&f.clientID, "oidc-client-id", "", "let people sign in to the console at the provider; gatewayd's client `ID` there; the redirect is PUBLIC-URL"+callback)
	set.StringVar(&f.secret, "oidc-client-secret", "", "the `FILE` with the client secret of that ID, if it has one")
	set.StringVar(&f.audience, "oidc-audience", "", "accept the provider's tokens (JWT) for this `AUDIENCE` as bearer tokens")
	set.Var(&f.parties, "oidc-party", "also accept tokens for that audience that were issued to this `CLIENT` of the provider (azp or client_id); may be repeated")
	set.StringVar(&f.claim, "oidc-role-claim", "groups", "the `CLAIM` with a person's groups in the provider's tokens, such as realm_access.roles")
	set.Var(&f.roles, "oidc-role", "`ROLE=GROUP`: members of this group have the role viewer, approver or operator; may be repeated, and the highest role applies")
	set.Var(&f.scopes, "oidc-scope", "also request this `SCOPE` from the provider; may be repeated (default: profile, email)")
}

func (f *oidcFlags) check() error {
	if f.issuer == "" {
		if f.clientID+f.secret+f.audience != "" || len(f.roles)+len(f.scopes)+len(f.parties) > 0 {
			return errors.New("--oidc-… flags need --oidc-issuer")
		}
		return nil
	}
	u, err := url.Parse(f.issuer)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return fmt.Errorf("--oidc-issuer: expected a URL such as https://login.example.org, or http on the loopback, got %q", f.issuer)
	case f.clientID == "" && f.audience == "":
		return errors.New("--oidc-issuer: give --oidc-client-id for people who sign in to the console, --oidc-audience for bearer tokens, or both")
	case f.secret != "" && f.clientID == "":
		return errors.New("--oidc-client-secret is for --oidc-client-id")
	case len(f.parties) > 0 && f.audience == "":
		return errors.New("--oidc-party is for --oidc-audience")
	}
	_, err = f.groupRoles()
	return err
}

// groupRoles returns the roles of groups.
func (f *oidcFlags) groupRoles() (map[string]string, error) {
	roles := map[string]string{}
	for _, r := range f.roles {
		role, group, _ := strings.Cut(r, "=")
		if !slices.Contains(tokens.Roles(), role) || group == "" {
			return nil, fmt.Errorf("--oidc-role: expected ROLE=GROUP, with a role of %s, got %q", strings.Join(tokens.Roles(), ", "), r)
		}
		if slices.Index(tokens.Roles(), role) > slices.Index(tokens.Roles(), roles[group]) {
			roles[group] = role
		}
	}
	if len(roles) == 0 {
		return nil, errors.New("--oidc-issuer needs a group with a role: give --oidc-role, such as approver=GROUP")
	}
	return roles, nil
}

// provider returns the configured provider; nil: none. base is the URL at which people open gatewayd.
func (f *oidcFlags) provider(base string, log *slog.Logger) (*oidc.Provider, error) {
	if f.issuer == "" {
		return nil, nil
	}
	roles, err := f.groupRoles()
	if err != nil {
		return nil, err
	}
	if f.secret != "" {
		if _, err := keyfiles.ReadPrivate(f.secret); err != nil {
			return nil, fmt.Errorf("--oidc-client-secret: %w", err)
		}
	}
	scopes := f.scopes
	if len(scopes) == 0 {
		scopes = list{"profile", "email"}
	}
	return oidc.New(oidc.Options{
		Issuer: f.issuer, ClientID: f.clientID, SecretFile: f.secret, Redirect: base + callback, Scopes: scopes, Audience: f.audience, Parties: f.parties,
		RoleClaim: f.claim, Roles: roles, Logger: log,
	}), nil
}
