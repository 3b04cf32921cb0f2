// Package top implements "acphost top": displays the current activity of all agents on one screen.
package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/reach"
)

const (
	// minRedraw is the minimum time between two updates of the screen.
	minRedraw = 250 * time.Millisecond
	// maxRedraw is the interval of updates without events, because times change, and supervisors start and end.
	maxRedraw = 2 * time.Second
)

// New returns the command "top".
func New(call *command.Call) *cobra.Command {
	var which reach.Flags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the current activity of all agents, live",
		Long: `Show the current activity of all agents, live: open questions, sessions, agents, and
commands in terminals. The arrow keys, or j and k, move through the screen; q leaves
it.

If standard output is not a terminal, and with --json, the activity is printed once.`,
		Example: `  acphost top
  acphost top --json | jq '.questions | length'`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := which.Check(cmd); err != nil {
				return err
			}
			connect := func() (*connected, error) { return connectAll(cmd, call, &which) }
			if asJSON || !call.Terminal(call.Stdout) || !call.Terminal(call.Stdin) {
				return once(cmd.Context(), call, connect, asJSON)
			}
			return live(cmd.Context(), call, connect)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it once, as a JSON object")
	which.Register(cmd)
	return cmd
}

// once prints the current state.
func once(ctx context.Context, call *command.Call, connect func() (*connected, error), asJSON bool) error {
	c, err := connect()
	if err != nil {
		return err
	}
	defer c.close()
	now := c.snapshot(ctx)
	for _, err := range now.failed {
		call.PrintError(err)
		call.Status = command.StatusFailed
	}
	if asJSON {
		object, err := now.json()
		if err != nil {
			return err
		}
		return output.PrintJSON(call, object)
	}
	_, err = io.WriteString(call.Stdout, now.text(time.Now(), 0, false))
	return err
}

// live shows the state until the user quits.
func live(ctx context.Context, call *command.Call, connect func() (*connected, error)) error {
	c, err := connect() // report an error before the screen is used
	if err != nil {
		return err
	}
	c.close()
	ctx, stop := context.WithCancel(ctx)
	p := tea.NewProgram(&screen{color: output.UseColor(call, true)}, tea.WithInput(call.Stdin), tea.WithOutput(call.Stdout), tea.WithContext(ctx),
		tea.WithoutSignalHandler(), tea.WithFPS(30)) // signals end ctx
	done := make(chan struct{})
	go func() {
		defer close(done)
		feed(ctx, connect, p.Send)
	}()
	_, err = p.Run()
	stop()
	<-done
	if errors.Is(err, tea.ErrProgramKilled) || errors.Is(err, context.Canceled) {
		return nil // the command was ended by a signal
	}
	return err
}

// feed requests a snapshot after each event, and passes it to tell.
func feed(ctx context.Context, connect func() (*connected, error), tell func(tea.Msg)) {
	for ctx.Err() == nil {
		c, err := connect()
		if err != nil {
			tell(&snapshot{failed: []error{err}})
			sleep(ctx, maxRedraw)
			continue
		}
		c.follow(ctx, tell)
		c.close()
	}
}

// follow passes snapshots of a set of supervisors to tell, until the set changes.
func (c *connected) follow(ctx context.Context, tell func(tea.Msg)) {
	ctx, stop := context.WithCancel(ctx)
	happened := make(chan struct{}, 1)
	var watching []chan struct{}
	for _, at := range c.all {
		over := make(chan struct{})
		watching = append(watching, over)
		go func() {
			defer close(over)
			watch(ctx, at, happened)
		}()
	}
	defer func() {
		stop()
		for _, over := range watching {
			<-over
		}
	}()
	for ctx.Err() == nil && !c.changed(ctx) {
		tell(c.snapshot(ctx))
		sleep(ctx, minRedraw)
		select {
		case <-ctx.Done():
		case <-happened:
		case <-time.After(maxRedraw):
		}
	}
}

// watch reports events of a supervisor. If watching fails, or is too slow, snapshots are still requested at intervals.
func watch(ctx context.Context, at *reach.Supervisor, happened chan<- struct{}) {
	events, err := at.State.WatchEvents(ctx, &supervisorv1.WatchEventsRequest{MaxBatch: 1000})
	if err != nil {
		return
	}
	for {
		if _, err := events.Recv(); err != nil {
			return
		}
		select {
		case happened <- struct{}{}:
		default:
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// screen is the model of Bubble Tea.
type screen struct {
	color         bool
	width, height int
	first         int // number of the first line
	now           *snapshot
}

// Init implements tea.Model.
func (*screen) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (s *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case *snapshot:
		s.now = msg
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return s, tea.Quit
		case "down", "j":
			s.first++
		case "up", "k":
			s.first--
		case "pgdown", "space":
			s.first += s.height / 2
		case "pgup":
			s.first -= s.height / 2
		case "home", "g":
			s.first = 0
		}
	}
	return s, nil
}

// View implements tea.Model.
func (s *screen) View() tea.View {
	text := "looking for running agents\n"
	if s.now != nil {
		text = s.now.text(time.Now(), s.width, s.color)
	}
	shown, first := window(text, s.first, s.width, s.height)
	s.first = first
	v := tea.NewView(shown)
	v.AltScreen = true
	v.WindowTitle = "acphost top"
	return v
}

// hint returns the last line of the screen.
func hint(above, below int) string {
	switch {
	case above == 0 && below == 0:
		return "q leaves"
	case below == 0:
		return fmt.Sprintf("%d lines above: up; q leaves", above)
	case above == 0:
		return fmt.Sprintf("%d lines below: down; q leaves", below)
	}
	return fmt.Sprintf("%d lines above, %d below: up, down; q leaves", above, below)
}
