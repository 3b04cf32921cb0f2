package policy

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/ext"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// maxCost bounds the evaluation of one condition, in CEL's units of cost.
const maxCost = 1_000_000

// condition is a compiled "when". Safe for concurrent use.
type condition struct {
	source  string
	program cel.Program
	// ofCommand, ofPaths: the condition looks at the action's command, its paths.
	ofCommand, ofPaths bool
}

// environment is made once: it is costly, and does not change.
var environment = sync.OnceValues(newEnvironment)

// newEnvironment knows the action and nothing else: no clock, no chance, nothing outside.
func newEnvironment() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Types(&permissionv1.Action{}),
		cel.Variable("action", cel.ObjectType("acphost.permission.v1.Action")),
		ext.Strings(), ext.Lists(),
	)
}

// conditionError is a mistake in a condition. offset counts the characters before it that are no white space; negative:
// it has no place.
type conditionError struct {
	offset  int
	message string
}

func newCondition(env *cel.Env, source string) (*condition, []conditionError) {
	ast, issues := env.Compile(source)
	if issues.Err() != nil {
		var errs []conditionError
		for _, e := range issues.Errors() {
			errs = append(errs, conditionError{visibleBefore(source, e.Location.Line(), e.Location.Column()), e.Message})
		}
		return nil, errs
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return nil, []conditionError{{0, fmt.Sprintf("expected a condition that is true or false, got %s", ast.OutputType())}}
	}
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost))
	if err != nil {
		return nil, []conditionError{{-1, err.Error()}}
	}
	c := &condition{source: source, program: program}
	c.looksAt(celast.NavigateAST(ast.NativeRep()))
	return c, nil
}

// looksAt finds out what the condition looks at. One that hands the action on as a whole may look at everything.
func (c *condition) looksAt(e celast.NavigableExpr) {
	switch {
	case e.Kind() == celast.SelectKind && isAction(e.AsSelect().Operand()):
		c.ofCommand = c.ofCommand || e.AsSelect().FieldName() == "command"
		c.ofPaths = c.ofPaths || e.AsSelect().FieldName() == "paths"
		return
	case isAction(e):
		c.ofCommand, c.ofPaths = true, true
	}
	for _, child := range e.Children() {
		c.looksAt(child)
	}
}

func isAction(e celast.Expr) bool { return e.Kind() == celast.IdentKind && e.AsIdent() == "action" }

// forbids reports how sure it is that the condition of a deny or ask rule holds. One that fails may hold; so may one that
// is false of a command or of paths that are not known in full, since of the whole it might be true. A condition that
// looks at neither is told by what is known. An error comes with maybe.
func (c *condition) forbids(a *action) (match, error) {
	held, err := c.holds(a.Action)
	switch {
	case err != nil:
		return maybe, err
	case held:
		return yes, nil
	case c.ofCommand && a.unclear, c.ofPaths && (a.vague || a.unclear):
		return maybe, nil
	}
	return no, nil
}

// holds evaluates the condition.
func (c *condition) holds(a *permissionv1.Action) (bool, error) {
	if a == nil {
		a = &permissionv1.Action{}
	}
	value, _, err := c.program.Eval(map[string]any{"action": a})
	if err != nil {
		return false, err
	}
	held, ok := value.Value().(bool)
	if !ok {
		return false, errors.New("the condition is neither true nor false")
	}
	return held, nil
}

// visibleBefore counts the characters that are no white space before a place in text; line is from 1, column from 0.
func visibleBefore(text string, line, column int) int {
	lines := strings.Split(text, "\n")
	if line < 1 || line > len(lines) {
		return -1
	}
	last := []rune(lines[line-1])
	before := append(lines[:line-1], string(last[:min(max(column, 0), len(last))]))
	return utf8.RuneCountInString(strings.Join(strings.Fields(strings.Join(before, " ")), ""))
}

// placeIn finds a place inside a scalar of a YAML file that begins at line and column, both from 1. YAML changes only
// the white space of a plain or block scalar, so what can be seen is counted.
func placeIn(data []byte, line, column, offset int) (int, int) {
	lines := strings.Split(string(data), "\n")
	if offset < 0 || line < 1 || line > len(lines) {
		return line, column
	}
	atLine, atColumn := line-1, column-1
	if first := []rune(lines[atLine]); atColumn < len(first) {
		switch first[atColumn] {
		case '|', '>':
			atLine, atColumn = atLine+1, 0
		case '"', '\'':
			atColumn++
		}
	}
	for ; atLine < len(lines); atLine, atColumn = atLine+1, 0 {
		runes := []rune(lines[atLine])
		for i := atColumn; i < len(runes); i++ {
			if unicode.IsSpace(runes[i]) {
				continue
			}
			if offset == 0 {
				return atLine + 1, i + 1
			}
			offset--
		}
	}
	return line, column
}
