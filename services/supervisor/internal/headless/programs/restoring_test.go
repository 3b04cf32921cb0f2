package programs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/activity"
)

// choosy is an agent with a session s1 whose settings begin anew with each process.
type choosy struct {
	byOption bool            // mode and model are options
	silent   bool            // the answer that resumes a session omits its settings
	own      map[string]part // of a process that was started again, in the place of what it does

	mu    sync.Mutex
	calls []string // what changed settings since the latest start, and prompts
	now   picked
}

type picked struct{ mode, model, effort, brave string }

func begun() picked { return picked{"auto", "small", `"low"`, "false"} }

func (c *choosy) settings() string {
	effort := `{"id":"effort","name":"Effort","type":"select","currentValue":` + c.now.effort + `,"options":[{"value":"low","name":"L"},{"value":"high","name":"H"}]}`
	brave := `{"id":"brave","name":"Brave","type":"boolean","currentValue":` + c.now.brave + `}`
	if !c.byOption {
		return fmt.Sprintf(`"modes":{"currentModeId":%q,"availableModes":[{"id":"auto","name":"A"},{"id":"read-only","name":"R"}]},`+
			`"models":{"currentModelId":%q,"availableModels":[{"modelId":"small","name":"S"},{"modelId":"large","name":"L"}]},"configOptions":[%s,%s]`,
			c.now.mode, c.now.model, effort, brave)
	}
	return fmt.Sprintf(`"configOptions":[{"id":"m","name":"M","category":"mode","type":"select","currentValue":%q,"options":[{"value":"auto","name":"A"},{"value":"read-only","name":"R"}]},`+
		`{"id":"l","name":"L","category":"model","type":"select","currentValue":%q,"options":[{"value":"small","name":"S"},{"value":"large","name":"L"}]},%s,%s]`,
		c.now.mode, c.now.model, effort, brave)
}

// cast begins anew.
func (c *choosy) cast(n int, _ Spec) (map[string]part, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.calls = begun(), nil
	set := func(f func(p map[string]any) string) part {
		return func(a *scripted, m message) {
			var p map[string]any
			if err := json.Unmarshal(m.Params, &p); err != nil {
				panic(err)
			}
			c.mu.Lock()
			c.calls = append(c.calls, f(p))
			answer := `{}`
			if m.Method == methodSetConfigOption {
				answer = `{` + c.settings() + `}`
			}
			c.mu.Unlock()
			a.answer(m, answer)
		}
	}
	opens := func(id string) part {
		return func(a *scripted, m message) {
			c.mu.Lock()
			answer := `{` + id + c.settings() + `}`
			if c.silent && id == "" {
				answer = `{}`
			}
			c.mu.Unlock()
			a.answer(m, answer)
		}
	}
	parts := map[string]part{
		"session/new":      opens(`"sessionId":"s1",`),
		"session/resume":   opens(""),
		"session/set_mode": set(func(p map[string]any) string { c.now.mode = p["modeId"].(string); return "mode " + c.now.mode }),
		methodSetModel:     set(func(p map[string]any) string { c.now.model = p["modelId"].(string); return "model " + c.now.model }),
		methodSetConfigOption: set(func(p map[string]any) string {
			switch v := p["value"]; p["configId"] {
			case "m":
				c.now.mode = v.(string)
			case "l":
				c.now.model = v.(string)
			case "effort":
				c.now.effort = fmt.Sprintf("%q", v)
			case "brave":
				c.now.brave = fmt.Sprint(v)
			}
			return fmt.Sprint(p["configId"], " ", p["value"])
		}),
		"session/prompt": func(a *scripted, m message) {
			c.mu.Lock()
			c.calls = append(c.calls, "prompt")
			c.mu.Unlock()
			a.answer(m, `{"stopReason":"end_turn"}`)
		},
	}
	if n > 1 {
		maps.Copy(parts, c.own)
	}
	return parts, nil
}

func (c *choosy) is() (picked, []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, slices.Clone(c.calls)
}

// reset has the agent change its mind.
func (c *choosy) reset(f func(*picked)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.now)
}

