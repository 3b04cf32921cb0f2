// Package sandbox is the room for decisions about what the processes of an agent do. The sandbox itself, which asks for
// these decisions, is the package internal/sandbox of the repository.
//
//   - containment: decides each action of a process
//   - egress: the proxy for network connections, and the names of machines
//   - kernel: facts about an agent's processes and files
package sandbox
