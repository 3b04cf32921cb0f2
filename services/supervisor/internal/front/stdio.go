// Package front holds those who play an agent's client.
package front

import (
	"io"
	"os"
)

// Stdio is a front at the other end of two files: an editor that started this process, on its standard input and
// output.
type Stdio struct{ in, out *os.File }

// NewStdio returns the front that writes to in and reads from out.
func NewStdio(in, out *os.File) *Stdio { return &Stdio{in: in, out: out} }

// In gives the editor's messages.
func (s *Stdio) In() io.Reader { return s.in }

// Out takes messages for the editor.
func (s *Stdio) Out() io.Writer { return s.out }
