// Package policy is the room for decisions about actions of agents.
//
//   - intent: the action that a request, a call or a process asks for; dialect: how agents name their tools
//   - gate: decides an action by rules, earlier answers and the policy handler
//   - grant: permanent answers; audit: the record of decisions
//   - secret: removes secrets from records; leaveout: excludes denied files from commands that search
package policy
