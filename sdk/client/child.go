package client

// ChildSessionUpdate is the kind of an OtherUpdate that reports an update of a child session: a session that the agent
// opened below the event's session, for a subagent. Its raw JSON contains the child's id and the update. The messages
// of a subagent are reported in this way; its tool calls, questions and calls to handlers are reported as those of the
// parent session.
const ChildSessionUpdate = "child_session_update"
