package event

import (
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// codeAuthRequired is ACP's error for a client that must log in first.
const codeAuthRequired = -32000

// Limits of an error's parts.
const (
	maxWords    = 2 << 10  // bytes of an agent's message
	maxData     = 64 << 10 // bytes of an error's data
	maxTail     = 20       // lines of standard error
	maxTailLine = 500      // bytes of such a line
)

// ErrorOf interprets a JSON-RPC error in the answer to a request with the given method; "": an unknown session/*
// method. ours: acphost itself answers, for an agent that has ended. Only then is the cause of the end in it trusted.
func ErrorOf(method string, jsonError []byte, ours bool) *supervisorv1.AgentError {
	code, words := errorWords(jsonError)
	e := &supervisorv1.AgentError{Kind: supervisorv1.ErrorKind_ERROR_KIND_AGENT_ERROR, Code: code}
	data := acp.Get(jsonError, "data")
	if ours {
		if e.Kind = goneKind(jsonError); e.GetKind() != supervisorv1.ErrorKind_ERROR_KIND_UNSPECIFIED {
			e.Code = 0 // the error is not the agent's
			ended(e, acp.Get(data, "acphost"))
			e.Message = describeError(method, "", words)
			return e
		}
		e.Kind = supervisorv1.ErrorKind_ERROR_KIND_AGENT_ERROR
	}
	if len(data) > 0 && len(data) <= maxData {
		e.Data = rawValue(data)
	}
	subject := "the agent answered with an error"
	switch {
	case code == codeAuthRequired:
		e.Kind = supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED
		subject = "the agent requires a login first"
	case code == jsonrpc.CodeResourceNotFound && aboutSession(method, words):
		e.Kind = supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND
		subject = "the agent does not know the session"
	case code == jsonrpc.CodeMethodNotFound:
		e.Kind = supervisorv1.ErrorKind_ERROR_KIND_NOT_SUPPORTED
		subject = "the agent does not offer it"
	}
	if ours {
		subject = ""
	}
	e.Message = describeError(method, subject, words) + NextStep(words)
	return e
}

// refusesRoot is the message of Claude Code when root starts it in a mode without permission requests. It then exits.
const refusesRoot = "cannot be used with root/sudo privileges"

// NextStep returns advice for a known error message of an agent, "; …"; empty if none exists.
func NextStep(message string) string {
	if strings.Contains(message, refusesRoot) {
		return "; run acphost as a user other than root, or name one that the agent runs as (agent.user)"
	}
	return ""
}

// Words returns an agent's message in a JSON-RPC error object, shortened. The caller must remove control characters.
func Words(jsonError []byte) string {
	_, words := errorWords(jsonError)
	return words
}

// aboutSession reports whether "not found" in an agent's error refers to the session. Requests in a session can also
// fail to find other things, such as a file.
func aboutSession(method, words string) bool {
	switch method {
	case "", acp.MethodSessionLoad, acp.MethodSessionResume, acp.MethodSessionFork, acp.MethodSessionClose, acp.MethodSessionDelete:
		return true
	}
	return strings.HasPrefix(method, "session/") && strings.Contains(strings.ToLower(words), "session")
}

// describeError combines the attempted operation, the failure, and the peer's message.
func describeError(method, subject, words string) string {
	var parts []string
	for _, p := range []string{method, subject, words} {
		if p != "" && !(p == method && strings.HasPrefix(words, method)) {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, ": ")
}

// errorWords returns an error's code, and its message, shortened. Agents often put the important text into data: a
// string there, or the first member with a known name, is added.
func errorWords(fault []byte) (code int32, words string) {
	n, _ := acp.Int(acp.Get(fault, "code"), 32)
	words = strings.TrimSpace(textOf(acp.Get(fault, "message")))
	data := acp.Get(fault, "data")
	if len(data) > maxData && data[0] == '{' {
		data = nil // it would be decoded once for each name
	}
	for _, path := range [][]string{{}, {"details"}, {"message"}, {"detail"}, {"error"}, {"error", "message"}, {"reason"}, {"description"}} {
		more := strings.TrimSpace(textOf(acp.Get(data, path...)))
		if more != "" && !strings.Contains(words, more) {
			words = strings.TrimPrefix(words+": "+more, ": ")
			break
		}
	}
	return int32(n), safetext.Cut(words, maxWords)
}

// goneKind returns how an agent ended, from acphost's message; unspecified if the message does not contain it.
func goneKind(fault []byte) supervisorv1.ErrorKind {
	return map[string]supervisorv1.ErrorKind{
		"crashed": supervisorv1.ErrorKind_ERROR_KIND_CRASHED,
		"stopped": supervisorv1.ErrorKind_ERROR_KIND_STOPPED,
	}[textOf(acp.Get(fault, "data", "acphost", "kind"))]
}

// ended decodes how an agent ended.
func ended(e *supervisorv1.AgentError, v []byte) {
	read(v,
		"exitCode", func(v []byte) {
			if n, ok := acp.Int(v, 32); ok {
				code := int32(n)
				e.ExitCode = &code
			}
		},
		"signal", func(v []byte) { e.Signal = safetext.Cut(textOf(v), maxTailLine) },
		"stderrTail", func(v []byte) {
			tail := texts(v)
			for _, line := range tail[max(0, len(tail)-maxTail):] {
				e.StderrTail = append(e.StderrTail, safetext.Cut(line, maxTailLine))
			}
		})
}
