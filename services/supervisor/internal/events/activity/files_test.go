package activity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/events/heat"
)

// The changes that a watcher receives add up to the current state, for any order of events and any number of evicted
// files.
func TestFiles_ChangesAddUp(t *testing.T) {
	h := New(Options{Instance: "i"})
	defer h.Close()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h.fold.Now = func() time.Time { return now }
	h.Observer(&frame.Agent{ID: "a"})
	publish := func(e *supervisorv1.Event) {
		e.AgentId, e.SessionId, e.Time = "a", "s", timestamppb.New(now)
		h.Publish(e)
	}
	random := rand.New(rand.NewPCG(1, 2))
	sent, known := sentFiles{sessions: map[sessionKey]*sentSession{}}, map[string]*supervisorv1.TouchedFile{}
	next := 0
	for round := range 430 {
		if round == 400 { // more than are kept
			for range heat.MaxFiles / 1000 {
				var many []*supervisorv1.FileTouch
				for range 1000 {
					next++
					many = append(many, &supervisorv1.FileTouch{Path: fmt.Sprint("/w/many/", next), Action: supervisorv1.FileAction_FILE_ACTION_READ})
				}
				publish(&supervisorv1.Event{Touches: many})
			}
		}
		for range random.IntN(4) {
			switch what := random.IntN(12); what {
			case 0:
				publish(&supervisorv1.Event{Event: &supervisorv1.Event_TurnStarted{TurnStarted: &supervisorv1.TurnStarted{}}})
			case 1:
				publish(&supervisorv1.Event{Event: &supervisorv1.Event_TurnEnded{TurnEnded: &supervisorv1.TurnEnded{}}})
			case 2:
				publish(&supervisorv1.Event{Event: &supervisorv1.Event_SessionClosed{SessionClosed: &supervisorv1.SessionClosed{}}})
			default:
				action := supervisorv1.FileAction_FILE_ACTION_READ
				if what < 6 {
					action = supervisorv1.FileAction_FILE_ACTION_BLOCKED
				}
				publish(&supervisorv1.Event{Touches: []*supervisorv1.FileTouch{{Path: fmt.Sprint("/w/", random.IntN(30)), Action: action}}})
			}
		}
		if err := h.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Duration(random.IntN(1500)) * time.Millisecond)
		r, _ := sent.difference(h, &supervisorv1.WatchFilesRequest{})
		for _, s := range r.GetSessions() {
			for _, path := range s.GetRemoved() {
				if known[path] == nil {
					t.Fatalf("round %d: %s is removed, and was not there", round, path)
				}
				delete(known, path)
			}
			for _, file := range s.GetFiles() {
				known[file.GetPath()] = file
			}
		}
		there := 0
		for _, s := range h.files("", "") {
			for _, file := range s.GetFiles() {
				there++
				is := known[file.GetPath()]
				if is == nil || is.GetInContext() != file.GetInContext() || is.GetAction() != file.GetAction() || math.Abs(is.GetHeat()-file.GetHeat()) > 0.01 {
					t.Fatalf("round %d: told %v, want %v", round, is, file)
				}
			}
		}
		if there != len(known) {
			t.Fatalf("round %d: told %d files, want %d", round, len(known), there)
		}
	}
}

func TestFiles_WatchListsAndReportsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{Instance: "i"})
		defer h.Close()
		event := func(e *supervisorv1.Event) {
			e.AgentId, e.SessionId = "a", "s"
			h.Publish(e)
		}
		h.Observer(&frame.Agent{ID: "a"})
		event(&supervisorv1.Event{Event: &supervisorv1.Event_SessionOpened{SessionOpened: &supervisorv1.SessionOpened{Roots: []string{"/w"}}}})
		ctx, cancel := context.WithCancel(t.Context())
		received := make(chan string, 1000)
		ended := make(chan error, 1)
		go func() {
			ended <- h.WatchFiles(ctx, &supervisorv1.WatchFilesRequest{}, func(r *supervisorv1.WatchFilesResponse) error {
				var out []string
				for _, s := range r.GetSessions() {
					for _, file := range s.GetFiles() {
						out = append(out, fmt.Sprintf("%s %.2f", file.GetPath(), file.GetHeat()))
					}
					for _, path := range s.GetRemoved() {
						out = append(out, "-"+path)
					}
				}
				received <- strings.Join(out, ",")
				return nil
			})
		}()
		expect := func(want string) {
			t.Helper()
			if got := <-received; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		expect("")
		read := supervisorv1.FileAction_FILE_ACTION_READ
		event(&supervisorv1.Event{Touches: []*supervisorv1.FileTouch{{Path: "/w/a", Action: read}}})
		expect("/w/a 1.00")
		event(&supervisorv1.Event{Touches: []*supervisorv1.FileTouch{{Path: "/w/b", Action: supervisorv1.FileAction_FILE_ACTION_BLOCKED}}})
		expect("/w/b 1.00")
		last := "/w/b 1.00"
		for hot := 0.95; hot > 0.01; hot *= 0.95 {
			if now := fmt.Sprintf("/w/b %.2f", hot); now != last { // less than a hundredth is not reported
				expect(now)
				last = now
			}
		}
		expect("-/w/b")
		synctest.Wait()
		if len(received) > 0 {
			t.Errorf("received more: %q", <-received)
		}
		list, err := h.ListFiles(ctx, &supervisorv1.ListFilesRequest{AgentId: "a", SessionId: "s"})
		if err != nil || len(list.GetSessions()) != 1 || len(list.GetSessions()[0].GetFiles()) != 1 || list.GetSessions()[0].GetRoots()[0] != "/w" {
			t.Errorf("listed %v, %v", list, err)
		}
		if list, _ := h.ListFiles(ctx, &supervisorv1.ListFilesRequest{SessionId: "other"}); len(list.GetSessions()) != 0 {
			t.Errorf("another session has %v", list)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the watch ended with %v", err)
		}
	})
}