// chosen is a rig with a choosy agent whose session is in mode read-only with the large model, brave.
func (c *choosy) chosen(t *testing.T) (*rig, *scripted) {
	t.Helper()
	r := newRig(t, nil)
	r.cast = c.cast
	_, a := r.start(func(q *supervisorv1.StartAgentRequest) { q.Attended = true })
	r.open("bot")
	r.chooses(t)
	return r, a
}

func (r *rig) chooses(t *testing.T) {
	t.Helper()
	_, model := r.SetModel(t.Context(), &supervisorv1.SetModelRequest{SessionId: "s1", ModelId: "large"})
	_, brave := r.SetConfigOption(t.Context(), &supervisorv1.SetConfigOptionRequest{
		SessionId: "s1", ConfigId: "brave", To: &supervisorv1.SetConfigOptionRequest_Enabled{Enabled: true},
	})
	_, mode := r.SetMode(t.Context(), &supervisorv1.SetModeRequest{SessionId: "s1", ModeId: "read-only"})
	for _, err := range []error{model, brave, mode} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// shows checks what is known of the session.
func (r *rig) shows(t *testing.T, mode, model, brave string) {
	t.Helper()
	s, err := r.session("bot", "s1")
	if err != nil {
		t.Fatal(err)
	}
	shown := r.show(t.Context(), s)
	got := []string{shown.GetMode(), shown.GetModel(), ""}
	for _, o := range shown.GetOptions() {
		if o.GetId() == "brave" {
			got[2] = valueOf(o)
		}
	}
	if want := []string{mode, model, brave}; !slices.Equal(got, want) {
		t.Errorf("the session is shown with %q, want %q", got, want)
	}
}

// again has the agent started again.
func (r *rig) again(t *testing.T) *supervisorv1.Agent {
	t.Helper()
	ag, err := r.RestartAgent(t.Context(), "bot")
	if err != nil {
		t.Fatal(err)
	}
	return ag
}

// await waits for a required event.
func await(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal("it never arrived")
	}
}

// notices are those of a session so far.
func notices(t *testing.T, r *rig, sub *activity.Subscription) []*supervisorv1.Notice {
	t.Helper()
	r.syncHub(t.Context())
	sub.Close()
	var all []*supervisorv1.Notice
	for {
		e, err := sub.Next(t.Context())
		if err != nil {
			return all
		}
		if n := e.GetNotice(); n != nil {
			all = append(all, n)
		}
	}
}

func TestRestore_SetsModeModelAndOptions(t *testing.T) {
	for name, tt := range map[string]struct {
		agent *choosy
		want  []string
	}{
		"by methods":                      {&choosy{}, []string{"model large", "brave true", "mode read-only"}},
		"by options":                      {&choosy{byOption: true}, []string{"l large", "brave true", "m read-only"}},
		"by methods, of a silent agent":   {&choosy{silent: true}, []string{"model large", "effort low", "brave true", "mode read-only"}},
		"by options, of a silent agent":   {&choosy{byOption: true, silent: true}, []string{"l large", "brave true", "m read-only"}},
		"by methods, after its own crash": {&choosy{}, []string{"model large", "brave true", "mode read-only"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := tt.agent
			r, a := c.chosen(t)
			sub := r.hub.Subscribe("bot-1", "s1")
			defer sub.Close()
			if strings.Contains(name, "crash") {
				a.crash()
				r.until("bot", running, 1)
			} else {
				r.again(t)
			}
			now, calls := c.is()
			if want := (picked{"read-only", "large", `"low"`, "true"}); now != want || !slices.Equal(calls, tt.want) {
				t.Errorf("the agent is %v after %q, want %v after %q", now, calls, want, tt.want)
			}
			r.shows(t, "read-only", "large", "on")
			if events, err := r.prompt("s1", "hi"); err != nil || events[len(events)-1] != "ended end_turn" {
				t.Errorf("got %q, %v", events, err)
			}
			if all := notices(t, r, sub); len(all) != 0 {
				t.Errorf("it receives %v", all)
			}
		})
	}
}

func TestRestore_SkipsUnchangedSettings(t *testing.T) {
	c := &choosy{}
	r := newRig(t, nil)
	r.cast = c.cast
	r.start()
	r.open("bot")
	r.again(t)
	if _, calls := c.is(); len(calls) != 0 {
		t.Errorf("the agent was asked for %q", calls)
	}
}

