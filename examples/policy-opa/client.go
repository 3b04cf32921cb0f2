package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// maxAnswer is the largest answer that is read, in bytes.
const maxAnswer = 1 << 20

// connections to the server are kept for the usual number of concurrent decisions.
const connections = 64

// client asks servers for decisions. It is safe for concurrent use.
type client struct{ http *http.Client }

func newClient() client {
	transport := &http.Transport{MaxIdleConnsPerHost: connections, ForceAttemptHTTP2: true} // no proxy from the environment
	return client{http: &http.Client{
		Transport: transport,
		// A token must not travel to wherever an answer points.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (c client) close() { c.http.CloseIdleConnections() }

// decision is the decision of the server's policy. The policy uses its JSON names.
type decision struct {
	Verdict    string `json:"verdict"`
	Rule       string `json:"rule"`
	Reason     string `json:"reason"`
	Grantable  bool   `json:"grantable"`
	Unattended string `json:"unattended"`
}

var verdicts = map[string]permissionv1.Verdict{
	"allow": permissionv1.Verdict_VERDICT_ALLOW,
	"deny":  permissionv1.Verdict_VERDICT_DENY,
	"ask":   permissionv1.Verdict_VERDICT_ASK,
}

// decide asks the server about one action. Its errors are gRPC statuses, and so count as deny.
func (c client) decide(ctx context.Context, s *settings, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	text, err := c.ask(limited, s, a)
	switch {
	case ctx.Err() != nil:
		return nil, status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, context.DeadlineExceeded):
		return nil, status.Errorf(codes.DeadlineExceeded, "%s did not decide within %s", s.URL, s.timeout)
	case err != nil:
		return nil, status.Errorf(codes.Unavailable, "ask %s for a decision: %v", s.URL, err)
	}
	d, err := read(text)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "%s answered without a decision: %v", s.URL, err)
	}
	return d, nil
}

// ask posts {"input": ACTION} and returns the body of the answer.
func (c client) ask(ctx context.Context, s *settings, a *permissionv1.Action) ([]byte, error) {
	if a == nil {
		a = &permissionv1.Action{}
	}
	// Every field is sent, the empty ones too: a rule on one that is absent would be undefined.
	action, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("write the action as JSON: %w", err)
	}
	input, err := json.Marshal(map[string]json.RawMessage{"input": action})
	if err != nil {
		return nil, fmt.Errorf("write the action as JSON: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(input))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer: %w", err)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it answers %s", resp.Status)
	case len(text) > maxAnswer:
		return nil, fmt.Errorf("its answer is larger than %d bytes", maxAnswer)
	}
	return text, nil
}

// read parses the answer strictly: a misspelt name in the policy must not count as its default.
func read(text []byte) (*permissionv1.DecideResponse, error) {
	var answer struct {
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, err
	}
	if len(answer.Result) == 0 || string(answer.Result) == "null" {
		return nil, errors.New("the policy leaves it undefined for this action")
	}
	var d decision
	decoder := json.NewDecoder(bytes.NewReader(answer.Result))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return nil, err
	}
	verdict, known := verdicts[d.Verdict]
	if !known {
		return nil, fmt.Errorf("its verdict is %q, not allow, deny or ask", d.Verdict)
	}
	unattended, known := verdicts[d.Unattended]
	if d.Unattended != "" && (!known || d.Unattended == "ask") {
		return nil, fmt.Errorf("unattended is %q, not allow or deny", d.Unattended)
	}
	return &permissionv1.DecideResponse{
		Verdict: verdict, Rule: d.Rule, Reason: d.Reason, Unattended: unattended,
		Grantable: d.Grantable && d.Verdict == "ask",
	}, nil
}
