package client

// ChildSessionUpdate is the kind of an OtherUpdate that tells an update of a child session: one that the agent opened by itself
// below the event's session, for a subagent. Its raw JSON has the child's id and the update. What a subagent says is told in this
// way; its tool calls, questions and calls to handlers are told as those of the session that it belongs to.
const ChildSessionUpdate = "child_session_update"
