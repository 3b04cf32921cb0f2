// Package acpclient has the two clients that an agent can have: Stdio, an editor on standard input and output, and Program, which
// makes requests for code in this process and waits for the results.
//
// A link reads a client's messages from In and writes the agent's to Out. The package knows JSON-RPC, and which requests of an
// agent a Program leaves to others. It must not know handlers, policies, or who calls a Program.
package acpclient

import (
	"io"
	"os"
)

// Stdio is a client at the other end of two files: an editor that started this process, on its standard input and
// output.
type Stdio struct{ in, out *os.File }

// NewStdio returns the client that writes to in and reads from out.
func NewStdio(in, out *os.File) *Stdio { return &Stdio{in: in, out: out} }

// In gives the editor's messages.
func (s *Stdio) In() io.Reader { return s.in }

// Out takes messages for the editor.
func (s *Stdio) Out() io.Writer { return s.out }
