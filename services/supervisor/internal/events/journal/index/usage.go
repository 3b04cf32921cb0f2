package index

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
	"github.com/acphost/acphost/services/supervisor/internal/events/usage"
)

// maxOpen is the limit of tracked concurrent turns of a session, which usually has one. A turn that has not ended
// within maxTurn is dropped.
const (
	maxOpen = 16
	maxTurn = 24 * time.Hour
)

// Usage updates a folder's index, and yields the usage of agents between two times, in quarters of an hour. It returns
// an error of yield unchanged.
func Usage(ctx context.Context, dir string, from, until time.Time, yield func(at time.Time, agent string, t *usage.Turns) error) error {
	return withCurrent(ctx, dir, func(x *Index) error { return x.usage(ctx, from, until, yield) })
}

func (x *Index) usage(ctx context.Context, from, until time.Time, yield func(at time.Time, agent string, t *usage.Turns) error) error {
	rows, err := x.db.QueryContext(ctx, `SELECT agent, quarter, times, tokens, '', 0.0 FROM turns JOIN sessions USING (file) WHERE quarter >= ?1 AND quarter < ?2
		UNION ALL SELECT agent, quarter, NULL, NULL, currency, amount FROM costs JOIN sessions USING (file) WHERE quarter >= ?1 AND quarter < ?2`,
		quarterOf(from), quarterOf(until))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var agent, currency string
		var quarter int64
		var amount float64
		var times, tokens []byte
		if err := rows.Scan(&agent, &quarter, &times, &tokens, &currency, &amount); err != nil {
			return err
		}
		t, err := turnsOf(times, tokens)
		if err != nil {
			return fmt.Errorf("journal index: %w", err)
		}
		if times == nil {
			t.Costs = map[string]float64{currency: amount}
		}
		if err := yield(time.Unix(quarter*int64(usage.Quarter/time.Second), 0), agent, t); err != nil {
			return err
		}
	}
	return rows.Err()
}

