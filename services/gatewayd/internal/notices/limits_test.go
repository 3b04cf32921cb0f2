package notices

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// maxBody is the documented bound of a webhook's body, in bytes. It follows from the other limits.
const maxBody = 100 << 10

func TestLimitsPage_HasLimitsOfNotices(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "limits.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		fmt.Sprintf("| questions that a delivery lists | %d |", maxListed),
		fmt.Sprintf("| agent's description of a question, with `--notices-details` | %d characters |", maxDetails),
		fmt.Sprintf("| agent's id in a text | %d characters |", maxName),
		fmt.Sprintf("| session's id | %d bytes |", maxSession),
		fmt.Sprintf("| body of a delivery to a webhook | %d KiB |", maxBody>>10),
		fmt.Sprintf("| time between two deliveries | %g s |", minInterval.Seconds()),
		fmt.Sprintf("| time for a delivery, with its answer | %g s |", sendTimeout.Seconds()),
		fmt.Sprintf("| retries of a failed delivery | 1, after %g s |", backoff.Seconds()),
		fmt.Sprintf("| headers of an answer | %d KiB |", maxHeaders>>10),
		fmt.Sprintf("| body of an answer that is read | %d KiB |", maxAnswer>>10),
	} {
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/limits.md does not have the row %q", row)
		}
	}
}

func TestNotice_KeepsLimits(t *testing.T) {
	w := New(Options{Base: "https://acp.example", Details: true})
	entries := func(n int, a *supervisorv1.Approval) []*entry {
		all := make([]*entry, n)
		for i := range all {
			all[i] = w.entry(a)
		}
		return all
	}
	title := func(s string) *supervisorv1.Approval {
		return &supervisorv1.Approval{Id: "a/1", AgentId: "a", Permission: &supervisorv1.PermissionQuestion{Title: s}}
	}
	for _, more := range []int{-1, 0, 1} {
		t.Run(fmt.Sprintf("limit%+d", more), func(t *testing.T) {
			n := w.notice(entries(maxListed+more, title("x")))
			if len(n.Questions) != min(maxListed, maxListed+more) || n.Count != maxListed+more {
				t.Errorf("%d questions: %d are listed, and %d counted", maxListed+more, len(n.Questions), n.Count)
			}
			described := title(strings.Repeat("ü", maxDetails+more))
			if got := []rune(w.entry(described).Details); len(got) != min(maxDetails, maxDetails+more) {
				t.Errorf("description of %d characters has %d in the notice", maxDetails+more, len(got))
			}
			agent := &supervisorv1.Approval{Id: "a/1", AgentId: strings.Repeat("ü", maxName+more)}
			if got := []rune(w.entry(agent).AgentID); len(got) != min(maxName, maxName+more) {
				t.Errorf("agent's id of %d characters has %d in the notice", maxName+more, len(got))
			}
			session := &supervisorv1.Approval{Id: "a/1", AgentId: "a", SessionId: strings.Repeat("s", maxSession+more)}
			want, link := session.GetSessionId(), w.Base+"/console/#/session/a/"+session.GetSessionId()
			if more > 0 {
				want, link = "", w.inbox()
			}
			if got := w.entry(session); got.SessionID != want || got.Link != link {
				t.Errorf("session's id of %d bytes: %+v", maxSession+more, got.Question)
			}
		})
	}
	t.Run("body", func(t *testing.T) {
		address, requests := serve(t, nil)
		hook, err := NewWebhook(address, "")
		if err != nil {
			t.Fatal(err)
		}
		largest := title(strings.Repeat("<", maxDetails)) // six bytes each in JSON
		largest.AgentId, largest.SessionId = strings.Repeat("<", maxName), strings.Repeat("\x01", maxSession)
		if err := hook.Send(t.Context(), w.notice(entries(maxListed+1, largest))); err != nil {
			t.Fatal(err)
		}
		if r := <-requests; len(r.body) > maxBody || len(r.body) < maxBody/2 {
			t.Errorf("the largest body has %d bytes, want at most %d and not much less", len(r.body), maxBody)
		}
	})
}
