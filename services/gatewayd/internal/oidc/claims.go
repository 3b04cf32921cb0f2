package oidc

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// registered are the claims and header parameters that decide whether a token is accepted. Go's decoder would read
// "AUD" as "aud".
var registered = []string{"iss", "sub", "aud", "exp", "nbf", "iat", "jti", "azp", "client_id", "nonce", "typ", "events", "cnf",
	"email", "email_verified", "alg", "kid", "crit"}

// maxClockSkew is how far the provider's clock may be ahead of this machine's.
const maxClockSkew = 5 * time.Minute

// tokenTypes are the accepted values of "typ", in the header or among the claims: those of ID tokens and access tokens.
// The provider signs tokens of other types, such as logout tokens ("logout+jwt"), with the same keys.
var tokenTypes = []string{"jwt", "at+jwt", "id", "bearer"}

// clientClaims name the client that a token was issued to: azp in ID tokens (OpenID Connect Core, section 2), client_id
// in access tokens (RFC 9068, section 2.2). A token with both must name accepted clients in both.
var clientClaims = []string{"azp", "client_id"}

// checkClaims rejects a token with a valid signature that is not for one of parties: it was issued to another client,
// has another type, is valid only with a key, has times that are not numbers or are after now, or can be parsed in two
// ways.
func checkClaims(token string, parties []string, now time.Time) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return errors.New("it does not have three parts")
	}
	for _, part := range parts[:2] {
		text, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			return fmt.Errorf("read it: %w", err)
		}
		members, err := exactMembers(text)
		if err != nil {
			return err
		}
		if err := errors.Join(checkMembers(members, parties), checkTimes(members, now)); err != nil {
			return err
		}
	}
	return nil
}

func checkMembers(members map[string]json.RawMessage, parties []string) error {
	if raw, ok := members["typ"]; ok {
		var kind string
		if err := json.Unmarshal(raw, &kind); err != nil {
			return errors.New("its typ is no text")
		}
		if !slices.Contains(tokenTypes, strings.TrimPrefix(strings.ToLower(kind), "application/")) {
			return fmt.Errorf("its type is %.40q, which does not identify a person", kind)
		}
	}
	if _, ok := members["events"]; ok {
		return errors.New("it reports an event, and does not identify a person")
	}
	if _, ok := members["cnf"]; ok {
		return errors.New("it counts only together with a key (cnf), which a bearer does not show")
	}
	var audience []string
	if raw, ok := members["aud"]; ok && json.Unmarshal(raw, &audience) != nil {
		audience = nil // a single string
	}
	named := false
	for _, name := range clientClaims {
		raw, ok := members[name]
		if !ok {
			continue
		}
		named = true
		var party string
		if err := json.Unmarshal(raw, &party); err != nil || party == "" || !slices.Contains(parties, party) {
			return fmt.Errorf("it was given to another client of the provider (%s %.80s): --oidc-party names clients whose tokens are taken", name, raw)
		}
	}
	if !named && len(audience) > 1 {
		return errors.New("it is for several audiences, and has no azp or client_id that names its client")
	}
	return nil
}

// checkTimes rejects times that are not numbers, because decoders read these in different ways (RFC 7519 requires
// numbers), and tokens that were issued after now.
func checkTimes(members map[string]json.RawMessage, now time.Time) error {
	for _, name := range []string{"exp", "nbf", "iat"} {
		raw, ok := members[name]
		if !ok {
			continue
		}
		var seconds *float64
		if err := json.Unmarshal(raw, &seconds); err != nil || seconds == nil {
			return fmt.Errorf("its %s is %.40s, and not a number of seconds", name, raw)
		}
		if name == "iat" && *seconds > float64(now.Add(maxClockSkew).Unix()) {
			return fmt.Errorf("it was issued at %.40s, more than %v ahead of this machine's clock", raw, maxClockSkew)
		}
	}
	return nil
}

// exactMembers returns the members of a JSON object, by their exact names. It rejects duplicate names, and registered
// names in other case.
func exactMembers(object []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil, errors.New("its claims are no object")
	}
	members := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("read its claims: %w", err)
		}
		text, _ := name.(string)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("read its claim %.40q: %w", text, err)
		}
		if _, twice := members[text]; twice {
			return nil, fmt.Errorf("it has the claim %.40q twice", text)
		}
		if slices.ContainsFunc(registered, func(r string) bool { return r != text && strings.EqualFold(r, text) }) {
			return nil, fmt.Errorf("its claim %.40q differs from a known one only in case", text)
		}
		members[text] = value
	}
	return members, nil
}