func TestRestore_IncludesChangesOfAgent(t *testing.T) {
	for name, tt := range map[string]struct {
		byOption bool
		update   string
	}{
		"mode":    {false, `{"sessionUpdate":"current_mode_update","currentModeId":"read-only"}`},
		"options": {true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := &choosy{byOption: tt.byOption}
			r := newRig(t, nil)
			r.cast = c.cast
			_, a := r.start()
			r.open("bot")
			if tt.update == "" {
				c.reset(func(p *picked) { p.mode = "read-only" })
				tt.update = `{"sessionUpdate":"config_option_update",` + c.settings() + `}`
			}
			a.update("s1", tt.update)
			a.crash()
			r.until("bot", running, 1)
			if now, _ := c.is(); now.mode != "read-only" {
				t.Errorf("the agent is in mode %q", now.mode)
			}
		})
	}
}

func TestRestore_IgnoresFirstUpdatesOfNewProcess(t *testing.T) {
	c := &choosy{own: map[string]part{"initialize": func(a *scripted, m message) {
		a.update("s1", `{"sessionUpdate":"current_mode_update","currentModeId":"auto"}`)
		a.answer(m, everything)
	}}}
	r, a := c.chosen(t)
	a.crash()
	r.until("bot", running, 1)
	if now, _ := c.is(); now.mode != "read-only" {
		t.Errorf("the agent is in mode %q", now.mode)
	}
}

func TestRestore_PromptWaitsForMode(t *testing.T) {
	asked, goOn := make(chan struct{}), make(chan struct{})
	c := &choosy{}
	c.own = map[string]part{"session/set_mode": func(a *scripted, m message) {
		close(asked)
		<-goOn
		c.reset(func(p *picked) { p.mode = "read-only" })
		a.answer(m, `{}`)
	}}
	r, a := c.chosen(t)
	a.crash()
	await(t, asked)
	_, err := r.prompt("s1", "too early")
	wantFault(t, err, fault.Precondition, crashedKind, "is not running")
	close(goOn)
	r.until("bot", running, 1)
	if _, err := r.prompt("s1", "hi"); err != nil {
		t.Error(err)
	}
	if now, calls := c.is(); now.mode != "read-only" || !slices.Equal(calls, []string{"model large", "brave true", "prompt"}) {
		t.Errorf("in mode %q the agent was asked for %q", now.mode, calls)
	}
}

func TestRestore_RepeatsSettingsResetByMode(t *testing.T) {
	for name, stubborn := range map[string]bool{"once": false, "always": true} {
		t.Run(name, func(t *testing.T) {
			c := &choosy{byOption: true}
			times := 0
			var set part
			c.own = map[string]part{methodSetConfigOption: func(a *scripted, m message) {
				if strings.Contains(string(m.Params), `"read-only"`) {
					if times++; times == 1 || stubborn {
						c.reset(func(p *picked) { p.model = "small" })
					}
				} else if strings.Contains(string(m.Params), `"large"`) {
					c.reset(func(p *picked) { p.mode = "auto" })
				}
				set(a, m)
			}}
			r, a := c.chosen(t)
			first := a.parts[methodSetConfigOption]
			set = func(a *scripted, m message) { first(a, m) }
			sub := r.hub.Subscribe("bot-1", "s1")
			defer sub.Close()
			r.again(t)
			now, calls := c.is()
			if want := []string{"l large", "brave true", "m read-only", "l large", "m read-only"}; !slices.Equal(calls, want) || now.mode != "read-only" {
				t.Errorf("the agent is in mode %q after %q, want %q", now.mode, calls, want)
			}
			if _, err := r.prompt("s1", "hi"); err != nil {
				t.Error(err)
			}
			all := notices(t, r, sub)
			if !stubborn {
				if now.model != "large" || len(all) != 0 {
					t.Errorf("with model %q it receives %v", now.model, all)
				}
				return
			}
			if len(all) != 1 || all[0].GetSeverity() != "warning" || !strings.Contains(all[0].GetDescription(), `its model was "large" and is "small" now (the agent accepted it, and then reported another value)`) {
				t.Errorf("it receives %v", all)
			}
		})
	}
}

