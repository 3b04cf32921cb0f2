package policytool

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// CheckResult is a rule file with the findings of permd.
type CheckResult struct {
	File   *permissionv1.PolicyFile
	Answer *permissionv1.CheckResponse
}

// Check makes permd load a rule file, run its tests and search for mistakes.
func Check(ctx context.Context, service permissionv1.PolicyServiceClient, file *permissionv1.PolicyFile) (*CheckResult, error) {
	answer, err := service.Check(ctx, &permissionv1.CheckRequest{File: file})
	if err != nil {
		return nil, serverError("check "+file.GetName(), err)
	}
	return &CheckResult{File: file, Answer: answer}, nil
}

// LayerOf returns the layer of a rule file by its name: the workspace's, else the user's.
func LayerOf(name string) permissionv1.Layer {
	if clean := "/" + filepath.ToSlash(filepath.Clean(name)); strings.HasSuffix(clean, "/"+config.WorkspacePolicy) {
		return permissionv1.Layer_LAYER_WORKSPACE
	}
	return permissionv1.Layer_LAYER_USER
}

// OK reports whether the file loads. It may have warnings.
func (c *CheckResult) OK() bool { return c.errors() == 0 }

func (c *CheckResult) errors() (n int) {
	for _, f := range c.Answer.GetFindings() {
		if f.GetSeverity() != permissionv1.Severity_SEVERITY_WARNING {
			n++
		}
	}
	return n
}

// PrintFindings writes each finding as "FILE:LINE:COLUMN: SEVERITY: MESSAGE".
func (c *CheckResult) PrintFindings(w io.Writer, s Style) {
	for _, f := range c.Answer.GetFindings() {
		severity := "error"
		if f.GetSeverity() == permissionv1.Severity_SEVERITY_WARNING {
			severity = "warning"
		}
		place := c.File.GetName()
		if f.GetLine() > 0 {
			place += fmt.Sprintf(":%d:%d", f.GetLine(), max(f.GetColumn(), 1))
		}
		message := f.GetMessage()
		if rule := f.GetRule(); rule != "" && !strings.Contains(message, rule) {
			message = "rule " + rule + ": " + message
		}
		// A message may have several lines, such as a condition with a mark below it. Each line is escaped by itself.
		lines := strings.Split(message, "\n")
		for i := range lines {
			lines[i] = safetext.Exact(lines[i])
		}
		fmt.Fprintf(w, "%s: %s: %s\n", safetext.Exact(place), s.paint(colorOf(severity), severity), strings.Join(lines, "\n    "))
	}
}

// Print writes the findings, and then a summary of the file.
func (c *CheckResult) Print(w io.Writer, s Style) {
	c.PrintFindings(w, s)
	rules, tests := safetext.Count(int(c.Answer.GetRules()), "rule"), safetext.Count(int(c.Answer.GetTests()), "test")
	parts, verdict := []string{rules, tests}, s.paint(green, "ok")
	errs := c.errors()
	if errs > 0 {
		parts, verdict = []string{safetext.Count(errs, "error")}, s.paint(red, "does not load")
	}
	if warnings := len(c.Answer.GetFindings()) - errs; warnings > 0 {
		parts = append(parts, safetext.Count(warnings, "warning"))
	}
	fmt.Fprintf(w, "%s: %s, %s\n", safetext.Exact(c.File.GetName()), strings.Join(parts, ", "), verdict)
}

// JSON returns the findings as an object for JSON.
func (c *CheckResult) JSON() (any, error) {
	answer, err := fields(c.Answer)
	if err != nil {
		return nil, err
	}
	answer["file"] = c.File.GetName()
	return answer, nil
}
