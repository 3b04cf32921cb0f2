package link

import (
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

func TestCurrentParams_RejectsWriteWithoutContent(t *testing.T) {
	for params, refused := range map[string]bool{
		`{"path":"/w/a"}`: true, `{"path":"/w/a","content":null}`: true, `{"path":"/w/a","content":""}`: false, `{"path":"/w/a","content":"x"}`: false,
	} {
		_, err := currentParams(acp.MethodWriteTextFile, []byte(params))
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "content: a string is required") {
			t.Errorf("%s: %v", params, err)
		}
	}
}
