package event

import (
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

// AppendClosed appends the notification frame.MethodSessionClosed. The reason is that of SessionClosed.
func AppendClosed(b []byte, session, reason string) []byte {
	params := jsonrpc.AppendString([]byte(`{"sessionId":`), session)
	params = jsonrpc.AppendString(append(params, `,"reason":`...), reason)
	return jsonrpc.AppendNotification(b, frame.MethodSessionClosed, append(params, '}'))
}

// AppendNotice appends a notification with a notice of acphost. The severity is one of ACP: "warning".
func AppendNotice(b []byte, session, severity, title, description string) []byte {
	params := jsonrpc.AppendString([]byte(`{"sessionId":`), session)
	params = jsonrpc.AppendString(append(params, `,"update":{"sessionUpdate":"notice","severity":`...), severity)
	params = jsonrpc.AppendString(append(params, `,"title":`...), title)
	params = jsonrpc.AppendString(append(params, `,"description":`...), description)
	return jsonrpc.AppendNotification(b, "session/update", append(params, "}}"...))
}
