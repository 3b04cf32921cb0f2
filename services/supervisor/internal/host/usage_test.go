package host

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/policy/audit"
)

// recording is a host with a configuration, and a folder for what it records.
func recording(t *testing.T, yaml string) *host {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "acphost.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file, func(name string) string {
		return map[string]string{"XDG_STATE_HOME": filepath.Join(dir, "state"), "XDG_CONFIG_HOME": dir}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(Options{Config: cfg, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(h.closeJournal)
	return h
}

func today(day time.Time) *supervisorv1.GetUsageRequest {
	return &supervisorv1.GetUsageRequest{Days: []*timestamppb.Timestamp{timestamppb.New(day), timestamppb.New(day.Add(24 * time.Hour))}}
}

func TestUsage_SumsJournalAndAudit(t *testing.T) {
	h := recording(t, "agent: {name: one}\n")
	h.openJournal()
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	at := day.Add(time.Hour)
	pass := func(d frame.Direction, line string) {
		h.journal.Frame(frame.Frame{Direction: d, Time: at, Line: []byte(line + "\n")})
	}
	pass(frame.ClientToAgent, `{"id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`)
	pass(frame.AgentToClient, `{"id":1,"result":{"sessionId":"s"}}`)
	pass(frame.ClientToAgent, `{"id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}`)
	at = at.Add(time.Minute)
	pass(frame.AgentToClient, `{"id":2,"result":{"stopReason":"end_turn","usage":{"totalTokens":3,"inputTokens":1,"outputTokens":2}}}`)
	h.closeJournal()
	log, err := audit.Open(audit.Options{File: h.config.GetPermission().GetAudit().GetFile()})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if err := log.Write(&supervisorv1.AuditRecord{Time: timestamppb.New(at), Agent: "one", Verdict: "ask", Door: "request", LatencyMicros: 12, AskedMillis: 1000}); err != nil {
		t.Fatal(err)
	}
	out, err := h.GetUsage(t.Context(), today(day))
	if err != nil || len(out.GetRows()) != 1 {
		t.Fatalf("%v, %v", out, err)
	}
	r := out.GetRows()[0]
	if r.GetAgent() != "one" || r.GetTurns() != 1 || r.GetTurnTimes().GetSumMicros() != 60e6 || r.GetTokens().GetTotal() != 3 ||
		r.GetAsked() != 1 || r.GetPolicyTimes().GetSumMicros() != 12 || r.GetUserTimes().GetSumMicros() != 1e6 {
		t.Errorf("got %v", r)
	}
	if out, err := h.GetUsage(t.Context(), today(day.Add(24*time.Hour))); err != nil || len(out.GetRows()) != 0 {
		t.Errorf("of the next day: %v, %v", out, err)
	}
}

// What was read of the audit is not read again by later calls, of whatever days, many at once: if it were, a change
// would show.
func TestUsage_ReadsOnlyNewAuditRecords(t *testing.T) {
	h := recording(t, "{}")
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	file := h.config.GetPermission().GetAudit().GetFile()
	log, err := audit.Open(audit.Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	write := func(n int) {
		t.Helper()
		for i := range n {
			at := day.Add(time.Duration(i%48) * time.Hour)
			if err := log.Write(&supervisorv1.AuditRecord{Time: timestamppb.New(at), Agent: "one", Verdict: "allow", Door: "request", LatencyMicros: 12}); err != nil {
				t.Fatal(err)
			}
		}
	}
	wants := func(day time.Time, want uint64) {
		t.Helper()
		out, err := h.GetUsage(t.Context(), today(day))
		if err != nil || len(out.GetRows()) != 1 || out.GetRows()[0].GetAllowed() != want || out.GetRows()[0].GetPolicyTimes().GetSumMicros() != 12*want {
			t.Errorf("%s: %v (%v), want %d", day.Format(time.DateOnly), out, err, want)
		}
	}
	write(96)
	wants(day, 48)
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(strings.Replace(string(text), `"one"`, `"two"`, 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	wants(day, 48)
	wants(day.Add(24*time.Hour), 48)
	write(48)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { wants(day.Add(time.Duration(i%2)*24*time.Hour), 72) })
	}
	all.Wait()
}

func TestUsage_NamesSettingOfMissingRecords(t *testing.T) {
	for _, c := range []struct {
		yaml string
		want []string
	}{
		{"journal: {disabled: true}", []string{"journal.disabled", "permission.policy"}},
		{"journal: {content: false}", []string{"journal.content", "permission.policy"}},
		{"{}", []string{"permission.policy"}},
	} {
		h := recording(t, c.yaml)
		h.openJournal()
		out, err := h.GetUsage(t.Context(), today(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)))
		if err != nil {
			t.Errorf("%s: %v", c.yaml, err)
			continue
		}
		if len(out.GetNotRecorded()) != len(c.want) {
			t.Errorf("%s: %q", c.yaml, out.GetNotRecorded())
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(out.GetNotRecorded()[i], want) {
				t.Errorf("%s: %q does not name %s", c.yaml, out.GetNotRecorded()[i], want)
			}
		}
	}
	h := recording(t, "permission: {audit: {disabled: true}}")
	h.policyFiles = map[string]*policyFiles{"permission": nil}
	if why := strings.Join(h.notRecorded(), " "); !strings.Contains(why, "permission.audit.disabled") {
		t.Errorf("got %q", why)
	}
}

func TestUsage_EndsWithContext(t *testing.T) {
	h := recording(t, "{}")
	h.summing <- struct{}{} // another call is being answered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.GetUsage(ctx, today(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
