package e2e

import (
	"path/filepath"
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// ExpectTourSession holds what is known of a session after a tour against what the agent said.
func (s *Server) ExpectTourSession(id string) {
	s.T.Helper()
	resp, err := s.State.GetSession(s.Ctx, &supervisorv1.GetSessionRequest{SessionId: id})
	if err != nil {
		s.T.Fatal(Explain(err))
	}
	got := resp.GetSession()
	t := s.T
	if got.GetMode() != "code" || got.GetTitle() != "" || got.GetTurns() != 1 || got.GetTurnActive() || got.GetLastStopReason() != "end_turn" || got.GetIncomplete() || got.GetCursor() == "" {
		t.Errorf("the session is %v", got)
	}
	if len(got.GetPlan()) != 3 || len(got.GetCommands()) != 2 || got.GetUsage().GetSize() != 200000 || len(got.GetPendingRequests()) != 0 {
		t.Errorf("the session has the plan %v, the commands %v, the usage %v and the requests %v", got.GetPlan(), got.GetCommands(), got.GetUsage(), got.GetPendingRequests())
	}
	if k := got.GetToolKinds(); k["read"] != 1 || k["edit"] != 1 || k["execute"] != 1 || k["other"] != 1 || len(k) != 4 || got.GetTools()["Read"] != 1 {
		t.Errorf("tool calls are counted %v and %v", k, got.GetTools())
	}
	byID := map[string]*supervisorv1.ToolCall{}
	for _, c := range got.GetToolCalls() {
		byID[c.GetToolCallId()] = c
	}
	if c := byID["call-read"]; c.GetTitle() != "Read tour.txt, all of it" || c.GetName() != "Read" || c.GetStatus() != "completed" || len(c.GetContent()) != 2 || !strings.Contains(c.GetRawOutput(), "two") || c.GetLocations()[0].GetLine() != 2 {
		t.Errorf("the tool call call-read is %v", c)
	}
	if c := byID["call-edit"]; c.GetStatus() != "failed" || len(c.GetContent()) != 2 || c.GetTitle() != "Edit tour.txt" {
		t.Errorf("the tool call call-edit is %v", c)
	}
	if c := byID["call-run"]; c.GetStatus() != "completed" || len(c.GetContent()) != 0 || !strings.Contains(c.GetRawInput(), "echo out") {
		t.Errorf("the tool call call-run is %v", c)
	}
	found := false
	for _, f := range got.GetFiles() {
		if filepath.Base(f.GetPath()) == "tour.txt" {
			found = f.GetReads() == 1 && f.GetWrites() == 1 && f.GetReported() > 0
		}
	}
	if !found {
		t.Errorf("the files that were touched are %v", got.GetFiles())
	}
}
