// Package tui is the room for interfaces of people on a terminal, and for exports.
//
//   - chat: the interactive client
//   - render: messages, questions and tool calls as terminal text
//   - transcript: a session as Markdown or HTML
//   - jobcontrol: the shell's job control for a program that changes its terminal's settings
package tui
