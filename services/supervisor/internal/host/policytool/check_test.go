package policytool_test

import (
	"bytes"
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/host/policytool"
)

const (
	severityError   = permissionv1.Severity_SEVERITY_ERROR
	severityWarning = permissionv1.Severity_SEVERITY_WARNING
)

func TestCheck_PrintsFindingsWithPlaces(t *testing.T) {
	for name, answer := range map[string]*permissionv1.CheckResponse{
		"check-ok":      {Rules: 12, Tests: 1, PolicyDigest: "sha256:00"},
		"check-warning": {Rules: 1240, Tests: 30, Findings: []*permissionv1.Finding{{Severity: severityWarning, Line: 7, Column: 3, Rule: "never", Message: "it can never win"}}},
		"check-errors": {Findings: []*permissionv1.Finding{
			{Severity: severityError, Line: 3, Column: 5, Message: "rules[0].effect: expected deny, ask or allow, got \"alow\""},
			{Severity: severityError, Line: 9, Column: 11, Rule: "inside", Message: "when: no such field \x1b[2J\naction.pth\n       ^"},
			{Severity: severityWarning, Message: "the file has no rules"},
			{Line: 12, Message: "without a severity"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := policytool.Check(t.Context(), serve(t, &fake{check: answer}), &permissionv1.PolicyFile{Name: "rules.yaml"})
			if err != nil {
				t.Fatal(err)
			}
			if c.OK() != (name != "check-errors") {
				t.Errorf("OK is %v", c.OK())
			}
			var out bytes.Buffer
			c.Print(&out, policytool.Style{})
			golden(t, name, out.String())
			found, err := c.JSON()
			golden(t, name+"-json", indented(t, []any{found}, err))
		})
	}
}

func TestCheck_ReturnsErrorOfPermd(t *testing.T) {
	_, err := policytool.Check(t.Context(), serve(t, &fake{}), &permissionv1.PolicyFile{Name: "rules.yaml"})
	if err == nil || err.Error() != "check rules.yaml: no rules here" {
		t.Errorf("error is %v", err)
	}
}

func TestLayer_WorkspaceFileByName(t *testing.T) {
	for name, want := range map[string]permissionv1.Layer{
		".acphost/policy.yaml":          permissionv1.Layer_LAYER_WORKSPACE,
		"/src/x/.acphost/./policy.yaml": permissionv1.Layer_LAYER_WORKSPACE,
		"x.acphost/policy.yaml":         permissionv1.Layer_LAYER_USER,
		"policy.yaml":                   permissionv1.Layer_LAYER_USER,
	} {
		if got := policytool.LayerOf(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

func TestReadyPolicies_ListAndFind(t *testing.T) {
	service := serve(t, &fake{ready: []*permissionv1.ReadyPolicy{
		{Name: "ask", Description: "Asks about\n  everything.", Content: []byte("version: 1\n")},
		{Name: "workspace", Description: "Everyday work in a repository: reading and editing inside it goes by itself, secrets stay closed, and all else is asked."},
	}})
	var out bytes.Buffer
	if err := policytool.PrintReady(t.Context(), service, &out, policytool.Style{Width: 60}); err != nil {
		t.Fatal(err)
	}
	golden(t, "ready", out.String())
	if got, err := policytool.ReadyPolicy(t.Context(), service, "ask"); err != nil || string(got) != "version: 1\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := policytool.ReadyPolicy(t.Context(), service, "asc"); err == nil || !strings.Contains(err.Error(), "there are: ask, workspace") {
		t.Errorf("error is %v, want the names that there are", err)
	}
	file, err := policytool.ReadPolicy(t.Context(), service, "ask", nil, permissionv1.Layer_LAYER_USER)
	if err != nil || string(file.GetContent()) != "version: 1\n" || file.GetName() != "ask" {
		t.Errorf("got %v, %v", file, err)
	}
	file, err = policytool.ReadPolicy(t.Context(), service, "-", strings.NewReader("x"), permissionv1.Layer_LAYER_USER)
	if err != nil || string(file.GetContent()) != "x" {
		t.Errorf("got %v, %v, want the content of standard input", file, err)
	}
}

func TestReadFile_RejectsOtherFiles(t *testing.T) {
	if _, err := policytool.ReadFile(t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := policytool.ReadFile("-", endless{}); err == nil || !strings.Contains(err.Error(), "is longer than") {
		t.Errorf("a stream without an end: %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
