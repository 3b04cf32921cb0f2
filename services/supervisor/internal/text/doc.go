// Package text is the room for text of agents: markdown parses it, safetext makes it safe for a terminal.
package text
