package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	defaultURL     = "http://127.0.0.1:8181/v1/data/acphost/decision"
	defaultTimeout = 3 * time.Second
	// A supervisor waits 5 s for a decision, so a longer timeout has no use.
	maxTimeout = 5 * time.Second
)

// settings are the settings of this policy in acphost's configuration.
type settings struct {
	// URL is the decision's address in the server's data API. Default: defaultURL.
	URL string `json:"url"`
	// TimeoutMS is how long the server may take for one decision, in milliseconds, 1 to 5000. Default (0): 3000.
	TimeoutMS int `json:"timeout_ms"`
	// TokenFile is a file with the token that the server wants ("Authorization: Bearer"). It is read again with each
	// Configure. Empty: none is sent.
	TokenFile string `json:"token_file"`

	timeout time.Duration
	token   string
}

// check completes the settings.
func (s *settings) check() error {
	if s.URL == "" {
		s.URL = defaultURL
	}
	u, err := url.Parse(s.URL)
	switch {
	case err != nil:
		return fmt.Errorf("url: %w", err)
	case (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return fmt.Errorf("url: %q is not an address of HTTP or HTTPS", s.URL)
	case u.User != nil:
		return errors.New("url: a password does not belong there: token_file names a file with a token")
	}
	s.timeout = time.Duration(s.TimeoutMS) * time.Millisecond
	switch {
	case s.TimeoutMS == 0:
		s.timeout = defaultTimeout
	case s.TimeoutMS < 0 || s.timeout > maxTimeout:
		return fmt.Errorf("timeout_ms: %d is not 1 to %d", s.TimeoutMS, maxTimeout.Milliseconds())
	}
	if s.TokenFile == "" {
		return nil
	}
	token, err := os.ReadFile(s.TokenFile)
	if err != nil {
		return fmt.Errorf("token_file: %w", err)
	}
	if s.token = strings.TrimSpace(string(token)); s.token == "" || strings.ContainsAny(s.token, "\r\n") {
		return fmt.Errorf("token_file: %s does not hold one line with a token", s.TokenFile)
	}
	return nil
}
