// Package sdk contains the packages for authors of handlers, for hosts of handlers, and for programs that control
// agents.
//
// A handler answers some of a coding agent's requests (files, terminals, permissions, or extension methods) in a
// separate process, over gRPC. To write a handler in Go: describe its service in a .proto with the option
// (acphost.acp.v1.method), implement it, and pass it to handler.Main. The packages, in the order in which an author
// needs them:
//
//   - handler: for authors: Main, settings, logging, and the lifecycle of a child and of a sidecar;
//   - handlertest and conformance: the contract as test cases;
//   - roots: checks of paths, for handlers of files and of terminals;
//   - programs and plaintext: for handlers of terminals: the programs that a command would run, and the text that a
//     person would read in its output;
//   - launch: for hosts: start a child or connect to a sidecar.
//
// A program that controls agents through a running acphost imports only client.
package sdk
