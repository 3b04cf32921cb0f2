// Package usage sums up the usage of agents, by day and agent: turns, tokens, cost, decisions, and their durations.
//
// The package knows figures and the limits of a response. It must not know where the figures are recorded: package
// journal/index records those of turns, package audit those of decisions, and callers pass them on.
package usage

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// Quarter is the resolution of figures. In every time zone, days begin at a full quarter of an hour.
const Quarter = 15 * time.Minute

// Limits of a response, and of the memory for computing it.
const (
	maxAgents     = 20  // with separate rows
	maxKnown      = 100 // agents with rows in memory
	maxCurrencies = 8   // in a row
	maxAgentName  = 128 // bytes
	// maxTokens and maxCost limit the amount that one report can add: an agent may report anything.
	maxTokens = 1 << 32
	maxCost   = 1e6
)

// Turns are the turns of one agent, or of one session, that ended in the same quarter of an hour, and their cost.
type Turns struct {
	Times  Times
	Tokens *supervisorv1.TokenUsage // nil: the agent does not report tokens
	Costs  map[string]float64       // by currency: see Currency
}

// End adds a turn that ended: its duration, and its tokens if the agent reports them.
func (t *Turns) End(took time.Duration, tokens *supervisorv1.TokenUsage) {
	t.Times.Add(took)
	if tokens != nil {
		t.Tokens = client.AddTokens(t.Tokens, &supervisorv1.TokenUsage{
			Total: min(tokens.GetTotal(), maxTokens), Input: min(tokens.GetInput(), maxTokens), Output: min(tokens.GetOutput(), maxTokens),
			Thought: min(tokens.GetThought(), maxTokens), CachedRead: min(tokens.GetCachedRead(), maxTokens), CachedWrite: min(tokens.GetCachedWrite(), maxTokens),
		})
	}
}

// Spend adds an amount.
func (t *Turns) Spend(amount float64, currency string) {
	if !(amount > 0) { // also NaN
		return
	}
	if t.Costs == nil {
		t.Costs = map[string]float64{}
	}
	spend(t.Costs, currency, min(amount, maxCost))
}

// spend adds an amount to at most maxCurrencies sums, of which one has no currency.
func spend(costs map[string]float64, currency string, amount float64) {
	named := len(costs)
	if _, ok := costs[""]; ok {
		named--
	}
	if _, ok := costs[currency]; !ok && named >= maxCurrencies-1 {
		currency = ""
	}
	costs[currency] += amount
}

// Currency returns a code of three capital letters; "" for any other text.
func Currency(code string) string {
	if len(code) != 3 || strings.ContainsFunc(code, func(r rune) bool { return r < 'A' || r > 'Z' }) {
		return ""
	}
	return code
}

// Decision has the counted properties of one decision.
type Decision struct {
	// Verdict is the policy's: "allow", "deny", "ask"; others are not counted.
	Verdict string
	// Unasked reports whether the agent acted without asking, so that the verdict came too late.
	Unasked bool
	// Repeats is how often an earlier decision was reused, which took no time; 0: this is a decision.
	Repeats uint64
	// Policy is the duration without the user, and User the user's; 0: the user was not asked.
	Policy, User time.Duration
}

// Sums sums up by day and agent. Not safe for concurrent use.
type Sums struct {
	days []time.Time
	rows map[rowKey]*row
	used map[string]uint64 // turns and decisions, by agent
}

type rowKey struct {
	day   int
	agent string
}

type row struct {
	turns        Turns
	allowed      uint64
	denied       uint64
	asked        uint64
	unasked      uint64
	policy, user Times
}

// New returns empty sums. days are the beginnings of the days in order; the last is the end of the last day.
func New(days []time.Time) *Sums {
	return &Sums{days: days, rows: map[rowKey]*row{}, used: map[string]uint64{}}
}

// at returns the row for a time and an agent; nil: the time is in none of the days.
func (s *Sums) at(t time.Time, agent string, uses uint64) *row {
	day, found := slices.BinarySearchFunc(s.days, t, time.Time.Compare)
	if !found {
		day--
	}
	if day < 0 || day >= len(s.days)-1 {
		return nil
	}
	agent = named(agent)
	if _, ok := s.used[agent]; !ok && len(s.used) >= maxKnown {
		agent = ""
	}
	s.used[agent] += uses
	return s.row(rowKey{day, agent})
}

func (s *Sums) row(key rowKey) *row {
	r := s.rows[key]
	if r == nil {
		r = &row{}
		s.rows[key] = r
	}
	return r
}

// Turns adds the usage of an agent in the quarter of an hour that begins at a time.
func (s *Sums) Turns(at time.Time, agent string, t *Turns) {
	if r := s.at(at, agent, t.Times.n); r != nil {
		r.turns.Add(t)
	}
}

