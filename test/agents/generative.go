package agents

import (
	"net/http"
	"testing"

	"github.com/acphost/acphost/test/gemini"
)

// Generative starts a model that speaks Gemini's API, as Gemini CLI calls it.
func Generative(t testing.TB, steps ...Step) *Model {
	t.Helper()
	return serve(t, steps, func(m *Model, w http.ResponseWriter, r *http.Request) { gemini.Answer(generative{m}, w, r) })
}

// generative plays a model's script to package gemini.
type generative struct{ *Model }

// Next implements gemini.Script.
func (g generative) Next(_ string, body []byte) gemini.Step {
	step := g.next(body)
	to := gemini.Step{Text: step.Text}
	for _, c := range step.Calls {
		to.Calls = append(to.Calls, gemini.Call{Name: c.Name, Args: c.Args})
	}
	return to
}
