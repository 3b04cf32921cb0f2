// Package handlers is the room for the daemons that serve an agent's requests.
//
//   - route: the table of methods and their handlers, from the options of the contracts
//   - supervise: starts, checks and restarts handlers
//   - ownhandler: the locations of acphost's own daemons
package handlers