// Add adds other turns.
func (t *Turns) Add(o *Turns) {
	t.Times.merge(&o.Times)
	t.Tokens = client.AddTokens(t.Tokens, o.Tokens)
	for currency, amount := range o.Costs {
		if t.Costs == nil {
			t.Costs = map[string]float64{}
		}
		spend(t.Costs, currency, amount)
	}
}

// named returns an agent's name as in rows; "" for all others.
func named(agent string) string {
	agent, _ = safetext.Prefix(strings.ToValidUTF8(agent, "?"), maxAgentName)
	return cmp.Or(agent, "?")
}

// Decisions sums up decisions by quarters of an hour and agents, so that the days of any time zone can be computed. The
// zero value is empty. Not safe for concurrent use.
type Decisions struct {
	cells map[cellKey]*cell
	order []cellKey // in order of arrival: the first agents have separate rows
}

type cellKey struct {
	quarter int64 // its start, in seconds since 1970
	agent   string
}

type cell struct {
	row
	uses uint64
}

// Len returns the number of sums, one for each agent and quarter of an hour.
func (d *Decisions) Len() int { return len(d.order) }

// Add adds a decision about an action of an agent at a time.
func (d *Decisions) Add(at time.Time, agent string, one *Decision) {
	key := cellKey{at.Truncate(Quarter).Unix(), named(agent)}
	c := d.cells[key]
	if c == nil {
		if d.cells == nil {
			d.cells = map[cellKey]*cell{}
		}
		c = &cell{}
		d.cells[key] = c
		d.order = append(d.order, key)
	}
	c.uses += max(1, one.Repeats)
	c.decide(one)
}

// Decisions adds decisions, without changing them.
func (s *Sums) Decisions(d *Decisions) {
	for _, key := range d.order {
		c := d.cells[key]
		if r := s.at(time.Unix(key.quarter, 0), key.agent, c.uses); r != nil {
			r.merge(&c.row)
		}
	}
}

// decide counts a decision.
func (r *row) decide(d *Decision) {
	n := max(1, d.Repeats)
	switch {
	case d.Unasked:
		r.unasked += n
		return
	case d.Verdict == "allow":
		r.allowed += n
	case d.Verdict == "deny":
		r.denied += n
	case d.Verdict == "ask":
		r.asked += n
	default:
		return
	}
	if d.Repeats == 0 {
		r.policy.Add(d.Policy)
	}
	if d.User > 0 {
		r.user.Add(d.User)
	}
}

func (r *row) merge(o *row) {
	r.turns.Add(&o.turns)
	r.allowed += o.allowed
	r.denied += o.denied
	r.asked += o.asked
	r.unasked += o.unasked
	r.policy.merge(&o.policy)
	r.user.merge(&o.user)
}

// Response returns the sums. If there are too many agents, those with the least use are summed up as others.
func (s *Sums) Response() *supervisorv1.GetUsageResponse {
	agents := make([]string, 0, len(s.used))
	for agent := range s.used {
		if agent != "" {
			agents = append(agents, agent)
		}
	}
	slices.SortFunc(agents, func(a, b string) int { return cmp.Or(cmp.Compare(s.used[b], s.used[a]), cmp.Compare(a, b)) })
	out := &supervisorv1.GetUsageResponse{}
	if len(agents) > maxAgents {
		others := agents[maxAgents:]
		out.OtherAgents = uint32(len(others))
		for day := range len(s.days) - 1 {
			for _, agent := range others {
				if r := s.rows[rowKey{day, agent}]; r != nil {
					s.row(rowKey{day, ""}).merge(r)
					delete(s.rows, rowKey{day, agent})
				}
			}
		}
	}
	if s.used[""] > 0 {
		out.OtherAgents++ // at least one
	}
	for key, r := range s.rows {
		out.Rows = append(out.Rows, r.message(key))
	}
	slices.SortFunc(out.Rows, func(a, b *supervisorv1.UsageRow) int {
		return cmp.Or(cmp.Compare(a.GetDay(), b.GetDay()), cmp.Compare(a.GetAgent(), b.GetAgent()))
	})
	return out
}

func (r *row) message(key rowKey) *supervisorv1.UsageRow {
	m := &supervisorv1.UsageRow{
		Day: uint32(key.day), Agent: key.agent, Turns: r.turns.Times.n, TurnTimes: r.turns.Times.message(), Tokens: r.turns.Tokens,
		Allowed: r.allowed, Denied: r.denied, Asked: r.asked, Unasked: r.unasked,
		PolicyTimes: r.policy.message(), UserTimes: r.user.message(),
	}
	for currency, amount := range r.turns.Costs {
		m.Costs = append(m.Costs, &supervisorv1.Cost{Amount: min(amount, math.MaxFloat64), Currency: currency})
	}
	slices.SortFunc(m.Costs, func(a, b *supervisorv1.Cost) int { return cmp.Compare(a.GetCurrency(), b.GetCurrency()) })
	return m
}
