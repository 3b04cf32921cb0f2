package config

import (
	"fmt"

	"github.com/acphost/acphost/internal/lazyregexp"
)

// path is the path of a value in the file, as it is shown in errors and used by yamlproto: agent.quirks[0],
// routes["fs/*"].
type path string

// to returns a path below p. The steps are names of fields, keys of maps, and indices of lists, which are ints.
func (p path) to(steps ...any) path {
	for _, step := range steps {
		name, isName := step.(string)
		switch {
		case !isName:
			p += path(fmt.Sprintf("[%d]", step))
		case plain.MatchString(name):
			p += path("." + name)
		default:
			p += path(fmt.Sprintf("[%q]", name))
		}
	}
	return p
}

var plain = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_-]*$`)
