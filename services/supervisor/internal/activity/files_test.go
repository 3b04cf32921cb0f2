package activity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
)

func TestFilesAreWatched(t *testing.T) {
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
		told := make(chan string, 1000)
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
				told <- strings.Join(out, ",")
				return nil
			})
		}()
		expect := func(want string) {
			t.Helper()
			if got := <-told; got != want {
				t.Errorf("told %q, want %q", got, want)
			}
		}
		expect("")
		read := supervisorv1.FileAction_FILE_ACTION_READ
		event(&supervisorv1.Event{Touches: []*supervisorv1.FileTouch{{Path: "/w/a", Action: read}}})
		expect("/w/a 1.00")
		event(&supervisorv1.Event{Touches: []*supervisorv1.FileTouch{{Path: "/w/b", Action: supervisorv1.FileAction_FILE_ACTION_BLOCKED}}})
		expect("/w/b 1.00")
		for heat := 0.95; heat > 0.01; heat *= 0.95 {
			expect(fmt.Sprintf("/w/b %.2f", heat))
		}
		expect("-/w/b")
		synctest.Wait()
		if len(told) > 0 {
			t.Errorf("told more: %q", <-told)
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
