// Package sdk is all that a handler's author, and a host of handlers, imports.
//
// A handler answers some of a coding agent's requests (files, terminals, permissions, or methods of its own) in a process
// of its own, over gRPC. To write one in Go: describe its service in a .proto with the option (acphost.acp.v1.method),
// implement it, and hand it to handler.Main. The packages, in the order in which they are met:
//
//   - handler: the author's side: Main, settings, logging, the life of a child and of a sidecar;
//   - handlertest and conformance: the contract as test cases;
//   - launch: the host's side: start a child or dial a sidecar;
//   - shell, yamlproto, proc: what handlers and hosts share: command lines taken apart, YAML into messages, processes.
package sdk