func TestRestore_FailedModeBlocksPrompts(t *testing.T) {
	refused := refuse(-32603, "not today")
	for name, tt := range map[string]struct {
		byOption bool
		own      map[string]part
		why      string
	}{
		"refused": {false, map[string]part{"session/set_mode": refused}, "not today"},
		"refused for once, as an option": {true, map[string]part{methodSetConfigOption: func(a *scripted, m message) {
			refused(a, m)
		}}, "not today"},
		"gone": {false, map[string]part{"session/resume": answer(`{"modes":{"currentModeId":"auto","availableModes":[{"id":"auto","name":"A"},{"id":"yolo","name":"Y"}]}}`)},
			`there is no mode "read-only": there are auto, yolo`},
		"ignored": {false, map[string]part{"session/set_mode": func(a *scripted, m message) {
			a.answer(m, `{}`)
		}, "session/resume": answer(`{"modes":{"currentModeId":"auto","availableModes":[]}}`)}, "does not offer modes"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &choosy{byOption: tt.byOption, own: tt.own}
			r, _ := c.chosen(t)
			sub := r.hub.Subscribe("bot-1", "s1")
			defer sub.Close()
			ag := r.again(t)
			if !slices.Equal(ag.GetSessionIds(), []string{"s1"}) {
				t.Fatalf("open are %q", ag.GetSessionIds())
			}
			for range 2 {
				_, err := r.prompt("s1", "hi")
				wantFault(t, err, fault.Precondition, noKind, "takes no prompt", `its mode was "read-only" and is "auto" now`, tt.why, "set its mode")
			}
			all := notices(t, r, sub)
			if len(all) != 1 || all[0].GetSeverity() != "error" || all[0].GetTitle() != "The session's mode could not be restored" {
				t.Fatalf("it receives %v", all)
			}
			for _, part := range []string{`"bot-1"`, `"s1"`, `"read-only"`, `"auto"`, tt.why, "takes no prompt"} {
				if !strings.Contains(all[0].GetDescription(), part) {
					t.Errorf("the notice is %q, and not %q", all[0].GetDescription(), part)
				}
			}

			// When the agent starts again after the cause was removed, the session has the requested mode.
			c.mu.Lock()
			c.own = nil
			c.mu.Unlock()
			r.again(t)
			if now, _ := c.is(); now.mode != "read-only" {
				t.Errorf("started once more the agent is in mode %q", now.mode)
			}
			if _, err := r.prompt("s1", "hi"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRestore_SetModeUnblocksPrompts(t *testing.T) {
	for name, set := range map[string]func(r *rig, t *testing.T) error{
		"by its method": func(r *rig, t *testing.T) error {
			return second(r.SetMode(t.Context(), &supervisorv1.SetModeRequest{SessionId: "s1", ModeId: "auto"}))
		},
		"as an option": func(r *rig, t *testing.T) error {
			return second(r.SetConfigOption(t.Context(), &supervisorv1.SetConfigOptionRequest{
				SessionId: "s1", ConfigId: "m", To: &supervisorv1.SetConfigOptionRequest_Value{Value: "auto"},
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &choosy{byOption: true}
			var set2 part
			c.own = map[string]part{methodSetConfigOption: func(a *scripted, m message) {
				if strings.Contains(string(m.Params), `"read-only"`) {
					refuse(-32603, "not today")(a, m)
					return
				}
				set2(a, m)
			}}
			r, a := c.chosen(t)
			set2 = a.parts[methodSetConfigOption]
			r.again(t)
			if err := second(r.SetModel(t.Context(), &supervisorv1.SetModelRequest{SessionId: "s1", ModelId: "small"})); err != nil {
				t.Fatal(err)
			}
			_, err := r.prompt("s1", "hi")
			wantFault(t, err, fault.Precondition, noKind, "takes no prompt")
			if err := set(r, t); err != nil {
				t.Fatal(err)
			}
			if _, err := r.prompt("s1", "hi"); err != nil {
				t.Error(err)
			}
			// From then on this mode is the chosen one.
			r.again(t)
			if now, calls := c.is(); now.mode != "auto" || now.model != "small" || !slices.Equal(calls, []string{"brave true"}) {
				t.Errorf("the agent is %v after %q", now, calls)
			}
		})
	}
}

func TestRestore_FailedModelAndOptionAreReported(t *testing.T) {
	c := &choosy{own: map[string]part{
		"session/resume": answer(`{"modes":{"currentModeId":"auto","availableModes":[{"id":"auto","name":"A"},{"id":"read-only","name":"R"}]},` +
			`"models":{"currentModelId":"tiny","availableModels":[{"modelId":"tiny","name":"T"}]},` +
			`"configOptions":[{"id":"effort","name":"E","type":"select","currentValue":"low","options":[]}]}`),
	}}
	r, _ := c.chosen(t)
	sub := r.hub.Subscribe("bot-1", "s1")
	defer sub.Close()
	r.again(t)
	if now, calls := c.is(); now.mode != "read-only" || !slices.Equal(calls, []string{"mode read-only"}) {
		t.Errorf("the agent is in mode %q after %q", now.mode, calls)
	}
	if _, err := r.prompt("s1", "hi"); err != nil {
		t.Error(err)
	}
	all := notices(t, r, sub)
	if len(all) != 1 || all[0].GetSeverity() != "warning" || all[0].GetTitle() != "The session is not as it was" {
		t.Fatalf("it receives %v", all)
	}
	for _, part := range []string{`its model was "large" and is "tiny" now (there is no model "large": there are tiny)`, `its option "brave" was "on" and may be another one now (there is no option "brave": there are effort)`} {
		if !strings.Contains(all[0].GetDescription(), part) {
			t.Errorf("the notice is %q, and not %q", all[0].GetDescription(), part)
		}
	}
}

func TestRestore_CrashKeepsWantedSettings(t *testing.T) {
	c := &choosy{}
	c.own = map[string]part{"session/set_mode": func(a *scripted, _ message) {
		c.mu.Lock()
		c.own = nil
		c.mu.Unlock()
		a.crash()
	}}
	r, a := c.chosen(t)
	sub := r.hub.Subscribe("bot-1", "s1")
	defer sub.Close()
	a.crash()
	r.until("bot", running, 2)
	if now, _ := c.is(); now != (picked{"read-only", "large", `"low"`, "true"}) {
		t.Errorf("the agent is %v", now)
	}
	if _, err := r.prompt("s1", "hi"); err != nil {
		t.Error(err)
	}
	if all := notices(t, r, sub); len(all) != 0 {
		t.Errorf("it receives %v", all)
	}
}

func TestRestore_StuckModelDoesNotBlockMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &choosy{own: map[string]part{methodSetModel: ignore, methodSetConfigOption: ignore}}
		r, a := c.chosen(t)
		a.crash()
		r.until("bot", waiting, 0)
		began := time.Now()
		r.until("bot", running, 1)
		if took := time.Since(began); took > restoreTimeout+time.Second {
			t.Errorf("it took %v", took)
		}
		if now, _ := c.is(); now.mode != "read-only" {
			t.Errorf("the agent is in mode %q", now.mode)
		}
		if _, err := r.prompt("s1", "hi"); err != nil {
			t.Error(err)
		}
		r.Close()
		r.hub.Close()
	})
}

func TestRestore_ClosedSessionIsNotReported(t *testing.T) {
	asked, goOn := make(chan struct{}, 2), make(chan struct{})
	c := &choosy{own: map[string]part{"session/set_mode": func(a *scripted, m message) {
		asked <- struct{}{}
		<-goOn
		refuse(-32603, "not today")(a, m)
	}}}
	r, a := c.chosen(t)
	sub := r.hub.Subscribe("bot-1", "s1")
	defer sub.Close()
	a.crash()
	await(t, asked)
	if _, err := r.CloseSession(t.Context(), &supervisorv1.CloseSessionRequest{SessionId: "s1"}); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	r.until("bot", running, 1)
	if all := notices(t, r, sub); len(all) != 0 {
		t.Errorf("it receives %v", all)
	}
}
