package client_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
)

func TestFoldToolCall_MergesReports(t *testing.T) {
	c := &supervisorv1.ToolCall{ToolCallId: "1"}
	for _, r := range []*supervisorv1.ToolCallReport{
		{Title: proto.String("Edit"), Kind: proto.String("edit"), Name: proto.String("edit_file"), RawInput: `{"path":"a"}`},
		{Status: proto.String("in_progress"), LocationsSet: true, Locations: []*supervisorv1.Location{{Path: "/a"}}},
		{Name: proto.String(""), RawInput: "{ }", Title: proto.String("")},
		{Status: proto.String("completed"), LocationsSet: true, RawOutput: `"ok"`},
	} {
		client.FoldToolCall(c, r)
	}
	want := &supervisorv1.ToolCall{
		ToolCallId: "1", Kind: "edit", Name: "edit_file", Status: "completed", RawInput: `{"path":"a"}`, RawOutput: `"ok"`,
	}
	if !proto.Equal(c, want) {
		t.Errorf("the tool call is %v, want %v", c, want)
	}
	if client.Restarts(c, false) || !client.Restarts(c, true) || client.Restarts(&supervisorv1.ToolCall{Status: "pending"}, true) {
		t.Error("a tool call restarts if it has ended and is announced, and only then")
	}
}

func TestLatestUsage_KeepsCost(t *testing.T) {
	before := &supervisorv1.ContextUsage{Used: 1, Cost: proto.Float64(2), Currency: "USD"}
	if got := client.LatestUsage(before, &supervisorv1.ContextUsage{Used: 5}); got.GetUsed() != 5 || got.GetCost() != 2 || got.GetCurrency() != "USD" {
		t.Errorf("without a cost: %v", got)
	}
	if got := client.LatestUsage(before, &supervisorv1.ContextUsage{Used: 5, Cost: proto.Float64(3)}); got.GetCost() != 3 {
		t.Errorf("with another cost: %v", got)
	}
}

func TestHandle_OmitsSecret(t *testing.T) {
	for id, want := range map[string]string{
		"claude-1/7.ABCDEFGHIJKLMNOPQRSTUVWXYZ": "claude-1/7",
		"claude-1/7":                            "claude-1/7",
		"claude-1/a.b":                          "claude-1/a.b",
		"claude-1/7.abcdefghijklmnopqrstuvwxyz": "claude-1/7.abcdefghijklmnopqrstuvwxyz",
	} {
		if got := client.Handle(id); got != want {
			t.Errorf("the handle of %s is %s, want %s", id, got, want)
		}
	}
}