// turnsOf decodes turns as stored in the index.
func turnsOf(times, tokens []byte) (*usage.Turns, error) {
	t := &usage.Turns{}
	if times != nil {
		if err := t.Times.UnmarshalBinary(times); err != nil {
			return nil, err
		}
	}
	if tokens != nil {
		t.Tokens = &supervisorv1.TokenUsage{}
		if err := proto.Unmarshal(tokens, t.Tokens); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// quarterOf returns the number of the quarter of an hour that contains a time.
func quarterOf(t time.Time) int64 { return t.Unix() / int64(usage.Quarter/time.Second) }

// usageOf collects the indexed usage of a file from its entries. A turn is counted at its end. To know its start,
// reading continues at an offset at which no turn was active, and skips entries that were counted before.
type usageOf struct {
	counted int64           // entries before this offset were counted
	safe    int64           // the offset for the next update
	cost    sql.NullFloat64 // the session's cost in the last report; null: unknown

	decoder *event.Decoder
	began   []openTurn // active turns, oldest first
	loading int        // requests to load the session
	found   map[int64]*usage.Turns
}

// openTurn is an active turn, with the id of its request.
type openTurn struct {
	id string
	at time.Time
}

// fold adds an entry between two offsets.
func (u *usageOf) fold(tx *sql.Tx, s *summary, file string, e *journal.Entry, at, next int64) error {
	if !matters(e) {
		u.settle(next)
		return nil
	}
	if u.decoder == nil {
		u.decoder = event.NewDecoder(frame.Agent{Name: s.Agent}, nil)
	}
	counts := at >= u.counted
	id := string(e.ID)
	if id == "" {
		id = string(acp.Get(e.Message(), "id"))
	}
	if len(u.began) > 0 && e.Time.Sub(u.began[0].at) > maxTurn {
		u.began = u.began[1:]
	}
	switch {
	case e.Method == acp.MethodSessionLoad || e.Method == acp.MethodSessionResume:
		u.loading++
	case e.Answers == acp.MethodSessionLoad || e.Answers == acp.MethodSessionResume:
		u.loading = max(0, u.loading-1)
	case e.Method == acp.MethodSessionPrompt:
		u.loading = 0 // as the decoder does
	case (e.Answers == acp.MethodSessionNew || e.Answers == acp.MethodSessionFork) && counts:
		u.cost = sql.NullFloat64{Valid: true} // an earlier session with this id was another one
	}
	if len(e.Message()) == 0 { // content is not recorded
		switch {
		case e.Method == acp.MethodSessionPrompt:
			u.begin(id, e.Time)
		case e.Answers == acp.MethodSessionPrompt:
			u.end(id, e.Time, nil, counts)
		}
	}
	for _, ev := range u.decoder.Frame(e.Observed(&frame.Agent{Name: s.Agent}, s.Session.Session)) {
		switch what := ev.GetEvent().(type) {
		case *supervisorv1.Event_TurnStarted:
			u.begin(id, e.Time)
		case *supervisorv1.Event_TurnEnded:
			u.end(id, e.Time, what.TurnEnded.GetUsage(), counts)
		case *supervisorv1.Event_Usage:
			if counts {
				if err := u.costs(tx, s, file, e.Time, what.Usage); err != nil {
					return err
				}
			}
		}
	}
	u.settle(next)
	return nil
}

// settle records the offset for the next update.
func (u *usageOf) settle(next int64) {
	if len(u.began) == 0 && u.loading == 0 {
		u.safe = next
	}
}

// matters reports whether an entry may be about turns or usage. Most entries are pieces of messages, and are not.
func matters(e *journal.Entry) bool {
	switch {
	case e.Dir == "":
		return false
	case e.Method == acp.MethodSessionUpdate:
		return e.Dir == frame.AgentToClient.String() && (bytes.Contains(e.Frame, []byte("usage")) || // usage_update, _meta.usage
			bytes.Contains(e.Frame, []byte(`"state_update"`)) || bytes.Contains(e.Frame, []byte(`"stateUpdate"`)))
	}
	for _, method := range [...]string{acp.MethodSessionPrompt, acp.MethodSessionLoad, acp.MethodSessionResume, acp.MethodSessionNew, acp.MethodSessionFork} {
		if e.Answers == method || e.Method == method && e.Dir == frame.ClientToAgent.String() {
			return true
		}
	}
	return e.Method == acp.MethodSessionEndTurn || e.Method == acp.MethodInitialize || e.Answers == acp.MethodInitialize
}

func (u *usageOf) begin(id string, at time.Time) {
	if len(u.began) == maxOpen {
		u.began = u.began[1:]
	}
	u.began = append(u.began, openTurn{id, at})
}

// end ends the turn of the request with an id, or the oldest turn if the agent ends it other than by an answer.
func (u *usageOf) end(id string, at time.Time, tokens *supervisorv1.TokenUsage, counts bool) {
	if len(u.began) == 0 {
		return
	}
	i := max(0, slices.IndexFunc(u.began, func(o openTurn) bool { return o.id == id }))
	took := at.Sub(u.began[i].at)
	u.began = slices.Delete(u.began, i, i+1)
	if counts {
		u.in(at).End(took, tokens)
	}
}

// in returns the turns of the quarter of an hour that contains a time.
func (u *usageOf) in(at time.Time) *usage.Turns {
	if u.found == nil {
		u.found = map[int64]*usage.Turns{}
	}
	quarter := quarterOf(at)
	if u.found[quarter] == nil {
		u.found[quarter] = &usage.Turns{}
	}
	return u.found[quarter]
}

// costs counts the cost of a session since its last report: agents report the sum. The cost before this file is in
// another file, unless the agent counts from 0 again.
func (u *usageOf) costs(tx *sql.Tx, s *summary, file string, at time.Time, c *supervisorv1.ContextUsage) error {
	cost := c.GetCost()
	if c.Cost == nil || math.IsNaN(cost) || math.IsInf(cost, 0) {
		return nil
	}
	if !u.cost.Valid {
		err := tx.QueryRow(`SELECT cost FROM sessions WHERE session = ? AND agent = ? AND file <> ? AND started <= ? AND cost IS NOT NULL
			ORDER BY started DESC LIMIT 1`, s.Session.Session, s.Agent, file, nanos(s.Started)).Scan(&u.cost)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if !u.cost.Valid || cost < u.cost.Float64 {
			u.cost = sql.NullFloat64{Valid: true}
		}
	}
	if more := cost - u.cost.Float64; more > 0 {
		u.in(at).Spend(more, usage.Currency(c.GetCurrency()))
		u.cost.Float64 = cost
	}
	return nil
}

// write adds the collected usage of a file to the index.
func (u *usageOf) write(tx *sql.Tx, file string) error {
	for quarter, found := range u.found {
		t, err := kept(tx, file, quarter)
		if err != nil {
			return err
		}
		t.Add(found)
		if _, err := tx.Exec("DELETE FROM costs WHERE file = ? AND quarter = ?", file, quarter); err != nil {
			return err
		}
		for currency, amount := range t.Costs {
			if _, err := tx.Exec("INSERT INTO costs (file, quarter, currency, amount) VALUES (?, ?, ?, ?)", file, quarter, currency, amount); err != nil {
				return err
			}
		}
		if t.Times.Count() == 0 {
			continue
		}
		times, err := t.Times.AppendBinary(nil)
		if err != nil {
			return err
		}
		var tokens []byte
		if t.Tokens != nil {
			if tokens, err = proto.Marshal(t.Tokens); err != nil {
				return err
			}
		}
		if _, err := tx.Exec("INSERT OR REPLACE INTO turns (file, quarter, times, tokens) VALUES (?, ?, ?, ?)", file, quarter, times, tokens); err != nil {
			return err
		}
	}
	return nil
}

// kept returns the stored usage of a file in a quarter of an hour.
func kept(tx *sql.Tx, file string, quarter int64) (*usage.Turns, error) {
	var times, tokens []byte
	err := tx.QueryRow("SELECT times, tokens FROM turns WHERE file = ? AND quarter = ?", file, quarter).Scan(&times, &tokens)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	t, err := turnsOf(times, tokens)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query("SELECT currency, amount FROM costs WHERE file = ? AND quarter = ?", file, quarter)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	t.Costs = map[string]float64{}
	for rows.Next() {
		var currency string
		var amount float64
		if err := rows.Scan(&currency, &amount); err != nil {
			return nil, err
		}
		t.Costs[currency] = amount
	}
	return t, rows.Err()
}
