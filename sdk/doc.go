// Package sdk is all that a handler's author, a host of handlers, and a program that drives agents imports.
//
// A handler answers some of a coding agent's requests (files, terminals, permissions, or methods of its own) in a process
// of its own, over gRPC. To write one in Go: describe its service in a .proto with the option (acphost.acp.v1.method),
// implement it, and hand it to handler.Main. The packages, in the order in which they are met:
//
//   - handler: the author's side: Main, settings, logging, the life of a child and of a sidecar;
//   - handlertest and conformance: the contract as test cases;
//   - roots: where a call may go, for handlers of files and of terminals;
//   - programs and plaintext: what a handler of terminals needs to say what a command would run, and what a person would
//     read of its output;
//   - launch: the host's side: start a child or dial a sidecar.
//
// A program that drives agents through a running acphost imports client alone.
package sdk
